//! What the ends share.

pub mod cache;
pub mod digests;
pub mod dirs;
pub mod frontier;
pub mod metadata_warnings;
pub mod thread_pool;

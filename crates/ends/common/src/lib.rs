//! What the ends share.

pub mod cache;
pub mod crew;
pub mod digests;
pub mod dirs;
pub mod frontier;
pub mod left_behind;

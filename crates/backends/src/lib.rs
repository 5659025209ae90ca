//! Where bytes live and how they travel: one folder for each kind of end.

mod bootstrap;
mod cache;
mod digests;
mod dirs;
mod frontier;
mod left_behind;
pub mod local;
pub mod object;
pub mod peer;
pub mod sftp;

pub use bootstrap::bootstrap;

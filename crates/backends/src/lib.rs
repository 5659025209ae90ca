//! Where bytes live and how they travel: one folder for each kind of end.

mod bootstrap;
mod cache;
mod dirs;
pub mod local;
pub mod peer;
pub mod sftp;

pub use bootstrap::bootstrap;

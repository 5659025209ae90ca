//! Connections through ssh: to a remote haul, to an SFTP server, and for a command.
//!
//! [`dial`] has the contract of what opens connections; [`SshDialer`] opens them by starting ssh processes, and
//! [`bootstrap()`] copies haul to a host that has none.

mod asking;
mod bootstrap;
mod config;
pub mod dial;
mod dialer;
mod options;
mod process;
mod trouble;

pub use bootstrap::bootstrap;
pub use config::{Note, SshConfig};
pub use dialer::{Errand, Pipes, SshDialer};
pub use process::abandon;
pub use trouble::is_missing;

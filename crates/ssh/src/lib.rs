//! Connections through ssh: to a remote haul, to an SFTP server, or to run one command.
//!
//! [`dial`] is the contract of whatever opens connections. [`SshDialer`] opens them by starting ssh processes.
//! [`supervisor`] decides when a session opens further connections and when it logs in again. [`bootstrap()`] copies
//! haul to a host that lacks it.

mod announce;
mod bootstrap;
mod config;
pub mod dial;
mod dialer;
mod errand;
mod master;
mod options;
mod process;
pub mod supervisor;
mod terminal;
mod trouble;

pub use bootstrap::bootstrap;
pub use config::{Persist, SshConfig};
pub use dialer::{OpenPipes, Pipes, SshDialer};
pub use errand::Errand;
pub use process::abandon;
pub use trouble::{is_missing, no_login, sftp_only};

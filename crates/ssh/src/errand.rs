//! The purpose of an ssh process.

/// The program at the other end of an ssh process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// A remote haul, started with these words.
    Agent(String),
    /// The `sftp` subsystem.
    Sftp,
    /// A command, as the login shell reads it.
    Command(String),
}

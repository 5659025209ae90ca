//! `haul agent`.

use std::path::PathBuf;

use clap::Args;

/// The rights that the remote haul gives the local haul. For `command=` in authorized_keys: docs/RESTRICTED-AGENT.md.
#[derive(Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// Serve only this directory; symbolic links below it are not followed
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Allow reading only
    #[arg(long, requires = "root", group = "access")]
    pub(crate) read_only: bool,

    /// Allow reading and creating; existing entries are not replaced, changed or removed
    #[arg(long, requires = "root", group = "access")]
    pub(crate) append_only: bool,

    /// Allow reading, creating and replacing; nothing is removed
    #[arg(long, requires = "root", group = "access")]
    pub(crate) no_delete: bool,
}

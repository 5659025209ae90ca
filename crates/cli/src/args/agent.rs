//! Words of `haul agent`.

use std::path::PathBuf;

use clap::Args;

/// What a far end lets the near end do. For `command=` in authorized_keys: docs/RESTRICTED-AGENT.md.
#[derive(Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// Serve this folder only; no symbolic link in it is followed out of it
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Let the folder be read and nothing else
    #[arg(long, requires = "root", group = "access")]
    pub(crate) read_only: bool,

    /// Let new files be added; what is there is not replaced, changed or removed
    #[arg(long, requires = "root", group = "access")]
    pub(crate) append_only: bool,

    /// Let nothing be removed; files may be replaced
    #[arg(long, requires = "root", group = "access")]
    pub(crate) no_delete: bool,
}

//! `haul agent`: the remote side of a transfer.

use haul_agent::{Access, Restriction};
use haul_core::Result;

use crate::args::AgentArgs;
use crate::exit_code::Exit;

/// Serves the local haul over standard input and output.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if the directory of `--root` cannot be opened; errors of the connection.
pub(super) fn run(args: &AgentArgs) -> Result<Exit> {
    let access = match args {
        AgentArgs { read_only: true, .. } => Access::Read,
        AgentArgs { append_only: true, .. } => Access::Append,
        AgentArgs { no_delete: true, .. } => Access::NoDelete,
        _ => Access::All,
    };
    let restriction = args.root.clone().map(|root| Restriction { root, access });
    haul_agent::run(restriction.as_ref()).map(|()| Exit::Done)
}

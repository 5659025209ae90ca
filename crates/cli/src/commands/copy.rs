//! `haul copy`.

use haul_core::Result;
use haul_job::RemoveSources;

use super::transfer::{Transfer, run as run_transfer};
use crate::args::{CopyArgs, ListArgs};
use crate::exit_code::Exit;
use crate::render::SummaryCommand;
use crate::settings::{one_stdin, usage};

/// Copies the sources to the destination.
///
/// # Errors
/// Those of [`run_transfer`].
pub(super) fn run(args: CopyArgs) -> Result<Exit> {
    let CopyArgs { ends, transfer, list: ListArgs { files_from }, remove_source_files } = args;
    let no_destination = || {
        let (verb, word) = if remove_source_files { ("move", "mv") } else { ("copy", "copy") };
        usage(verb, format!("the destination is missing: haul {word} SRC DST"))
    };
    let [sources @ .., destination] = ends.as_slice() else { return Err(no_destination()) };
    if sources.is_empty() {
        return Err(no_destination());
    }
    if files_from.is_some() && sources.len() > 1 {
        let cause = "its paths are relative to one source, but several were given";
        return Err(usage("use --files-from", cause));
    }
    one_stdin(&transfer.filter, files_from.as_deref())?;
    run_transfer(&Transfer {
        command: SummaryCommand::Copy,
        sources,
        destination,
        files_from,
        args: &transfer,
        delete: None,
        remove_sources: remove_source_files.then_some(RemoveSources { strict: transfer.strict }),
    })
}

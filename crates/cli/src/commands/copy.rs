//! `haul copy`.

use std::slice;

use haul_core::Result;
use haul_job::RemoveSources;

use super::list_only;
use super::transfer::{Transfer, run as run_transfer};
use crate::args::{CopyArgs, DeltaMode, ListArgs, TransferArgs};
use crate::exit_code::Exit;
use crate::render::SummaryCommand;
use crate::settings::{one_stdin, usage};

/// Copies the sources to the destination.
///
/// # Errors
/// Those of [`run_transfer`].
pub(super) fn run(args: CopyArgs) -> Result<Exit> {
    let CopyArgs { ends, transfer, list: ListArgs { files_from }, all_destinations, remove_source_files } =
        args;
    if transfer.list_only {
        let sources =
            if all_destinations { ends.get(..1).unwrap_or_default() } else { list_only::sources(&ends) };
        return list_only::run(sources, files_from.as_ref(), &transfer);
    }
    let no_destination = || {
        let (verb, word) = if remove_source_files { ("move", "mv") } else { ("copy", "copy") };
        let list = "--list-only lists SRC";
        usage(verb, format!("the destination is missing: haul {word} SRC DST ({list})"))
    };
    let (sources, destination, others) = match (all_destinations, ends.as_slice()) {
        (false, [sources @ .., destination]) if !sources.is_empty() => (sources, destination, &[][..]),
        (true, [source, destination, others @ ..]) => {
            refuse_one_destination(&transfer, remove_source_files)?;
            (slice::from_ref(source), destination, others)
        }
        _ => return Err(no_destination()),
    };
    if files_from.is_some() && sources.len() > 1 {
        let cause = "its paths are relative to one source, but several were given";
        return Err(usage("use --files-from", cause));
    }
    one_stdin(&transfer.filter, files_from.as_deref())?;
    run_transfer(&Transfer {
        command: SummaryCommand::Copy,
        sources,
        destination,
        others,
        files_from,
        args: &transfer,
        delete: None,
        remove_sources: remove_source_files.then_some(RemoveSources { strict: transfer.strict }),
    })
}

/// Refuses options that concern one destination. The index is that of one, and moved files must be proved to be at one.
fn refuse_one_destination(args: &TransferArgs, moves: bool) -> Result<()> {
    let refused = [
        (moves, "--remove-source-files"),
        (args.relative, "--relative"),
        (args.index.index.is_some(), "--index"),
        (args.delta.inplace, "--inplace"),
        (args.delta.delta == DeltaMode::On, "--delta"),
        (args.older.backup || args.older.backup_dir.is_some(), "--backup"),
        (!args.older.link_dest.is_empty(), "--link-dest"),
        (!args.older.compare_dest.is_empty(), "--compare-dest"),
    ];
    match refused.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => {
            Err(usage("use --all-destinations", format!("{option} takes one destination")).on(option))
        }
        None => Ok(()),
    }
}

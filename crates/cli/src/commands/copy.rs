//! `haul copy`.

use haul_core::Result;

use super::output::transfer_settings;
use super::transfer::{Transfer, run as run_transfer};
use crate::args::CopyArgs;
use crate::ends::parse_end;
use crate::exit_code::Exit;
use crate::render::Command;
use crate::settings::{LinkSettings, TransferSettings, one_stdin, usage};

/// Makes the destination hold the sources.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(args: CopyArgs) -> Result<Exit> {
    let CopyArgs { ends, transfer, files_from } = args;
    let [sources @ .., destination] = ends.as_slice() else { return Err(no_destination()) };
    if sources.is_empty() {
        return Err(no_destination());
    }
    if files_from.is_some() && sources.len() > 1 {
        return Err(usage(
            "obey --files-from",
            "the paths in it are below one source, and there are several",
        ));
    }
    one_stdin(&transfer.filter, files_from.as_deref())?;
    let sources = sources.iter().map(|source| parse_end(source)).collect::<Result<_>>()?;
    run_transfer(Transfer {
        command: Command::Copy,
        sources,
        destination: parse_end(destination)?,
        files_from: files_from.map(|file| (file, transfer.filter.from0)),
        settings: TransferSettings::resolve(&transfer)?,
        link: LinkSettings::resolve(&transfer.link)?
            .packed(&transfer.compress)
            .with_stores(&transfer.store)
            .storing(&transfer.stored),
        on_full: transfer.full.on_full,
        limits: transfer.limits.clone(),
        index: transfer.index.clone(),
        output: transfer_settings(&transfer),
        delete: None,
    })
}

fn no_destination() -> haul_core::Error {
    usage("copy", "the destination is missing: haul copy SRC DST")
}

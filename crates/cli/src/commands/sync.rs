//! `haul sync`.

use haul_core::Result;
use haul_engine::Delete;

use super::output::transfer_settings;
use super::transfer::{Transfer, run as run_transfer};
use crate::args::SyncArgs;
use crate::ends::parse_end;
use crate::exit_code::Exit;
use crate::render::Command;
use crate::settings::{LinkSettings, TransferSettings, one_stdin, usage};

/// Makes the destination the same as the source.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(args: SyncArgs) -> Result<Exit> {
    let SyncArgs { ends, transfer, max_delete, force_delete, ignore_errors, delete: _implied } = args;
    let (source, destination) = match ends.as_slice() {
        [source, destination] => (source, destination),
        [_] => return Err(usage("sync", "the destination is missing: haul sync SRC DST")),
        _ => return Err(usage("sync", "it takes one source; `haul copy` takes several")),
    };
    one_stdin(&transfer.filter, None)?;
    run_transfer(Transfer {
        command: Command::Sync,
        sources: vec![parse_end(source)?],
        destination: parse_end(destination)?,
        files_from: None,
        settings: TransferSettings::resolve(&transfer)?,
        link: LinkSettings::resolve(&transfer.link)?
            .packed(&transfer.compress)
            .with_stores(&transfer.store)
            .storing(&transfer.stored),
        on_full: transfer.full.on_full,
        limits: transfer.limits.clone(),
        index: transfer.index.clone(),
        output: transfer_settings(&transfer),
        delete: Some(Delete { max: max_delete, ignore_errors, force: force_delete }),
    })
}

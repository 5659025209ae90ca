//! `haul sync`.

use std::slice;

use haul_core::Result;
use haul_engine::Delete;

use super::list_only;
use super::transfer::{Transfer, run as run_transfer};
use crate::args::{ListArgs, SyncArgs};
use crate::exit_code::Exit;
use crate::render::SummaryCommand;
use crate::settings::{one_stdin, usage};

/// Mirrors the source to the destination.
///
/// # Errors
/// Those of [`run_transfer`].
pub(super) fn run(args: SyncArgs) -> Result<Exit> {
    let SyncArgs {
        ends,
        mut transfer,
        list,
        max_delete,
        force_delete,
        ignore_errors,
        delete_excluded,
        delete: _implied,
    } = args;
    transfer.filter.delete_excluded = delete_excluded;
    let ListArgs { files_from } = list;
    if transfer.list_only && ends.len() <= 2 {
        return list_only::run(list_only::sources(&ends), files_from.as_ref(), &transfer);
    }
    let (source, destination) = match ends.as_slice() {
        [source, destination] => (source, destination),
        [_] => {
            return Err(usage(
                "sync",
                "the destination is missing: haul sync SRC DST (--list-only lists SRC)",
            ));
        }
        _ => return Err(usage("sync", "it takes one source; `haul copy` takes several")),
    };
    one_stdin(&transfer.filter, files_from.as_deref())?;
    run_transfer(&Transfer {
        command: SummaryCommand::Sync,
        sources: slice::from_ref(source),
        destination,
        others: &[],
        files_from,
        args: &transfer,
        delete: Some(Delete { max: max_delete, ignore_errors, force: force_delete }),
        remove_sources: None,
    })
}

//! From words to options: what the command line says, checked and put into the engine's types.

mod compress;
mod encode;
mod files_from;
mod full;
mod link;
mod number;
mod object;
mod rate;
mod records;
mod rules;
mod size;
mod timetable;
mod transfer;
mod trust;
mod words;

pub(crate) use compress::parse_compress;
pub(crate) use encode::{encode, identities, parse_frames};
pub(crate) use files_from::{Paths, listed, read_paths};
pub(crate) use full::{parse_on_full, parse_time};
pub(crate) use link::{LinkSettings, parse_address, parse_memory, parse_ports};
pub(crate) use number::{DAY, MOST_ENTRIES, number, parse_job};
pub(crate) use object::{
    check_endpoint, content_memory, parse_object, parse_pair, parse_place, put_options, store_end_settings,
    store_settings, stored_options,
};
pub(crate) use records::{Records, Separator, open_list};
pub(crate) use size::{parse_part, parse_size};
pub(crate) use timetable::Timetable;
pub(crate) use transfer::{TransferSettings, scan_options};

use std::ffi::OsStr;

use haul_core::{Error, ErrorKind, Result, Side};

use crate::args::{FilterArgs, FilterWord};

/// An error in what was asked for.
pub(crate) fn usage(operation: &str, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, Side::Local, operation, cause)
}

/// The error of a file or folder that an option names, and that was opened before anything else was done.
pub(crate) fn of_option(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Io => {
            usage(error.operation(), error.cause()).on(error.subject())
        }
        _ => error,
    }
}

/// Refuses to read more than one list from standard input.
///
/// # Errors
/// If there are two.
pub(crate) fn one_stdin(filter: &FilterArgs, list: Option<&OsStr>) -> Result<()> {
    let files = filter.words.iter().filter_map(|word| match word {
        FilterWord::ExcludeFrom(file) | FilterWord::IncludeFrom(file) => Some(file.as_os_str()),
        FilterWord::Exclude(_) | FilterWord::Include(_) => None,
    });
    if files.chain(list).filter(|file| *file == "-").count() > 1 {
        return Err(usage("read lists", "more than one is `-`, and there is one standard input"));
    }
    Ok(())
}

//! The two ends of a run: where they are, and opening them.

#[cfg(test)]
mod conformance;
mod open;
mod overlap;
mod paced;
mod place;
mod rootless;
mod siblings;

pub(crate) use open::{Ends, Note};
pub(crate) use overlap::refuse_overlap;
pub(crate) use paced::Paced;
pub(crate) use place::{Landing, destination_place, folder_place, root_name, source_place};
pub(crate) use rootless::Rootless;
pub(crate) use siblings::{Group, group, join, split};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::{Error, ErrorKind, Location, Result, Side};

/// Reads one end from the command line.
///
/// # Errors
/// If it is no end that haul has.
pub(crate) fn parse_end(text: &OsStr) -> Result<Location> {
    Location::parse(text.as_bytes())
}

/// Reads one end that is in a file system.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_file_end(text: &OsStr) -> Result<Location> {
    match Location::parse(text.as_bytes())? {
        Location::Object(place) => {
            let cause = "it is in an object store, and this command is for files and folders";
            let error =
                Error::new(ErrorKind::Usage, Side::Local, "use the location", cause).on(place.to_string());
            Err(error.with_hint("copy, sync, verify and hash take such ends"))
        }
        other => Ok(other),
    }
}

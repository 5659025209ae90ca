//! Locations on the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::{Error, ErrorKind, Location, Result, Side};

/// Parses a location.
///
/// # Errors
/// [`ErrorKind::Usage`] if haul does not support it.
pub(crate) fn parse_location(text: &OsStr) -> Result<Location> {
    Location::parse(text.as_bytes())
}

/// Parses a location in a file system.
///
/// # Errors
/// [`ErrorKind::Usage`] if it is in an object store, or haul does not support it.
pub(crate) fn parse_file_location(text: &OsStr) -> Result<Location> {
    match Location::parse(text.as_bytes())? {
        Location::Object(place) => {
            let cause = "it is in an object store, but this command is for files and directories";
            let error =
                Error::new(ErrorKind::Usage, Side::Local, "use the location", cause).on(place.to_string());
            Err(error.with_hint("copy, sync, verify and hash support object stores"))
        }
        other => Ok(other),
    }
}

//! Errors of spooled lists.

use haul_core::Error;

/// The error of a spooled list.
pub(crate) fn list_failed(error: &std::io::Error) -> Error {
    Error::list("entries", error)
}

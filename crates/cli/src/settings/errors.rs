//! Errors of options.

use haul_core::{Error, ErrorKind};
pub(crate) use haul_job::usage;

/// Converts the error of a file that an option names to a usage error: nothing was done yet.
pub(crate) fn of_option(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Io => {
            usage(error.operation(), error.cause()).on(error.subject())
        }
        _ => error,
    }
}

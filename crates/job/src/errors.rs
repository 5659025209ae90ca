//! Errors of requests that cannot be carried out.

use haul_core::{Error, ErrorKind, Side};

/// An error in the request: exit code 2.
pub fn usage(operation: &str, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, Side::Local, operation, cause)
}

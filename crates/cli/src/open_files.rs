//! The number of files that this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system lets everybody: small files that arrive stay open until they are synced
/// together, and the usual limit of a shell (1024) is for programs that use select(2).
pub(crate) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it cannot be raised, the one that there is has to do.
    let _ = setrlimit(Resource::Nofile, limit);
}

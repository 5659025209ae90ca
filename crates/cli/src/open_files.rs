//! The limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit: small files stay open until they are synced together, and the usual soft
/// limit of 1024 is meant for programs that use select(2).
pub(crate) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the old limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
}

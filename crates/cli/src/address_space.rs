//! What this process does where its address space is limited (`ulimit -v`, RLIMIT_AS): an allocation that the system
//! refuses ends a program, so it does not come to that.

use rustix::process::{Resource, getrlimit};

/// Heaps that threads share where addresses are few.
#[cfg(target_env = "gnu")]
const ARENAS: std::ffi::c_int = 2;

/// Prepares the allocator. To be called before there is a second thread.
pub(crate) fn prepare() {
    #[cfg(target_env = "gnu")]
    if getrlimit(Resource::As).current.is_some() {
        // SAFETY: it sets a number in the allocator, and no other thread is there to allocate meanwhile. glibc reserves
        // 64 MiB of addresses for each of up to eight arenas a core, used or not.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        }
    }
}

/// Bytes for content: what is wanted, but not more than a third of the addresses that are left. The rest is for the stacks
/// of threads and for what is no content.
pub(crate) fn content(wanted: u64) -> u64 {
    let Some(limit) = getrlimit(Resource::As).current else { return wanted };
    wanted.min(limit.saturating_sub(used().unwrap_or(0)) / 3)
}

/// Bytes of addresses in use.
fn used() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_use_are_known() {
        assert!(used().is_some_and(|bytes| bytes > 1 << 20));
        assert!(content(1 << 20) <= 1 << 20);
    }
}

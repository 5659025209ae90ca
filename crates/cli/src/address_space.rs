//! Adapts the process to a limited address space (`ulimit -v`, RLIMIT_AS), because a refused allocation ends a program,
//! and the allocator to the frames of SMB.

#[cfg(target_env = "gnu")]
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Resource, getrlimit};

/// Number of heaps if the address space is limited.
#[cfg(target_env = "gnu")]
const ARENAS: std::ffi::c_int = 2;

/// For frames of some megabytes: the free bytes at the end of a heap that stay, the length from which an allocation gets a
/// mapping of its own, and the number of heaps. By default glibc gives the memory of each frame back to the kernel, which
/// clears it for the next frame: that takes a third of the CPU time of a large copy.
#[cfg(target_env = "gnu")]
const FOR_FRAMES: [(std::ffi::c_int, std::ffi::c_int); 3] =
    [(libc::M_TRIM_THRESHOLD, 16 << 20), (libc::M_MMAP_THRESHOLD, 8 << 20), (libc::M_ARENA_MAX, 4)];

/// Prepares the allocator. Call before starting a second thread.
pub(crate) fn prepare() {
    #[cfg(target_env = "gnu")]
    {
        if std::env::args_os().any(|word| word.as_bytes().starts_with(b"smb://")) {
            FOR_FRAMES.into_iter().for_each(|(setting, value)| set(setting, value));
        }
        // glibc reserves 64 MiB of addresses for each of up to eight arenas a core, used or not.
        if getrlimit(Resource::As).current.is_some() {
            set(libc::M_ARENA_MAX, ARENAS);
        }
    }
}

#[cfg(target_env = "gnu")]
fn set(setting: std::ffi::c_int, value: std::ffi::c_int) {
    // SAFETY: it sets a number in the allocator, and no other thread is there to allocate meanwhile.
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(setting, value);
    }
}

/// The memory for content: `wanted`, but at most a third of the free address space. The rest is for thread stacks and
/// other data.
pub(crate) fn content(wanted: u64) -> u64 {
    let Some(limit) = getrlimit(Resource::As).current else { return wanted };
    wanted.min(limit.saturating_sub(used().unwrap_or(0)) / 3)
}

/// The used address space, in bytes.
fn used() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_address_space_is_known() {
        assert!(used().is_some_and(|bytes| bytes > 1 << 20));
        assert!(content(1 << 20) <= 1 << 20);
    }
}

//! File descriptors are bounded: caches take a share of the limit of the process, and an open that finds no descriptor
//! left waits for one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// How long an open waits for a descriptor. Other threads close theirs within a sync or two; if none is left for
/// longer, the limit is too low, and the user must learn of it.
const LONGEST: Duration = Duration::from_secs(60);
/// The first and the longest pause between two tries.
const STEPS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// The number of files that this process may have open.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    })
}

/// One of `parts` equal shares of the descriptors, at least four.
pub(crate) fn share(parts: usize) -> usize {
    (limit() / parts).max(4)
}

/// How many descriptors there are more than `few`.
pub(crate) fn beyond(few: usize) -> usize {
    limit().saturating_sub(few)
}

/// Calls `open`, and again while the process or the system has no descriptor left.
pub(crate) fn wait_for<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    /// An open has waited in vain. A file system without descriptors of its own answers so for every file: if each of
    /// them waited, the run would seem to hang.
    static NONE_LEFT: AtomicBool = AtomicBool::new(false);
    wait_at_most(LONGEST, &NONE_LEFT, open)
}

/// `none_left`: whether the last wait was in vain. Then there is no wait until an open succeeds.
fn wait_at_most<T>(
    longest: Duration,
    none_left: &AtomicBool,
    open: impl Fn() -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let (mut step, most) = STEPS;
    let mut waited = Duration::ZERO;
    loop {
        let opened = open();
        match opened {
            Err(Errno::MFILE | Errno::NFILE) => {
                if waited >= longest {
                    none_left.store(true, Ordering::Relaxed);
                }
                if none_left.load(Ordering::Relaxed) {
                    return opened;
                }
            }
            Ok(_) if none_left.load(Ordering::Relaxed) => {
                none_left.store(false, Ordering::Relaxed);
                return opened;
            }
            other => return other,
        }
        std::thread::sleep(step);
        waited += step;
        step = (step * 2).min(most);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_open_waits_for_a_descriptor_and_returns_other_errors() {
        let (tries, none_left) = (Cell::new(0), AtomicBool::new(false));
        let after = |count: u32, last: rustix::io::Result<u32>| {
            tries.set(0);
            wait_at_most(Duration::from_millis(20), &none_left, || {
                tries.set(tries.get() + 1);
                if tries.get() <= count { Err(Errno::MFILE) } else { last }
            })
        };
        assert_eq!(after(2, Ok(7)), Ok(7));
        assert_eq!((after(1, Err(Errno::NOENT)), tries.get()), (Err(Errno::NOENT), 2));
        assert_eq!(after(u32::MAX, Ok(7)), Err(Errno::MFILE));
        assert!(tries.get() > 2);
        assert_eq!((after(2, Ok(7)), tries.get()), (Err(Errno::MFILE), 1), "one wait in vain is enough");
        assert_eq!((after(0, Ok(7)), after(2, Ok(7))), (Ok(7), Ok(7)), "there are descriptors again");
    }
}

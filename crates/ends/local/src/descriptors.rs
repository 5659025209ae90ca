//! Open files are a resource like memory: what holds many of them is bounded by the limit of the process, and an open
//! that finds none left waits for one.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// How long a descriptor is waited for in all. Others close theirs within a sync or two; a limit that leaves none for so
/// long is one for the person to know of.
const LONGEST: Duration = Duration::from_secs(60);
/// How long it is waited for at first and at most before it is tried again.
const STEPS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// How many files this process may have open.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    })
}

/// One of `parts` equal parts of the descriptors that there are, at least four.
pub(super) fn share(parts: usize) -> usize {
    (limit() / parts).max(4)
}

/// How many descriptors there are more than `few`.
pub(super) fn beyond(few: usize) -> usize {
    limit().saturating_sub(few)
}

/// Opens something; where the process or the system has no descriptor left, waits until there is one.
pub(super) fn wait_for<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    wait_at_most(LONGEST, open)
}

fn wait_at_most<T>(longest: Duration, open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let (mut step, most) = STEPS;
    let mut waited = Duration::ZERO;
    loop {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) if waited < longest => {
                std::thread::sleep(step);
                waited += step;
                step = (step * 2).min(most);
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_descriptor_is_waited_for_and_other_errors_are_not() {
        let tries = Cell::new(0);
        let after = |count: u32, last: rustix::io::Result<u32>| {
            tries.set(0);
            wait_at_most(Duration::from_millis(20), || {
                tries.set(tries.get() + 1);
                if tries.get() <= count { Err(Errno::MFILE) } else { last }
            })
        };
        assert_eq!(after(2, Ok(7)), Ok(7));
        assert_eq!((after(1, Err(Errno::NOENT)), tries.get()), (Err(Errno::NOENT), 2));
        assert_eq!(after(u32::MAX, Ok(7)), Err(Errno::MFILE));
    }
}

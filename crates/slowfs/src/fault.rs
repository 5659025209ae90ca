//! What goes wrong, and when.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::op::Op;

/// What becomes of a request that a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is answered with this error, and not done.
    Fail(Errno),
    /// It is not answered until [`crate::Mount::release`] or the unmount; then it fails with `EIO`.
    Hang,
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of request; `None`: any.
    pub op: Option<Op>,
    /// How the path below the root ends, in whole components; empty: any path.
    pub path: String,
    /// So many requests that it is for are let through first.
    pub skip: u64,
    /// So many are then hit.
    pub times: u64,
    /// How.
    pub action: Action,
}

impl Fault {
    /// Hits the first request of this kind on a path that ends so.
    #[must_use]
    pub fn once(op: Op, path: &str, action: Action) -> Self {
        Self { op: Some(op), path: path.to_owned(), skip: 0, times: 1, action }
    }

    /// Hits every request of this kind on a path that ends so.
    #[must_use]
    pub fn always(op: Op, path: &str, action: Action) -> Self {
        Self { times: u64::MAX, ..Self::once(op, path, action) }
    }
}

/// The faults of a mount, and how often each has hit.
#[derive(Default)]
pub struct Faults {
    list: Mutex<Vec<(Fault, u64)>>,
    /// Whether there are any: paths are made up only then.
    any: AtomicBool,
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Vec<(Fault, u64)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this goes wrong.
    pub fn add(&self, fault: Fault) {
        self.lock().push((fault, 0));
        self.any.store(true, Ordering::Release);
    }

    /// From now on nothing goes wrong. How often something did.
    pub fn clear(&self) -> u64 {
        self.any.store(false, Ordering::Release);
        self.lock().drain(..).map(|(_, hits)| hits).sum()
    }

    /// How often something went wrong since the faults were added.
    pub fn hits(&self) -> u64 {
        self.lock().iter().map(|(_, hits)| hits).sum()
    }

    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What becomes of a request.
    pub(crate) fn hit(&self, op: Op, path: &Path) -> Option<Action> {
        for (fault, hits) in self.lock().iter_mut() {
            let is_for = fault.op.is_none_or(|one| one == op)
                && (fault.path.is_empty() || path.ends_with(&fault.path))
                && *hits < fault.times;
            if !is_for {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            *hits += 1;
            return Some(fault.action);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_of_a_kind_on_a_path() {
        let faults = Faults::default();
        assert!(!faults.any());
        let action = Action::Fail(Errno::IO);
        faults.add(Fault { skip: 1, times: 2, ..Fault::once(Op::Write, "a/b", action) });
        let hit = |op, path: &str| faults.hit(op, Path::new(path)).is_some();
        assert!(!hit(Op::Read, "x/a/b") && !hit(Op::Write, "xa/b"));
        assert_eq!([(); 4].map(|()| hit(Op::Write, "x/a/b")), [false, true, true, false]);
        assert_eq!((faults.hits(), faults.clear(), faults.any()), (2, 2, false));
    }
}

//! Faults to inject, and the requests that they apply to.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::op::Op;

/// The effect of a fault on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The request fails with this error and has no effect.
    Fail(Errno),
    /// The request hangs until [`crate::SlowMount::release`] or the unmount, then fails with `EIO`.
    Hang,
}

/// A fault, and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct FsFault {
    /// The kind of request; `None` for any.
    pub op: Option<Op>,
    /// The last components of the path; empty for any path.
    pub path: String,
    /// The number of matching requests that pass first.
    pub skip: u64,
    /// The number of requests that it then applies to.
    pub times: u64,
    /// The effect.
    pub action: FaultEffect,
}

impl FsFault {
    /// Applies to the first request of this kind on a path that ends in `path`.
    #[must_use]
    pub fn once(op: Op, path: &str, action: FaultEffect) -> Self {
        Self { op: Some(op), path: path.to_owned(), skip: 0, times: 1, action }
    }

    /// Applies to every request of this kind on a path that ends in `path`.
    #[must_use]
    pub fn always(op: Op, path: &str, action: FaultEffect) -> Self {
        Self { times: u64::MAX, ..Self::once(op, path, action) }
    }
}

/// The faults of a mount, each with the number of requests that it has hit.
#[derive(Default)]
pub struct FsFaults {
    list: Mutex<Vec<(FsFault, u64)>>,
    /// Whether the list has faults. Without any, the path of a request is not computed.
    any: AtomicBool,
}

impl FsFaults {
    fn lock(&self) -> MutexGuard<'_, Vec<(FsFault, u64)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault.
    pub fn add(&self, fault: FsFault) {
        self.lock().push((fault, 0));
        self.any.store(true, Ordering::Release);
    }

    /// Removes all faults. Returns the number of requests that they hit.
    pub fn clear(&self) -> u64 {
        self.any.store(false, Ordering::Release);
        self.lock().drain(..).map(|(_, hits)| hits).sum()
    }

    /// The number of requests that the faults have hit.
    pub fn hits(&self) -> u64 {
        self.lock().iter().map(|(_, hits)| hits).sum()
    }

    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The fault that applies to a request.
    pub(crate) fn hit(&self, op: Op, path: &Path) -> Option<FaultEffect> {
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
    fn a_fault_applies_to_the_nth_request_of_a_kind_on_a_path() {
        let faults = FsFaults::default();
        assert!(!faults.any());
        let action = FaultEffect::Fail(Errno::IO);
        faults.add(FsFault { skip: 1, times: 2, ..FsFault::once(Op::Write, "a/b", action) });
        let hit = |op, path: &str| faults.hit(op, Path::new(path)).is_some();
        assert!(!hit(Op::Read, "x/a/b") && !hit(Op::Write, "xa/b"));
        assert_eq!([(); 4].map(|()| hit(Op::Write, "x/a/b")), [false, true, true, false]);
        assert_eq!((faults.hits(), faults.clear(), faults.any()), (2, 2, false));
    }
}

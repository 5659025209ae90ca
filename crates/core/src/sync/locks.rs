//! Locks without poisoning: they stay usable after a thread has panicked while it held one.
//!
//! A panic ends the run with an error (`haul-threads`), and the guarded data is still needed to end it in order.

use std::time::Duration;

#[cfg(feature = "shuttle")]
use shuttle::sync as imp;
#[cfg(not(feature = "shuttle"))]
use std::sync as imp;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};

/// [`std::sync::Mutex`] without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// The guarded value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the lock; blocks until it is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The guarded value, without locking, as there is no other reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::Condvar`] for a [`Mutex`] of this module. Without a waiting thread a notification is no system call.
///
/// A thread that notifies changes the condition under the lock. So it sees each thread that waits for the change.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: imp::Condvar,
    /// Threads in a wait.
    waiting: AtomicUsize,
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { inner: imp::Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.inner.notify_all();
        }
    }

    /// Releases the lock and waits for a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let _waiting = WaitingThread::new(self);
        self.inner.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `condition` holds.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let _waiting = WaitingThread::new(self);
        self.inner.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification, for at most `time`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let _waiting = WaitingThread::new(self);
        self.inner.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `condition` holds, for at most `time`.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let _waiting = WaitingThread::new(self);
        self.inner.wait_timeout_while(guard, time, condition).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a waiting thread, from before it releases the lock. It stops counting on drop, also after a panic.
struct WaitingThread<'a>(&'a AtomicUsize);

impl<'a> WaitingThread<'a> {
    fn new(condvar: &'a Condvar) -> Self {
        condvar.waiting.fetch_add(1, Ordering::SeqCst);
        Self(&condvar.waiting)
    }
}

impl Drop for WaitingThread<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// [`std::sync::RwLock`] without poisoning.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(imp::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires shared access; blocks while a writer has the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires exclusive access.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_outlives_the_panic_of_its_holder() {
        let lock = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = lock.lock();
            *held = 2;
            std::panic::resume_unwind(Box::new("expected"));
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
        assert_eq!(lock.try_lock().map(|held| *held), Some(2));
        assert_eq!(lock.into_inner(), 2);
    }
}

//! The threads of the crate shuttle, with the interface of [`std::thread`].

use std::io;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};
pub use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle, sleep};

/// As [`std::thread::Builder`].
#[derive(Debug, Default)]
pub struct Builder(shuttle::thread::Builder);

impl Builder {
    /// A thread without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the thread.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// None: the signature is that of the standard library.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        self.0.spawn(work)
    }

    /// Starts the thread in a scope. It loses its name, as shuttle has none for such threads.
    ///
    /// # Errors
    /// None: the signature is that of the standard library.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(work))
    }
}

/// As [`std::thread::scope`].
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    // When the last thread of a scope ends, shuttle wakes the thread that made the scope, even out of a lock. So one
    // thread stays to the end.
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    shuttle::thread::scope(|scope| {
        let end = Arc::clone(&over);
        scope.spawn(move || drop(end.1.wait_while(end.0.lock(), |is_over| !*is_over)));
        let result = work(scope);
        *over.0.lock() = true;
        over.1.notify_all();
        result
    })
}

//! Starts threads, and reports refused threads and panics as errors.
//!
//! The standard library's `thread::scope` and `spawn` panic if the system refuses a thread (`ulimit -u`, the limit of a
//! container, no memory for a stack), and the panic of a thread that is never joined is lost. Here both are an [`Error`].
//! If the system refuses further threads, a run continues with fewer. No other thread is left waiting.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use haul_core::{Error, ErrorKind, Result, Side};

thread_local! {
    /// The depth of nested calls of [`caught`] on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Message and location of the panic that [`caught`] is about to return.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that hides panics inside [`caught`] from standard error, and records their location.
pub fn install_hook() {
    let usual = take_hook();
    set_hook(Box::new(move |info| {
        if DEPTH.get() == 0 {
            return usual(info);
        }
        let place = info.location().map(|at| format!("{}:{}: ", at.file(), at.line())).unwrap_or_default();
        let words = format!("{place}{}", message_of(info.payload()));
        SEEN.with_borrow_mut(|seen| *seen = Some(words));
    }));
}

fn message_of(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs `work` and catches a panic.
///
/// # Errors
/// [`ErrorKind::Io`] if `work` panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|payload| {
        let seen = SEEN.with_borrow_mut(Option::take);
        let cause = seen.unwrap_or_else(|| message_of(&*payload).to_owned());
        Error::new(ErrorKind::Io, Side::Local, "go on", format!("a thread panicked ({cause})"))
            .with_hint("this is a fault of haul: please report it")
    })
}

/// The error of a refused thread.
#[must_use]
pub fn refused(error: &io::Error) -> Error {
    Error::io(Side::Local, "start a thread", error)
        .with_hint("more threads have to be allowed: ulimit -u, TasksMax= of the unit, pids.max of the container, or memory")
}

/// Starts a thread in `scope`.
///
/// # Errors
/// The error of clone(2) if the system refuses the thread.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T>>> {
    let body = move || caught(work);
    Builder::new().name(name.to_owned()).spawn_scoped(scope, body).map_err(|error| refused(&error))
}

/// Waits for a thread that [`spawn`] has started.
///
/// # Errors
/// [`ErrorKind::Io`] if it panicked.
pub fn join<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|payload| caught(|| std::panic::resume_unwind(payload)))
}

/// Runs `work` on up to `threads` threads, one of which is the caller's. Returns the result of each.
///
/// # Errors
/// [`ErrorKind::Io`] if one panicked.
pub fn together<T: Send>(threads: usize, name: &str, work: impl Fn() -> T + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..threads).map_while(|_| spawn(scope, name, work).ok()).collect();
        let first = caught(work);
        let mut done = vec![first];
        done.extend(others.into_iter().map(join));
        done.into_iter().collect()
    })
}

/// Runs `work` with each item, each on its own thread if the system allows. Returns the results in the order of the items.
///
/// # Errors
/// [`ErrorKind::Io`] if one panicked.
pub fn each<T: Send, R: Send>(items: Vec<T>, name: &str, work: impl Fn(T) -> R + Sync) -> Result<Vec<R>> {
    let count = items.len();
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take = || std::iter::from_fn(|| next().map(|(at, item)| (at, work(item)))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = together(count, name, take)?.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Runs `other` on a thread of its own and `own` on the caller's; one after the other if the system refuses the thread.
///
/// # Errors
/// [`ErrorKind::Io`] if one panicked.
pub fn both<A: Send, B>(
    name: &str,
    other: impl FnOnce() -> A + Send,
    own: impl FnOnce() -> B,
) -> Result<(A, B)> {
    let other = Mutex::new(Some(other));
    let taken = || other.lock().unwrap_or_else(PoisonError::into_inner).take();
    let take = || taken().map(|work| work());
    let (first, second) = std::thread::scope(|scope| {
        let take = &take;
        let thread = spawn(scope, name, take).ok();
        let second = caught(own);
        // Without a thread, `other` has not run yet.
        let first = thread.map_or_else(|| caught(take), join);
        (first, second)
    });
    let lost = || Error::new(ErrorKind::Io, Side::Local, "go on", "a thread has ended early");
    Ok((first?.ok_or_else(lost)?, second?))
}

/// Threads of one kind in a scope, started on demand.
pub struct ScopedThreads<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    name: &'static str,
    work: W,
    started: Cell<usize>,
    refused: Cell<bool>,
}

impl<'scope, 'env, W: FnOnce(usize) + Clone + Send + 'scope> ScopedThreads<'scope, 'env, W> {
    /// Starts no thread yet. `work` receives the number of its thread, counted from 0.
    pub fn new(scope: &'scope Scope<'scope, 'env>, name: &'static str, work: W) -> Self {
        Self { scope, name, work, started: Cell::new(0), refused: Cell::new(false) }
    }

    /// Starts threads until there are `wanted`. If the system refuses one, the pool stays at its size.
    ///
    /// # Errors
    /// The error of clone(2) if the system refuses the first thread.
    pub fn grow(&self, wanted: usize) -> Result<()> {
        while self.started() < wanted && !self.refused.get() {
            let (work, number) = (self.work.clone(), self.started());
            match spawn(self.scope, self.name, move || work(number)) {
                Ok(_) => self.started.set(number + 1),
                Err(error) if self.started() == 0 => return Err(error),
                Err(_) => self.refused.set(true),
            }
        }
        Ok(())
    }

    /// The number of threads that were started.
    pub fn started(&self) -> usize {
        self.started.get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let error = caught(|| panic!("no {}", "way")).unwrap_err();
        assert!(error.cause().contains("no way"), "{error}");
        assert_eq!(caught(|| 5), Ok(5));
        let failed = together(3, "test", || panic!("all of them")).unwrap_err();
        assert!(failed.cause().contains("all of them"), "{failed}");
        assert!(both("test", || panic!("other"), || 1).is_err());
    }

    #[test]
    fn work_is_shared_and_completed() {
        let next = AtomicUsize::new(0);
        let take = || (0..).take_while(|_| next.fetch_add(1, Ordering::Relaxed) < 1000).count();
        assert_eq!(together(4, "test", take).unwrap().into_iter().sum::<usize>(), 1000);
        assert_eq!(both("test", || 1, || 2), Ok((1, 2)));
        assert_eq!(each(vec![3, 1, 2], "test", |n| n * 2), Ok(vec![6, 2, 4]));
    }

    #[test]
    fn scoped_threads_grow_to_the_wanted_number() {
        let seen = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let threads = ScopedThreads::new(scope, "test", |number| {
                let _ = seen.fetch_add(1 << number, Ordering::Relaxed);
            });
            threads.grow(2).unwrap();
            threads.grow(4).unwrap();
            threads.grow(3).unwrap();
            assert_eq!(threads.started(), 4);
        });
        assert_eq!(seen.into_inner(), 0b1111);
    }
}

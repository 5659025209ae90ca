//! Threads of a run: a system that has no more threads to give slows a run down, and a thread that panics ends it with an
//! error. Neither may leave other threads waiting.
//!
//! The standard library's `thread::scope` and `spawn` panic where the system refuses a thread (`ulimit -u`, a container's
//! limit, no memory for a stack), and nobody sees the panic of a thread that nobody joins. Here a refused thread is an
//! [`Error`], and so is a panic.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use haul_core::{Error, ErrorKind, Result, Side};

thread_local! {
    /// Calls of [`caught`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What the hook saw of the panic that [`caught`] is about to return.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics that [`caught`] turns into errors off standard error, and remembers where they happened.
pub fn install_hook() {
    let usual = take_hook();
    set_hook(Box::new(move |info| {
        if DEPTH.get() == 0 {
            return usual(info);
        }
        let place = info.location().map(|at| format!("{}:{}: ", at.file(), at.line())).unwrap_or_default();
        let words = format!("{place}{}", words_of(info.payload()));
        SEEN.with_borrow_mut(|seen| *seen = Some(words));
    }));
}

fn words_of(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Does `work`; a panic in it is an error.
///
/// # Errors
/// If `work` panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|payload| {
        let seen = SEEN.with_borrow_mut(Option::take);
        let cause = seen.unwrap_or_else(|| words_of(&*payload).to_owned());
        Error::new(ErrorKind::Io, Side::Local, "go on", format!("a thread panicked ({cause})"))
            .with_hint("this is a fault of haul: please report it")
    })
}

/// The error for a thread that the system refused.
#[must_use]
pub fn refused(error: &io::Error) -> Error {
    Error::io(Side::Local, "start a thread", error)
        .with_hint("more threads have to be allowed: ulimit -u, TasksMax= of the unit, pids.max of the container, or memory")
}

/// Starts a thread in `scope`.
///
/// # Errors
/// If the system refuses it.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T>>> {
    let body = move || caught(work);
    Builder::new().name(name.to_owned()).spawn_scoped(scope, body).map_err(|error| refused(&error))
}

/// Waits for a thread of [`spawn`].
///
/// # Errors
/// If it panicked.
pub fn join<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|payload| caught(|| std::panic::resume_unwind(payload)))
}

/// Does `work` on up to `threads` threads at once, one of which is the caller's. What each of them came to.
///
/// # Errors
/// If one panicked.
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

/// Does `work` with each item, on a thread for each as far as the system gives them. What came out, in order.
///
/// # Errors
/// If one panicked.
pub fn each<T: Send, R: Send>(items: Vec<T>, name: &str, work: impl Fn(T) -> R + Sync) -> Result<Vec<R>> {
    let count = items.len();
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take = || std::iter::from_fn(|| next().map(|(at, item)| (at, work(item)))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = together(count, name, take)?.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, came)| came).collect())
}

/// Does both, at once if a thread can be had, else one after the other.
///
/// # Errors
/// If one panicked.
pub fn both<A: Send, B>(
    name: &str,
    there: impl FnOnce() -> A + Send,
    here: impl FnOnce() -> B,
) -> Result<(A, B)> {
    let there = Mutex::new(Some(there));
    let taken = || there.lock().unwrap_or_else(PoisonError::into_inner).take();
    let take = || taken().map(|work| work());
    let (first, second) = std::thread::scope(|scope| {
        let take = &take;
        let thread = spawn(scope, name, take).ok();
        let second = caught(here);
        // Without a thread it is still to be done.
        let first = thread.map_or_else(|| caught(take), join);
        (first, second)
    });
    let lost = || Error::new(ErrorKind::Io, Side::Local, "go on", "a thread has ended early");
    Ok((first?.ok_or_else(lost)?, second?))
}

/// Threads of one kind that are started as they are wanted.
pub struct ThreadPool<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    name: &'static str,
    work: W,
    started: Cell<usize>,
    refused: Cell<bool>,
}

impl<'scope, 'env, W: FnOnce(usize) + Clone + Send + 'scope> ThreadPool<'scope, 'env, W> {
    /// None yet. `work` gets the number of its thread, counted from 0.
    pub fn new(scope: &'scope Scope<'scope, 'env>, name: &'static str, work: W) -> Self {
        Self { scope, name, work, started: Cell::new(0), refused: Cell::new(false) }
    }

    /// Starts threads until there are `wanted`. Where the system refuses one that is not the first, those that there are
    /// have to do, and no more are asked for.
    ///
    /// # Errors
    /// If there is none.
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

    /// How many were started.
    pub fn started(&self) -> usize {
        self.started.get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let error = caught(|| panic!("no {}", "way")).unwrap_err();
        assert!(error.cause().contains("no way"), "{error}");
        assert_eq!(caught(|| 5), Ok(5));
        let failed = together(3, "test", || panic!("all of them")).unwrap_err();
        assert!(failed.cause().contains("all of them"), "{failed}");
        assert!(both("test", || panic!("there"), || 1).is_err());
    }

    #[test]
    fn work_is_shared_and_all_of_it_is_done() {
        let next = AtomicUsize::new(0);
        let take = || (0..).take_while(|_| next.fetch_add(1, Ordering::Relaxed) < 1000).count();
        assert_eq!(together(4, "test", take).unwrap().into_iter().sum::<usize>(), 1000);
        assert_eq!(both("test", || 1, || 2), Ok((1, 2)));
        assert_eq!(each(vec![3, 1, 2], "test", |n| n * 2), Ok(vec![6, 2, 4]));
    }

    #[test]
    fn a_threads_grows_to_what_is_wanted() {
        let seen = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let threads = ThreadPool::new(scope, "test", |number| {
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

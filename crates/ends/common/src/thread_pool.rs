//! Several threads for one list of items, as many as help.
//!
//! Work on a network file system is mostly waiting, so more threads than CPUs help, until its server or this machine is
//! busy. A thread pool finds the number while it works: it grows as long as the operations per second grow with it, and
//! shrinks back when they no longer do.

use haul_core::sync::{Condvar, Mutex, thread};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A rate is measured over at least this time and [`OPERATIONS`] for each seat.
const WINDOW: Duration = Duration::from_millis(25);
/// Operations for each seat in a window.
const OPERATIONS: u64 = 2;
/// A larger size helped if the rate grew by this factor.
const HELPED: f64 = 1.08;
/// Windows before a size that did not help is tried again.
const RETRY_AFTER: u32 = 24;
/// If no item was begun for this time and no seat is free, one more thread is started.
const STALLED: Duration = Duration::from_secs(1);

/// Threads that do one kind of work for one end.
pub struct ThreadPool {
    state: Mutex<SeatState>,
    /// A seat became free, or there are more seats.
    changed: Condvar,
    most: usize,
}

struct SeatState {
    /// The current number of seats.
    seats: usize,
    /// Seats that are taken: more than there are, if threads took one unasked.
    taken: usize,
    climb: Climb,
    since: Instant,
    /// Operations in this window, and how many of them ended while all seats were taken.
    done: u64,
    full: u64,
}

/// The search for the number of seats.
struct Climb {
    /// Seats and operations per second before the last growth.
    before: Option<(usize, f64)>,
    /// Windows to wait before the next growth.
    rest: u32,
}

impl Climb {
    /// The number of seats after a window in which all `seats` were taken and did `rate` operations per second.
    fn next(&mut self, seats: usize, rate: f64, most: usize) -> usize {
        if let Some((fewer, before)) = self.before.take()
            && rate < before * HELPED
        {
            self.rest = RETRY_AFTER;
            return fewer;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return seats;
        }
        if seats >= most {
            return seats;
        }
        self.before = Some((seats, rate));
        // Doubling many seats is too coarse: from there on the steps are smaller.
        let step = if seats < 64 { seats } else { seats / 2 };
        (seats + step.max(1)).min(most)
    }
}

/// A seat in a thread pool, freed on drop.
pub struct Seat<'a>(&'a ThreadPool);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.state.lock().taken -= 1;
        // All are woken, because one of them may have no items left.
        self.0.changed.notify_all();
    }
}

/// A seat that its holder has lent, taken back on drop.
pub struct Lent<'a>(Option<&'a ThreadPool>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(threads) = self.0 {
            threads.state.lock().taken += 1;
        }
    }
}

impl ThreadPool {
    /// A thread pool with a fixed number of seats, at most one for each CPU.
    pub fn fixed(seats: usize) -> Self {
        let seats = seats.min(std::thread::available_parallelism().map_or(2, Into::into)).max(1);
        Self::growing(seats, seats)
    }

    /// A thread pool that begins with `least` seats and grows up to `most` while that helps.
    pub fn growing(least: usize, most: usize) -> Self {
        let climb = Climb { before: None, rest: 0 };
        let state = SeatState { seats: least, taken: 0, climb, since: Instant::now(), done: 0, full: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), most }
    }

    /// Whether there is never more than one seat.
    pub fn is_single(&self) -> bool {
        self.most == 1
    }

    /// A seat, if one is free.
    pub fn seat(&self) -> Option<Seat<'_>> {
        let mut state = self.state.lock();
        (state.taken < state.seats).then(|| {
            state.taken += 1;
            Seat(self)
        })
    }

    /// A seat for the caller, even if none is free.
    pub fn own_seat(&self) -> Seat<'_> {
        self.state.lock().taken += 1;
        Seat(self)
    }

    /// Lends a seat to other threads, for a caller that has one and waits for them.
    pub fn lend(&self) -> Lent<'_> {
        let mut state = self.state.lock();
        let has_one = state.taken > 0;
        state.taken -= usize::from(has_one);
        drop(state);
        self.changed.notify_all();
        Lent(has_one.then_some(self))
    }

    /// Counts an operation as done. Whether more threads work than there are seats.
    pub fn done(&self) -> bool {
        let mut state = self.state.lock();
        state.done += 1;
        state.full += u64::from(state.taken >= state.seats);
        if state.done >= OPERATIONS * state.seats as u64 {
            let elapsed = state.since.elapsed();
            if elapsed >= WINDOW {
                // The rate depends on the size only if the thread pool was busy all the time.
                if state.full * 10 >= state.done * 9 && elapsed < 40 * WINDOW {
                    let rate = state.done as f64 / elapsed.as_secs_f64();
                    let seats = state.seats;
                    state.seats = state.climb.next(seats, rate, self.most);
                    self.changed.notify_all();
                }
                (state.since, state.done, state.full) = (Instant::now(), 0, 0);
            }
        }
        state.taken > state.seats
    }

    /// Calls `work` with each item, in as many threads as there are seats. The answers are in the order of the items.
    pub fn each<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        if items.len() < 2 || self.is_single() {
            return items.iter().map(work).collect();
        }
        let job = ItemList { threads: self, items, work, next: AtomicUsize::new(0), done: Mutex::default() };
        thread::scope(|scope| {
            // The caller does not work itself: it starts threads as seats become free, or when all working ones hang.
            let call = |seat, stays| {
                let job = &job;
                thread::Builder::new().spawn_scoped(scope, move || job.take_part(seat, stays)).is_ok()
            };
            if !call(self.own_seat(), true) {
                // If no thread can be started, the caller does all the work.
                return job.take_part(self.own_seat(), true);
            }
            while !job.is_all_taken() {
                let before = job.next.load(Ordering::Relaxed);
                let seat = self.wait_for_seat(|| job.is_all_taken());
                if job.is_all_taken() {
                    break;
                }
                if let Some(seat) = seat {
                    call(seat, false);
                } else if job.next.load(Ordering::Relaxed) == before {
                    call(self.own_seat(), true);
                }
            }
        });
        let mut done = job.done.into_inner();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Waits for a free seat. `None` if the job is `over` before, or after [`STALLED`].
    fn wait_for_seat(&self, over: impl Fn() -> bool) -> Option<Seat<'_>> {
        let full = |state: &mut SeatState| state.taken >= state.seats && !over();
        let state = self.changed.wait_timeout_while(self.state.lock(), STALLED, full);
        let (mut state, _) = state;
        (state.taken < state.seats && !over()).then(|| {
            state.taken += 1;
            Seat(self)
        })
    }
}

/// One list of items.
struct ItemList<'a, T, R, W> {
    threads: &'a ThreadPool,
    items: &'a [T],
    work: W,
    next: AtomicUsize,
    done: Mutex<Vec<(usize, R)>>,
}

impl<T: Sync, R: Send, W: Fn(&T) -> R + Sync> ItemList<'_, T, R, W> {
    /// Whether all items were begun.
    fn is_all_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.items.len()
    }

    /// Works until no item is left or, unless it `stays`, too many threads work.
    fn take_part(&self, seat: Seat<'_>, stays: bool) {
        let mut answers = Vec::new();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at + 1 >= self.items.len() {
                // Wakes the thread that waits for a seat.
                drop(self.threads.state.lock());
                self.threads.changed.notify_all();
            }
            let Some(item) = self.items.get(at) else { break };
            answers.push((at, (self.work)(item)));
            if self.threads.done() && !stays {
                break;
            }
        }
        drop(seat);
        self.done.lock().append(&mut answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_answered_in_order() {
        for threads in [ThreadPool::fixed(1), ThreadPool::fixed(4), ThreadPool::growing(2, 64)] {
            let items: Vec<usize> = (0..5000).collect();
            assert_eq!(
                threads.each(&items, |item| item * 2),
                items.iter().map(|i| i * 2).collect::<Vec<_>>()
            );
            assert_eq!(threads.state.lock().taken, 0);
        }
    }

    /// The answers per second of a server that takes `ms` for each request, and `most` requests at once.
    fn rate(seats: usize, most: usize, ms: f64) -> f64 {
        seats.min(most) as f64 * 1000.0 / ms
    }

    #[test]
    fn grows_while_that_helps_and_no_further() {
        for (most, reached) in [(1, 8..=8), (8, 8..=16), (60, 48..=96), (1000, 256..=256)] {
            let (mut climb, mut seats) = (Climb { before: None, rest: 0 }, 8);
            for _ in 0..20 {
                seats = climb.next(seats, rate(seats, most, 2.0), 256);
            }
            assert!(reached.contains(&seats), "{seats} for a server of {most}");
        }
    }

    #[test]
    fn items_that_hang_do_not_hold_up_others() {
        let threads = ThreadPool::growing(2, 2);
        let rest = AtomicUsize::new(0);
        let items: Vec<usize> = (0..40).collect();
        threads.each(&items, |item| {
            if *item < 3 {
                while rest.load(Ordering::Relaxed) < items.len() - 3 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            } else {
                rest.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!((rest.into_inner(), threads.state.lock().taken), (37, 0));
    }

    #[test]
    fn waiting_operations_make_it_grow() {
        let threads = ThreadPool::growing(2, 64);
        threads.each(&[(); 2000], |()| std::thread::sleep(Duration::from_millis(1)));
        assert!(threads.state.lock().seats > 4);
    }
}

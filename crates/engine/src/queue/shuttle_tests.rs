//! Tests of the queue in many orders of threads. The locks of the crate shuttle never time out, so a missed wake-up is
//! a deadlock, which shuttle reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_core::sync::Mutex;
use haul_core::{Entry, EntryKind, PageHashes, RelPath, SLICE_LEN, Slice};
use shuttle::thread::{self, JoinHandle};

use super::dispatch::{MAX_SMALL, Queue, Work};

/// The number of schedules in each test.
const SCHEDULES: usize = 2000;

fn file(name: &str, len: u64) -> Arc<Entry> {
    Arc::new(Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, len))
}

/// Slices by path and index: how often each was taken.
type TakenCounts = Arc<Mutex<BTreeMap<(String, u32), u32>>>;

/// Starts workers that take slices until the queue is closed. The last one of `expected` slices closes it. The first
/// slice of each file is put back once.
fn start_workers(
    queue: &Arc<Queue>,
    workers: usize,
    expected: usize,
    resend: bool,
) -> (TakenCounts, Vec<JoinHandle<()>>) {
    let taken = TakenCounts::default();
    let left = Arc::new(AtomicUsize::new(expected));
    let threads = (0..workers).map(|number| {
        let (queue, taken, left) = (queue.clone(), taken.clone(), left.clone());
        thread::spawn(move || {
            while let Some(Work { batch, .. }) = queue.take(number, |_| ()) {
                for (entry, slice) in batch.iter() {
                    let key = (entry.path.to_string(), slice.index);
                    let count = {
                        let mut taken = taken.lock();
                        let count = taken.entry(key).or_default();
                        *count += 1;
                        *count
                    };
                    if resend && slice.index == 0 && count == 1 {
                        queue.add_again(entry.clone(), slice);
                    } else if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                        queue.close();
                    }
                }
            }
        })
    });
    let threads = threads.collect();
    (taken, threads)
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn shuttle_every_slice_is_taken_and_resent_slices_are_taken_again() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            queue.allow(2);
            let (taken, workers) = start_workers(&queue, 3, 3 + 3, true);
            let small = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.add_small(vec![file("a/1", 1), file("a/2", 1)]);
                    queue.add_small(vec![file("b/1", 1)]);
                })
            };
            let large = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.add_large(file("g", 5 * SLICE_LEN), Vec::from([1..2, 3..4]), false);
                    queue.allow(3);
                })
            };
            join(vec![small, large]);
            join(workers);
            let taken = taken.lock();
            assert_eq!(taken.len(), 6);
            assert!(taken.iter().all(|((_, index), count)| *count == if *index == 0 { 2 } else { 1 }));
        },
        SCHEDULES,
    );
}

#[test]
fn shuttle_every_compared_slice_is_taken() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            queue.allow(2);
            let (taken, mut threads) = start_workers(&queue, 2, 9, false);
            threads.extend((0..3).map(|number| {
                let queue = queue.clone();
                thread::spawn(move || {
                    while let Some(question) = queue.take_question(number) {
                        // The second answer is short, which ends the comparison.
                        let count = question.slices.len().min(question.slices.end as usize % 3 + 2);
                        queue.answer(question, vec![PageHashes::default(); count]);
                    }
                })
            }));
            queue.add_large(file("g", 9 * SLICE_LEN), Vec::new(), true);
            join(threads);
            assert_eq!(taken.lock().len(), 9);
        },
        SCHEDULES,
    );
}

#[test]
fn shuttle_adding_waits_for_space_and_ends_with_the_queue() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            queue.allow(1);
            queue.add_small(vec![file("d/first", 1); MAX_SMALL]);
            let adders: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    thread::spawn(move || queue.add_small(vec![file("d/more", 1)]))
                })
                .collect();
            let (_, workers) = start_workers(&queue, 1, MAX_SMALL + 2, false);
            join(adders);
            join(workers);
        },
        20,
    );
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            queue.add_small(vec![file("d/first", 1); MAX_SMALL]);
            let adder = {
                let queue = queue.clone();
                thread::spawn(move || queue.add_small(vec![file("d/more", 1); 2]))
            };
            queue.close();
            join(vec![adder]);
        },
        20,
    );
}

#[test]
fn shuttle_close_wakes_every_thread() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            let (taken, mut threads) = start_workers(&queue, 2, 1, false);
            threads.extend((0..2).map(|number| {
                let queue = queue.clone();
                thread::spawn(move || assert!(queue.take_question(number).is_none()))
            }));
            queue.close();
            join(threads);
            assert!(taken.lock().is_empty());
        },
        SCHEDULES,
    );
}

#[test]
fn shuttle_a_resent_slice_wakes_a_worker_that_may_take_it() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            queue.allow(1);
            let (taken, workers) = start_workers(&queue, 3, 2, false);
            for index in 0..2 {
                queue.add_again(file("g", 5 * SLICE_LEN), Slice::whole(0, index));
            }
            join(workers);
            assert_eq!(taken.lock().len(), 2);
        },
        SCHEDULES,
    );
}

//! What an interrupted run has left of a large file is read back and hashed before the file gets its name.
//!
//! That goes on beside the transfer of the rest, in a thread of its own. A slice that is not what its journal says is
//! sent again. A file whose last slice arrives earlier waits: what was written for it is held until all was read.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use haul_core::digest::slice_len;
use haul_core::{ChainingValue, Error, ErrorKind, Retry, SLICE_LEN, SinkOptions, Slice};

use super::commit::{Committer, Item};
use super::journal::Found;
use super::large::LargeFile;
use super::{digest, pagecache};

/// The slices of one file that are to be read back.
pub(super) struct Recheck {
    state: Mutex<State>,
    /// They were synced when they were recorded.
    synced: bool,
    /// There was something to be read back in the beginning.
    is_due: bool,
}

enum State {
    /// There is nothing to be read any more, and all was as it should be.
    Passed,
    /// So much is left; and what was written for the file and waits.
    UnderWay(Vec<(u32, ChainingValue)>, Vec<Item>),
    /// So many slices were not what they should be.
    Failed(usize),
    /// It was stopped.
    Stopped,
}

impl Recheck {
    /// Slices that were not synced are read back in any case.
    pub(super) fn new(found: &Found, options: &SinkOptions) -> Self {
        let needless = found.synced && (!options.recheck || options.verify_disk);
        let state = if found.slices.is_empty() || needless {
            State::Passed
        } else {
            State::UnderWay(found.slices.clone(), Vec::new())
        };
        let is_due = !matches!(state, State::Passed);
        Self { state: Mutex::new(state), synced: found.synced, is_due }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn is_passed(&self) -> bool {
        matches!(*self.lock(), State::Passed)
    }

    fn is_under_way(&self) -> bool {
        matches!(*self.lock(), State::UnderWay(..))
    }

    /// Whether a complete file may have to wait for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_due && !matches!(*self.lock(), State::Stopped)
    }

    /// The error of a file of which not all is what it should be.
    pub(super) fn failure(&self) -> Option<Error> {
        let State::Failed(count) = *self.lock() else { return None };
        let cause = format!("{count} slices that an interrupted run had left are not what they were");
        let error = Error::new(ErrorKind::Corrupt, haul_core::Side::Destination, "read back", cause);
        Some(error.with_retry(Retry::Anew))
    }

    /// Keeps an item until all is read; gives it back if that is so.
    pub(super) fn hold(&self, item: Item) -> Option<Item> {
        match &mut *self.lock() {
            State::UnderWay(_, held) => {
                held.push(item);
                None
            }
            _ => Some(item),
        }
    }
}

/// The files that are to be read back, and the thread that does it, if there are any.
#[derive(Default)]
pub(super) struct Rechecks {
    queue: Mutex<Queue>,
    stop: AtomicBool,
}

#[derive(Default)]
struct Queue {
    large_files: VecDeque<Arc<LargeFile>>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Rechecks {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.lock().thread.take();
        if let Some(thread) = thread {
            // A panic there has been printed; here is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Has a file read back that was just opened, if that is due.
pub(super) fn begin(committer: &Arc<Committer>, large: &Arc<LargeFile>) {
    if !large.recheck.is_under_way() {
        return;
    }
    let mut queue = committer.rechecks.lock();
    queue.large_files.push_back(Arc::clone(large));
    if queue.is_running {
        return;
    }
    queue.is_running = true;
    let work = Arc::clone(committer);
    match std::thread::Builder::new().name("recheck".into()).spawn(move || run(&work)) {
        Ok(thread) => queue.thread = Some(thread),
        Err(_) => {
            // Where no thread can be had, who wanted to write does it first.
            drop(queue);
            run(committer);
        }
    }
}

/// Ends what is read back of a file that is not gone on with, and lets go of it.
pub(super) fn cancel(committer: &Committer, large: &Arc<LargeFile>) {
    if large.recheck.is_due {
        committer.rechecks.lock().large_files.retain(|other| !Arc::ptr_eq(other, large));
        committer.take_back(settle(&large.recheck, State::Stopped));
    }
}

fn run(committer: &Committer) {
    loop {
        let large = {
            let mut queue = committer.rechecks.lock();
            let Some(large) = queue.large_files.pop_front() else {
                queue.is_running = false;
                return;
            };
            large
        };
        let held = check(&large, &committer.rechecks.stop);
        committer.take_back(held);
    }
}

/// Reads back what is left in one file. What waited for that.
fn check(large: &LargeFile, stop: &AtomicBool) -> Vec<Item> {
    let recheck = &large.recheck;
    let slices = match &mut *recheck.lock() {
        State::UnderWay(slices, _) => std::mem::take(slices),
        _ => return Vec::new(),
    };
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; digest::STEP];
    for (index, value) in slices {
        if stop.load(Ordering::Relaxed) {
            return settle(recheck, State::Stopped);
        }
        if !recheck.is_under_way() {
            return Vec::new();
        }
        if value_of(large, index, &mut buffer).is_ok_and(|read| read == value) {
            good.push((index, value));
        } else {
            wrong.push(index);
        }
    }
    if !recheck.synced {
        large.confirm(&good);
    }
    if wrong.is_empty() {
        return settle(recheck, State::Passed);
    }
    large.disown(&wrong);
    settle(recheck, State::Failed(wrong.len()))
}

/// Comes to an end, if it has not; what waited for that.
fn settle(recheck: &Recheck, end: State) -> Vec<Item> {
    let mut state = recheck.lock();
    match &mut *state {
        State::UnderWay(_, held) => {
            let held = std::mem::take(held);
            *state = end;
            held
        }
        _ => Vec::new(),
    }
}

/// The chaining value of a slice as it is in the staged file.
fn value_of(large: &LargeFile, index: u32, buffer: &mut [u8]) -> io::Result<ChainingValue> {
    let _door = large.door(Slice::whole(0, index));
    let (start, len) = (u64::from(index) * SLICE_LEN, slice_len(large.entry.len, index));
    let staged = &large.staged;
    let value = digest::of_slice(&staged.at.dir.ops, &staged.file, large.entry.len, index, buffer)?;
    pagecache::release(&staged.file, start, len);
    Ok(value)
}

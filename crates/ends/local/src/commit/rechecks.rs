//! Reading back the content that an interrupted run has left of large files, before they are renamed into place.
//!
//! A thread of its own does that while the rest is transferred. A slice that differs from its journal is sent again. If
//! the last slice of a file arrives before, it is held until the file was read back.

use haul_core::sync::Mutex;
use haul_core::sync::thread::{self, JoinHandle};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::slice_len;
use haul_core::{ChainingValue, SLICE_LEN, Slice};

use super::queue::CommitQueue;
use crate::read::file::STEP;
use crate::read::{digest, page_cache};
use crate::stage::large::LargeFile;
use crate::stage::recheck::RecheckEnd;
use crate::ticket::PendingSlice;

/// The files that are to be read back, and the thread that does it.
pub(crate) struct Rechecks {
    state: Mutex<RechecksState>,
    stop: AtomicBool,
    commits: Arc<CommitQueue>,
}

#[derive(Default)]
struct RechecksState {
    large_files: VecDeque<Arc<LargeFile>>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Rechecks {
    pub(crate) fn new(commits: Arc<CommitQueue>) -> Self {
        Self { state: Mutex::default(), stop: AtomicBool::new(false), commits }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.state.lock().thread.take();
        if let Some(thread) = thread {
            // A panic was printed by its thread.
            let _ = thread.join();
        }
    }

    /// Reads back a file that was just opened, if that is due.
    pub(crate) fn begin(self: &Arc<Self>, large: &Arc<LargeFile>) {
        if !large.recheck.is_running() {
            return;
        }
        let mut state = self.state.lock();
        state.large_files.push_back(Arc::clone(large));
        if state.is_running {
            return;
        }
        state.is_running = true;
        let work = Arc::clone(self);
        match thread::Builder::new().name("recheck".into()).spawn(move || work.run()) {
            Ok(thread) => state.thread = Some(thread),
            Err(_) => {
                // Without a thread, the writing one does it first.
                drop(state);
                self.run();
            }
        }
    }

    /// Stops reading back a file that is closed.
    pub(crate) fn cancel(&self, large: &Arc<LargeFile>) {
        if large.recheck.is_due() {
            self.state.lock().large_files.retain(|other| !Arc::ptr_eq(other, large));
            self.commits.take_back(large, large.recheck.end(RecheckEnd::Stopped));
        }
    }

    fn run(&self) {
        loop {
            let large = {
                let mut state = self.state.lock();
                let Some(large) = state.large_files.pop_front() else {
                    state.is_running = false;
                    return;
                };
                large
            };
            let held = check(&large, &self.stop);
            self.commits.take_back(&large, held);
        }
    }
}

/// Reads back one file. Gives the written slices that waited for that.
fn check(large: &LargeFile, stop: &AtomicBool) -> Vec<PendingSlice> {
    let recheck = &large.recheck;
    if !recheck.is_running() {
        return Vec::new();
    }
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; STEP];
    for (index, value) in recheck.take_slices() {
        if stop.load(Ordering::Relaxed) {
            return recheck.end(RecheckEnd::Stopped);
        }
        if !recheck.is_running() {
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
        return recheck.end(RecheckEnd::Passed);
    }
    large.disown(&wrong);
    recheck.end(RecheckEnd::Failed(wrong.len()))
}

/// The chaining value of a slice of the staged file.
fn value_of(large: &LargeFile, index: u32, buffer: &mut [u8]) -> io::Result<ChainingValue> {
    let _locked = large.lock_slice(Slice::whole(0, index));
    let (start, len) = (u64::from(index) * SLICE_LEN, slice_len(large.entry().len, index));
    let staged = &large.staged;
    let value = digest::of_slice(&staged.at.dir.ops, &staged.file, large.entry().len, index, buffer)?;
    page_cache::release(&staged.file, start, len);
    Ok(value)
}

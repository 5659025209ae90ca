//! Files that are needed, handed out as batches.
//!
//! A worker that asks gets one slice of a large file or a bundle of small ones, alternating, so that neither kind
//! waits for the other; all workers share the large file that is under way. A bundle is of many folders if there are many:
//! names in one are made one after the other by most file systems. Bounded: who adds waits.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_core::buffer::BUFFER_LEN;
use haul_core::digest::{part_count, slice_count};
use haul_core::{Batch, Entry, PageHashes, RelPath, SLICE_LEN, Slice};

use crate::compare::{Comparing, Question};
use crate::small::Small;

/// Small files in one batch at most.
const BUNDLE: usize = 512;
/// Small files that wait at most.
const MAX_SMALL: usize = 8192;
/// Weight of the small files that wait at most, in bytes of memory.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;
/// Large files that wait at most.
const MAX_LARGE_FILES: usize = 1024;

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// For workers that may take work: there is some.
    work: Condvar,
    /// For workers and askers that may not: how many may has changed.
    gate: Condvar,
    /// For who adds: there is room.
    room: Condvar,
    /// For who compares: there is something to ask about.
    questions: Condvar,
}

/// What a worker takes.
pub(crate) struct Work {
    pub(crate) batch: Arc<Batch>,
    /// What the destination has of it, if it is one slice of a large file.
    pub(crate) pages: Option<PageHashes>,
}

#[derive(Default)]
struct State {
    small: Small,
    large_files: VecDeque<LargeFile>,
    /// Large files that are compared first.
    comparing: Comparing,
    /// Slices that are to be sent again come first.
    again: Vec<(Arc<Entry>, Slice)>,
    /// What the last batch was of: the next one is of the other kind if there is a choice.
    was_small: bool,
    /// At the end, slices of large files may be handed out in parts.
    splits: bool,
    /// No more work: what is in the queue is dropped.
    closed: bool,
    /// How many workers may take work.
    workers: usize,
}

/// A large file of which slices are to be handed out.
pub(crate) struct LargeFile {
    pub(crate) entry: Arc<Entry>,
    next: u32,
    end: u32,
    /// The next part, if slice `next` is handed out in parts.
    part: u8,
    /// It is compared with what is there, which is done with whole slices.
    whole: bool,
    /// Slices that are at the destination already, ascending.
    have: Vec<Range<u32>>,
}

impl LargeFile {
    /// Whether all was handed out.
    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// Up to `most` slices that follow each other.
    pub(crate) fn take(&mut self, most: u32) -> Range<u32> {
        let from = self.next;
        let gap = self.have.first().map_or(self.end, |have| have.start);
        self.next = self.end.min(gap).min(from.saturating_add(most));
        let taken = from..self.next;
        self.skip();
        taken
    }

    /// The next slice, or a part of it. What was begun in parts is ended in parts.
    fn take_one(&mut self, splits: bool) -> Slice {
        let parts = part_count(self.entry.len, self.next);
        if self.whole || parts < 2 || (!splits && self.part == 0) {
            return Slice::whole(0, self.take(1).start);
        }
        let slice = Slice { part: Some(self.part), ..Slice::whole(0, self.next) };
        self.part = (self.part + 1) % parts;
        if self.part == 0 {
            self.take(1);
        }
        slice
    }

    /// Moves on over slices that are there.
    fn skip(&mut self) {
        while let Some(range) = self.have.first() {
            if self.next >= range.end {
                self.have.remove(0);
            } else if self.next >= range.start {
                self.next = range.end;
            } else {
                break;
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds small files; waits while there are too many.
    pub(crate) fn add_small(&self, entries: Vec<Arc<Entry>>) {
        let mut state = self.lock();
        for entry in entries {
            while (state.small.count >= MAX_SMALL || state.small.weight >= MAX_WEIGHT) && !state.closed {
                self.work.notify_all();
                state = self.room.wait(state);
            }
            state.small.push(entry);
        }
        drop(state);
        self.work.notify_all();
    }

    /// Adds a large file without the slices that the destination has, which are not all of them. `compare`: the
    /// destination is asked first what of it is the same in what is to be replaced.
    pub(crate) fn add_large(&self, entry: Arc<Entry>, have: Vec<Range<u32>>, compare: bool) {
        let mut state = self.lock();
        while state.large_files_are_many() && !state.closed {
            state = self.room.wait(state);
        }
        let end = slice_count(entry.len);
        let mut large = LargeFile { entry, next: 0, end, part: 0, whole: compare, have };
        large.skip();
        if large.is_done() {
            return;
        }
        if compare {
            state.comparing.add(large);
        } else {
            state.large_files.push_back(large);
        }
        drop(state);
        if compare { self.questions.notify_all() } else { self.work.notify_all() }
    }

    /// What the sink is to be asked about next by number `asker`, of whom no more ask than workers work; waits for it,
    /// `None` at the end.
    pub(crate) fn take_question(&self, asker: usize) -> Option<Question> {
        let mut state = self.lock();
        while !state.closed {
            let may = asker < state.workers.max(1);
            if may && let Some(question) = state.comparing.question() {
                return Some(question);
            }
            // Who may not ask waits elsewhere, so that one who may is woken.
            let signal = if may { &self.questions } else { &self.gate };
            let wait = signal.wait_timeout(state, Duration::from_secs(1));
            state = wait.0;
        }
        None
    }

    /// What the sink said.
    pub(crate) fn answer(&self, question: Question, pages: Vec<PageHashes>) {
        let mut state = self.lock();
        if let Some(rest) = state.comparing.answer(question, pages) {
            state.large_files.push_back(rest);
        }
        drop(state);
        self.work.notify_all();
        self.questions.notify_all();
    }

    /// Puts back a slice that is to be sent again. Never waits.
    pub(crate) fn again(&self, entry: Arc<Entry>, slice: Slice) {
        self.lock().again.push((entry, slice));
        self.work.notify_one();
    }

    /// Drops what is not yet handed out of a large file.
    pub(crate) fn drop_large(&self, path: &RelPath) {
        let mut state = self.lock();
        state.large_files.retain(|large| large.entry.path != *path);
        state.comparing.drop_large(path);
        state.again.retain(|(entry, _)| entry.path != *path);
        drop(state);
        self.room.notify_all();
    }

    /// Ends it: nobody waits any more, nothing is handed out any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.gate.notify_all();
        self.room.notify_all();
        self.questions.notify_all();
    }

    /// Lets slices of large files be handed out in parts, once there are no more of them than workers.
    pub(crate) fn split(&self) {
        self.lock().splits = true;
    }

    /// Lets so many workers take work.
    pub(crate) fn allow(&self, workers: usize) {
        let mut state = self.lock();
        if state.workers != workers {
            state.workers = workers;
            drop(state);
            self.work.notify_all();
            self.gate.notify_all();
            self.questions.notify_all();
        }
    }

    /// Whether there is nothing to hand out.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.small.count == 0
            && state.large_files.is_empty()
            && state.again.is_empty()
            && state.comparing.is_empty()
    }

    /// The next batch for worker number `worker`; waits for one, `None` at the end. `taken` is called with the
    /// batch before any other thread can see that it is gone from the queue.
    pub(crate) fn take(&self, worker: usize, taken: impl FnOnce(&Batch)) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let may = worker < state.workers.max(1);
            if may && let Some((batch, pages)) = state.next_batch() {
                taken(&batch);
                let room = state.has_room();
                drop(state);
                if room {
                    self.room.notify_all();
                }
                if pages.is_some() {
                    self.questions.notify_one();
                }
                return Some(Work { batch: Arc::new(batch), pages });
            }
            let signal = if may { &self.work } else { &self.gate };
            // The time-out is a belt beside the braces: a missed wake-up costs a second, not the run.
            let wait = signal.wait_timeout(state, Duration::from_secs(1));
            state = wait.0;
        }
    }
}

impl State {
    /// Whether who waits to add may go on; not at every single batch, so that adding comes in runs.
    fn has_room(&self) -> bool {
        self.small.count < MAX_SMALL / 2
            && self.small.weight < MAX_WEIGHT / 2
            && self.large_files.len() + self.comparing.count() < MAX_LARGE_FILES
    }

    fn next_batch(&mut self) -> Option<(Batch, Option<PageHashes>)> {
        if let Some((entry, slice)) = self.again.pop() {
            return Some((Batch { again: true, ..one_slice(entry, slice) }, None));
        }
        let no_large_files = self.large_files.is_empty() && self.comparing.ready.is_empty();
        if self.small.count > 0 && (!self.was_small || no_large_files) {
            self.was_small = true;
            return Some((self.bundle(), None));
        }
        self.was_small = false;
        if let Some((entry, index, pages)) = self.comparing.ready.pop_front() {
            return Some((one_slice(entry, Slice::whole(0, index)), pages));
        }
        let splits = self.splits && self.is_ending();
        let large = self.large_files.front_mut()?;
        let batch = one_slice(large.entry.clone(), large.take_one(splits));
        if large.is_done() {
            self.large_files.pop_front();
        }
        Some((batch, None))
    }

    /// Whether as many large files wait as may.
    fn large_files_are_many(&self) -> bool {
        let weight: usize = self.large_files.iter().map(|large| large.entry.weight()).sum();
        self.large_files.len() + self.comparing.count() >= MAX_LARGE_FILES
            || weight + self.comparing.weight() >= MAX_WEIGHT
    }

    /// Whether there are no more slices than workers.
    fn is_ending(&self) -> bool {
        let left = || self.large_files.iter().map(|large| (large.end - large.next) as usize).sum::<usize>();
        self.large_files.len() <= self.workers && left() <= self.workers && self.comparing.is_empty()
    }

    /// As many small files as go into one batch, but not all of the few that are left: the other workers want some.
    fn bundle(&mut self) -> Batch {
        let fair = (self.small.count / self.workers.max(1)).clamp(16, BUNDLE);
        let entries = self.small.take(fair, BUFFER_LEN as u64);
        let slices = (0..entries.len() as u32).map(|entry| Slice::whole(entry, 0)).collect();
        Batch { entries, slices, again: false }
    }
}

fn one_slice(entry: Arc<Entry>, slice: Slice) -> Batch {
    Batch { entries: vec![entry], slices: vec![Slice { entry: 0, ..slice }], again: false }
}

/// Whether a file is sent slice by slice.
pub(crate) fn is_large(entry: &Entry) -> bool {
    entry.len > SLICE_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small::RUN;
    use haul_core::EntryKind;

    fn file(name: &str, len: u64) -> Arc<Entry> {
        Arc::new(Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, len))
    }

    fn drain(queue: &Queue) -> Vec<Vec<(String, u32)>> {
        let mut out = Vec::new();
        while !queue.is_empty() {
            let Some(work) = queue.take(0, |_| ()) else { break };
            out.push(work.batch.iter().map(|(e, s)| (e.path.to_string(), s.index)).collect());
        }
        out
    }

    #[test]
    fn large_files_and_small_files_take_turns_and_nothing_is_lost() {
        let queue = Queue::default();
        queue.add_large(file("g", 3 * SLICE_LEN + 1), Vec::from([1..2, 2..3]), false);
        queue.add_small((0..40).map(|i| file(&format!("s{i}"), 1000)).collect());
        let batches = drain(&queue);
        let large: Vec<u32> = batches.iter().flatten().filter(|(n, _)| n == "g").map(|(_, i)| *i).collect();
        assert_eq!(large, [0, 3], "slices that are there are not sent");
        assert_eq!(batches.iter().flatten().filter(|(n, _)| n != "g").count(), 40);
        assert!(batches[0][0].0 != batches[1][0].0 && batches[..2].iter().flatten().any(|(n, _)| n == "g"));
    }

    #[test]
    fn the_last_slices_are_handed_out_in_parts() {
        let parts = |splits: bool| {
            let queue = Queue::default();
            queue.allow(2);
            queue.add_large(file("g", 4 * SLICE_LEN + 1), Vec::new(), false);
            if splits {
                queue.split();
            }
            let mut all = Vec::new();
            while !queue.is_empty() {
                let Work { batch, .. } = queue.take(0, |_| ()).unwrap();
                all.push((batch.slices[0].index, batch.slices[0].part));
            }
            all
        };
        let whole = |index| (index, None);
        let part = |part| (3, Some(part));
        // The last one is shorter than a part.
        let expected = [whole(0), whole(1), whole(2), part(0), part(1), part(2), part(3), whole(4)];
        assert_eq!(parts(true), expected);
        assert_eq!(parts(false), [whole(0), whole(1), whole(2), whole(3), whole(4)]);
    }

    #[test]
    fn a_bundle_fits_one_buffer() {
        let queue = Queue::default();
        queue.add_small((0..6).map(|i| file(&format!("s{i}"), 3 * 1024 * 1024)).collect());
        assert_eq!(drain(&queue).len(), 6);
    }

    #[test]
    fn folders_take_turns() {
        let queue = Queue::default();
        let names = |folder: char| (0..40).map(move |i| file(&format!("{folder}/{i:02}"), 10));
        queue.add_small(names('a').chain(names('b')).collect());
        let all: Vec<String> = drain(&queue).into_iter().flatten().map(|(name, _)| name).collect();
        assert_eq!(all.len(), 80);
        let folders: Vec<u8> = all.iter().map(|name| name.as_bytes()[0]).collect();
        assert_eq!([folders[0], folders[RUN], folders[2 * RUN]], [b'a', b'b', b'a']);
        let of_a: Vec<&String> = all.iter().filter(|name| name.starts_with('a')).collect();
        assert!(of_a.is_sorted(), "the order within a folder stays");
    }

    #[test]
    fn large_files_are_asked_about_before_they_are_handed_out() {
        let queue = Queue::default();
        queue.add_large(file("g", 16 * SLICE_LEN), Vec::from([3..4, 4..5]), true);
        let mut slices = Vec::new();
        let mut asked = || {
            let question = queue.take_question(0).unwrap();
            slices.push(question.slices.clone());
            question
        };
        let (first, second, third) = (asked(), asked(), asked());
        assert_eq!(slices, [0..3, 5..9, 9..13]);
        assert!(!queue.is_empty(), "answers are waited for");
        queue.answer(second, vec![PageHashes::default(); 4]);
        queue.answer(first, vec![PageHashes::default(); 1]);
        // An answer that is too short ends the comparing: the rest is sent as it is.
        let got: Vec<(u32, bool)> = (0..10)
            .map(|_| queue.take(0, |_| ()).unwrap())
            .map(|work| (work.batch.slices[0].index, work.pages.is_some()))
            .collect();
        let expected = (5..9)
            .map(|i| (i, true))
            .chain([(0, true), (1, false), (2, false)])
            .chain((13..16).map(|i| (i, false)));
        assert_eq!(got, expected.collect::<Vec<_>>());
        queue.drop_large(&RelPath::new(b"g").unwrap());
        queue.answer(third, vec![PageHashes::default(); 4]);
        assert!(queue.is_empty(), "what was dropped meanwhile is not sent");
    }

    #[test]
    fn a_closed_queue_lets_everybody_go() {
        let queue = Queue::default();
        queue.close();
        assert!(queue.take(0, |_| ()).is_none());
        queue.add_small(vec![file("s", 1); MAX_SMALL + 1]);
    }
}

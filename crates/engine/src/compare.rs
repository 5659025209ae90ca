//! Large files that replace something: which of their pages the destination has, asked in bulk ahead of the reading.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use haul_core::{Entry, PageHashes, RelPath};

use crate::copy::Run;
use crate::queue::LargeFile;

/// Slices that are asked about at once: the answer fits into what a new TCP connection sends in its first round trip.
const ASK: u32 = 4;
/// Slices that were asked about and are not handed out, at most. Each takes 2 KiB.
const AHEAD: usize = 256;

/// Asks the sink about large files, as number `asker`, until the queue is closed.
pub(crate) fn compare(run: &Run<'_>, asker: usize) {
    while let Some(question) = run.queue.take_question(asker) {
        // What stands in the way of comparing stands in the way of writing, too, and is told there.
        let pages = run.sink.pages(&question.entry, question.slices.clone()).unwrap_or_default();
        run.queue.answer(question, pages);
    }
}

/// A question to the sink.
pub(crate) struct Question {
    number: u64,
    pub(crate) entry: Arc<Entry>,
    pub(crate) slices: Range<u32>,
}

/// A slice that may be handed out, and what the destination has of it.
pub(crate) type Compared = (Arc<Entry>, u32, Option<PageHashes>);

/// Large files on their way to be handed out.
#[derive(Default)]
pub(crate) struct Comparing {
    large_files: VecDeque<LargeFile>,
    /// Questions without an answer, by number.
    asked: Vec<(u64, RelPath)>,
    next: u64,
    pub(crate) ready: VecDeque<Compared>,
}

impl Comparing {
    pub(crate) fn add(&mut self, large: LargeFile) {
        self.large_files.push_back(large);
    }

    /// Large files that are not all asked about.
    pub(crate) fn count(&self) -> usize {
        self.large_files.len()
    }

    /// What they take in memory.
    pub(crate) fn weight(&self) -> usize {
        self.large_files.iter().map(|large| large.entry.weight()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.large_files.is_empty() && self.asked.is_empty() && self.ready.is_empty()
    }

    /// The next question, unless there are answers enough.
    pub(crate) fn question(&mut self) -> Option<Question> {
        if self.ready.len() + self.asked.len() * ASK as usize >= AHEAD {
            return None;
        }
        let large = self.large_files.front_mut()?;
        let (entry, slices) = (large.entry.clone(), large.take(ASK));
        if large.is_done() {
            self.large_files.pop_front();
        }
        self.next += 1;
        self.asked.push((self.next, entry.path.clone()));
        Some(Question { number: self.next, entry, slices })
    }

    /// Takes an answer. Where it is short nothing more is to be compared: the rest of the large file is given back.
    pub(crate) fn answer(&mut self, question: Question, pages: Vec<PageHashes>) -> Option<LargeFile> {
        // One that was dropped meanwhile is not to be sent.
        let at = self.asked.iter().position(|(number, _)| *number == question.number)?;
        self.asked.swap_remove(at);
        let is_short = pages.len() < question.slices.len();
        let mut pages = pages.into_iter();
        for index in question.slices {
            self.ready.push_back((question.entry.clone(), index, pages.next()));
        }
        let rest = self.large_files.iter().position(|large| large.entry.path == question.entry.path)?;
        if is_short { self.large_files.remove(rest) } else { None }
    }

    /// Drops what is not yet handed out of a large file.
    pub(crate) fn drop_large(&mut self, path: &RelPath) {
        self.large_files.retain(|large| large.entry.path != *path);
        self.asked.retain(|(_, asked)| asked != path);
        self.ready.retain(|(entry, ..)| entry.path != *path);
    }
}

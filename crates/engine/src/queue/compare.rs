//! Large files that replace a file. The sink is asked for the page hashes of many slices at once, ahead of the reading.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use haul_core::{Entry, PageHashes, RelPath};

use super::large::QueuedLargeFile;

/// The number of slices in one question. The answer fits into the first round trip of a new TCP connection.
const PER_QUESTION: u32 = 4;
/// The number of slices that were asked about and not sent, at most. Each takes 2 KiB.
const MAX_AHEAD: usize = 256;

/// A question to the sink: which pages does it have of these slices?
pub(crate) struct Question {
    number: u64,
    pub(crate) entry: Arc<Entry>,
    pub(crate) slices: Range<u32>,
}

/// A slice that may be sent, and the pages of it that the destination has.
pub(super) type ComparedSlice = (Arc<Entry>, u32, Option<PageHashes>);

/// Large files that are being compared.
#[derive(Default)]
pub(super) struct LargeFileComparisons {
    large_files: VecDeque<QueuedLargeFile>,
    /// Questions without an answer, by number.
    asked: Vec<(u64, RelPath)>,
    next: u64,
    ready: VecDeque<ComparedSlice>,
}

impl LargeFileComparisons {
    pub(super) fn add(&mut self, large: QueuedLargeFile) {
        self.large_files.push_back(large);
    }

    /// The large files with slices to ask about.
    pub(super) fn large_files(&self) -> impl Iterator<Item = &QueuedLargeFile> {
        self.large_files.iter()
    }

    /// The number of large files with slices to ask about.
    pub(super) fn count(&self) -> usize {
        self.large_files.len()
    }

    /// The memory that these take, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.large_files.iter().map(|large| large.entry.weight()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.large_files.is_empty() && self.asked.is_empty() && self.ready.is_empty()
    }

    /// Whether a slice may be sent.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next slice that may be sent.
    pub(super) fn take(&mut self) -> Option<ComparedSlice> {
        self.ready.pop_front()
    }

    /// The next question, unless there are enough answers.
    pub(super) fn question(&mut self) -> Option<Question> {
        if self.ready.len() + self.asked.len() * PER_QUESTION as usize >= MAX_AHEAD {
            return None;
        }
        let large = self.large_files.front_mut()?;
        let (entry, slices) = (large.entry.clone(), large.take(PER_QUESTION));
        if large.is_done() {
            self.large_files.pop_front();
        }
        self.next += 1;
        self.asked.push((self.next, entry.path.clone()));
        Some(Question { number: self.next, entry, slices })
    }

    /// Takes an answer. A short answer ends the comparison of the file: the rest of the file is returned.
    pub(super) fn answer(&mut self, question: Question, pages: Vec<PageHashes>) -> Option<QueuedLargeFile> {
        // The file may have been dropped meanwhile.
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

    /// Whether slices of a large file were not taken yet.
    pub(super) fn has_file(&self, path: &RelPath) -> bool {
        self.large_files.iter().any(|large| large.entry.path == *path)
            || self.asked.iter().any(|(_, asked)| asked == path)
            || self.ready.iter().any(|(entry, ..)| entry.path == *path)
    }

    /// Drops the slices of a large file that were not taken.
    pub(super) fn drop_file(&mut self, path: &RelPath) {
        self.large_files.retain(|large| large.entry.path != *path);
        self.asked.retain(|(_, asked)| asked != path);
        self.ready.retain(|(entry, ..)| entry.path != *path);
    }
}

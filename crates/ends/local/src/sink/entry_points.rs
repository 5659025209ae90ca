//! The calls of the engine: `impl Sink`.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_core::sink::{ArrivingContent, CloneRead};
use haul_core::{
    Answer, Batch, BatchData, Entry, Error, ErrorKind, FinishReport, HardLink, HungOperation, Offer, Outcome,
    PageHashes, RelPath, Result, Retry, Side, Sink, SinkCaps, SliceData, WriteDone,
};

use super::answer::answer;
use super::clone::clone_file;
use super::full::explain;
use super::link::link;
use super::rebuild::has_unchanged;
use super::state::{COMPARERS, LocalSink};
use super::unwritable::refused;
use crate::stage::names::{journal_of, part_of};

/// Entries that one thread compares at a time on a network file system.
const NETWORK_RUN: usize = 8;
/// Up to this many entries are compared by one thread on a local disk.
const FEW_OFFERS: usize = 256;
/// Batches that are written at once on a network file system: while one waits for its last files, others go on.
const NETWORK_WRITERS: u32 = 6;

/// The error of a request that the engine may repeat.
fn repeatable(error: Error) -> Error {
    error.or_retry(Retry::of_read)
}

impl Sink for LocalSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps {
            parts: true,
            delta: true,
            clones: true,
            growing: true,
            writers: if self.tree().is_network_fs() { NETWORK_WRITERS } else { 0 },
            ..SinkCaps::default()
        }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.committer.superseded.offered(offers);
        // Many entries are compared by several threads, in runs that share directories.
        let len = if self.tree().is_network_fs() {
            NETWORK_RUN
        } else if offers.len() < FEW_OFFERS {
            offers.len().max(1)
        } else {
            offers.len().div_ceil(COMPARERS * 4)
        };
        let make = !self.options.dry_run && !self.options.existing;
        let paths = offers.iter().map(|offer| &offer.entry.path);
        self.prefetch.prefetch(self.tree(), &self.threads, paths, make);
        let runs: Vec<&[Offer]> = offers.chunks(len).collect();
        let one = |one: &Offer| {
            let answer = answer(self, one).map_err(repeatable);
            answer.map_err(|error| explain(self.root(), &one.entry.path, error))
        };
        let answers = |run: &&[Offer]| run.iter().map(one).collect::<Vec<_>>();
        let answers: Vec<_> = self.threads.each(&runs, answers).into_iter().flatten().collect();
        if self.options.dry_run {
            return Ok(answers);
        }
        let replaces = !self.options.in_place;
        refused(&self.writability, self.root(), replaces, &answers).map_or(Ok(answers), Err)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let finished = self.finished.read();
        if *finished {
            // A copy of a batch that was sent again, from a connection that was given up. It would replace the file and
            // change the time of its directory.
            let cause = "the run has ended";
            let error = Error::new(ErrorKind::Protocol, Side::Destination, "write", cause);
            return done(data.slices.iter().map(|_| Err(error.clone())).collect());
        }
        let done = self.explaining(&data.batch, done);
        if has_unchanged(&data) {
            self.write_changed(data, done);
        } else {
            self.write_batch(&data, done);
        }
    }

    fn write_arriving(
        &self,
        batch: &Arc<Batch>,
        slices: &[Result<SliceData>],
        content: &mut dyn ArrivingContent,
        done: &mut Option<WriteDone>,
    ) -> Result<()> {
        self.take_arriving(batch, slices, content, done)
    }

    fn pages(&self, entry: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        let base = self.committer.bases.of(self.root(), &self.options, entry);
        Ok(base.map_or_else(Vec::new, |base| base.pages(slices)))
    }

    fn flush(&self) {
        self.committer.queue.flush();
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.tree().hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.tree().root.ops.is_waited_for()
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        for path in paths {
            self.committer.superseded.discard(path);
            if self.close_large(path)
                && let Ok(at) = self.root().at(path)
            {
                let _ = part_of(&at).remove();
                let _ = journal_of(&at).remove();
            }
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(self.committer.threads.each(links, |one| link(self, one).map_err(repeatable)))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let remove = |path| self.remove_one(path).map_err(repeatable);
        if self.tree().is_network_fs() && !self.options.dry_run {
            // Files first, several at a time; then the directories are empty.
            let gone = self.committer.threads.each(paths, |path| self.unlink(path));
            let rest = paths.iter().zip(gone);
            return Ok(rest.map(|(path, gone)| if gone { Ok(()) } else { remove(path) }).collect());
        }
        Ok(paths.iter().map(remove).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        self.finish_run()
    }

    fn clone_file(
        &self,
        entry: &Entry,
        file: &File,
        read: Option<&CloneRead<'_>>,
    ) -> Result<Option<Outcome>> {
        clone_file(self, entry, file, read)
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        self.committer.rechecks.stop();
        self.committer.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // A panic was printed by its thread.
            let _ = thread.join();
        }
        // If the run was not finished.
        self.abandon_useless();
        self.tree().unlocked.lock_again(self.root());
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "offer_tests.rs"]
mod offer_tests;

#[cfg(test)]
#[path = "large_tests.rs"]
mod large_tests;

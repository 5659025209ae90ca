//! The sink.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::{
    Answer, Batch, BatchData, Entry, ErrorKind, FinishReport, HardLink, Offer, Outcome, RelPath, Result,
    SLICE_LEN, Sink, SinkCaps, Traffic, WriteDone,
};

use super::large::LargeFile;
use super::sink_state::SinkState;
use super::{links, offer, remove, server_side_copy, small};

/// Batches that are worth writing at a time: each sends a part, or hundreds of small objects.
const WRITERS: u32 = 20;

/// A tree in a bucket, to be written.
pub(super) struct ObjectSink {
    state: SinkState,
    large_files: Mutex<HashMap<RelPath, Arc<LargeFile>>>,
}

impl ObjectSink {
    pub(super) fn new(state: SinkState) -> Self {
        Self { state, large_files: Mutex::default() }
    }

    /// The upload of a large file in this state, begun or not.
    fn large(&self, entry: &Arc<Entry>) -> Arc<LargeFile> {
        let mut large_files = self.large_files.lock();
        let new = || Arc::new(LargeFile::new(entry, self.state.tree.client.terms().max_parts));
        let large = large_files.entry(entry.path.clone()).or_insert_with(new);
        if !large.is_of(entry) {
            *large = new();
        }
        Arc::clone(large)
    }

    fn write_all(&self, data: BatchData) -> Vec<Result<Outcome>> {
        let BatchData { batch, slices, content, at_hand } = data;
        let content = haul_object::share(content);
        let mut used = 0;
        let mut jobs = Vec::with_capacity(slices.len());
        for ((entry, slice), read) in batch.iter().zip(slices) {
            let len = read.as_ref().map_or(0, |read| read.data_len() as usize);
            let end = (used + len).min(content.len());
            jobs.push((entry, slice, read, content.slice(used.min(end)..end)));
            used = end;
        }
        drop(content);
        self.state.send.each(&jobs, |(entry, slice, read, content)| {
            let read = read.as_ref().map_err(Clone::clone)?;
            self.state.check(entry)?;
            if !at_hand && !read.proves(entry, *slice, content) {
                let cause = format!("slice {} did not arrive as it was sent", slice.index);
                return Err(self.state.tree.error(ErrorKind::Corrupt, "verify", &entry.path, &cause));
            }
            self.state.went.fetch_add(read.data_len(), Ordering::Relaxed);
            if entry.len <= SLICE_LEN {
                small::write(&self.state, entry, read, content)
            } else {
                self.large(entry).write(&self.state, *slice, read, content)
            }
        })
    }
}

impl Sink for ObjectSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps { stages: false, fetches: self.state.from.is_some(), ..SinkCaps::default() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        Ok(self.state.look.each(offers, |one| offer::offer(&self.state, one)))
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        done(self.write_all(data));
    }

    fn fetch(&self, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        match &self.state.from {
            Some(from) => {
                server_side_copy::fetch(&self.state, from, batch, done);
                None
            }
            None => Some(done),
        }
    }

    fn flush(&self) {}

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        for path in paths {
            let large = self.large_files.lock().remove(path);
            large.map_or(Ok(()), |large| large.abort(&self.state))?;
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(self.state.look.each(links, |link| links::link(&self.state, link)))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        if self.state.options.dry_run {
            return Ok(paths.iter().map(|_| Ok(())).collect());
        }
        remove::remove(&self.state, paths)
    }

    fn finish(&self) -> Result<FinishReport> {
        self.large_files.lock().clear();
        Ok(FinishReport { notes: self.state.warnings.all() })
    }

    fn streams(&self) -> u32 {
        WRITERS
    }

    fn traffic(&self) -> Traffic {
        let (went, held) = (self.state.went.load(Ordering::Relaxed), self.state.held.load(Ordering::Relaxed));
        Traffic { wire_bytes: went.saturating_sub(held), resumed_bytes: held, ..Traffic::default() }
    }
}

//! The contract of a sink, carried out on a share.

use std::collections::BTreeMap;

use haul_core::source::REMOVE;
use haul_core::{
    Answer, BatchData, Entry, ErrorKind, FinishReport, HardLink, Offer, Outcome, RelPath, Result, Sink,
    SinkCaps, Slice, SliceData, WriteDone,
};
use std::sync::Arc;

use super::reply::nonsense;
use super::small::is_small;
use super::state::SmbSink;
use super::{large, link, offer, remove, small};

impl SmbSink {
    fn write_all(&self, data: &BatchData) -> Result<Vec<Result<Outcome>>> {
        let mut used = 0;
        let mut jobs = Vec::with_capacity(data.slices.len());
        for ((entry, slice), read) in data.batch.iter().zip(&data.slices) {
            let len = read.as_ref().map_or(0, SliceData::data_len) as usize;
            jobs.push((entry, slice, read, data.content.bytes().get(used..used + len).unwrap_or_default()));
            used += len;
        }
        self.tree.smb.all(jobs, async |(entry, slice, read, content)| match read {
            Ok(read) => self.write_one(data.at_hand, entry, slice, read, content).await,
            Err(error) => Err(error.clone()),
        })
    }

    async fn write_one(
        &self,
        at_hand: bool,
        entry: &Arc<Entry>,
        slice: Slice,
        read: &SliceData,
        content: &[u8],
    ) -> Result<Outcome> {
        self.check(entry)?;
        if !at_hand && !read.proves(entry, slice, content) {
            let cause = format!("slice {} did not arrive as it was sent", slice.index);
            return Err(self.tree.fault(ErrorKind::Corrupt, "verify", &entry.path, &cause));
        }
        if entry.is_stream() && read.same_len() > 0 {
            let cause = "an interrupted run has not left this slice";
            return Err(self.tree.fault(ErrorKind::Corrupt, "compare", &entry.path, cause));
        }
        if is_small(entry) {
            // A stream becomes small at its end.
            drop(self.large_files.take(&entry.path));
            return small::write(self, entry, read, content).await;
        }
        match self.large_files.get(&entry.path) {
            Some(large) => {
                large.end_at(entry)?;
                large::write(self, &large, slice, read, content).await
            }
            None => {
                let cause = "nothing of it is under way any more";
                Err(self.tree.fault(ErrorKind::Busy, "write", &entry.path, cause))
            }
        }
    }

    /// Sets the metadata of directories as far as it differs.
    fn finish_dirs(&self, entries: &[Entry]) -> Result<()> {
        let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
        let found = self.tree.smb.all(&paths, |path| self.directories.find(&self.tree, path))?;
        let mut differing: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        let differ = self.differ_in_extras(entries)?;
        for ((entry, found), differs) in entries.iter().zip(found).zip(differ) {
            if let Ok(Some(now)) = found
                && (!differs.is_empty() || !self.wish(entry).is_met_by(&now))
            {
                differing.entry(entry.path.components().count()).or_default().push((entry, now));
            }
        }
        for level in differing.into_values().rev() {
            for set in self.tree.smb.all(&level, |(entry, now)| self.set(entry, Some(now)))? {
                set?;
            }
        }
        Ok(())
    }
}

impl Sink for SmbSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps {
            // A server reports a name that it cannot create as a plain failure.
            stages: false,
            growing: true,
            // A frame waits for the disk of the server; several of them keep it and the connections busy.
            writers: 8,
            ..SinkCaps::default()
        }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        offer::answer(self, offers)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let mut outcomes = self.write_all(&data).unwrap_or_else(|error| vec![Err(error); data.slices.len()]);
        let missing = || Err(nonsense("an answer is missing"));
        outcomes.resize_with(data.slices.len(), missing);
        drop(data);
        done(outcomes);
    }

    fn flush(&self) {
        // A write returns only when its content is durable.
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let gone = paths.iter().filter_map(|path| self.large_files.take(path));
        let gone: Vec<String> = gone.flat_map(|large| [large.part.clone(), large.journal.clone()]).collect();
        self.remove_all(&gone)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let above: Vec<RelPath> = links.iter().map(|link| link.entry.path.clone()).collect();
        if !self.options.dry_run {
            let lacking = self.directories.look(&self.tree, &above)?.lacking;
            self.make_dirs(&lacking.into_iter().collect())?;
        }
        self.tree.smb.all(links, |one| link::link(self, one))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let kept: Vec<bool> = paths.iter().map(|path| self.directories.is_kept(path)).collect();
        let gone = paths.iter().zip(&kept).filter(|(_, kept)| !**kept);
        let gone: Vec<RelPath> = gone.map(|(path, _)| path.clone()).collect();
        let removed = if self.options.dry_run {
            gone.iter().map(|_| Ok(())).collect()
        } else {
            gone.iter().for_each(|path| self.directories.forget(path));
            remove::remove(&self.tree, &gone)?
        };
        let mut removed = removed.into_iter();
        let in_use = |path: &RelPath| {
            let cause = "it is an entry of the source under another name";
            Err(self.tree.fault(ErrorKind::InUse, REMOVE, path, cause))
        };
        let answer = |(path, kept): (&RelPath, bool)| {
            if kept {
                in_use(path)
            } else {
                removed.next().unwrap_or_else(|| Err(nonsense("an answer is missing")))
            }
        };
        Ok(paths.iter().zip(kept).map(answer).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        if !self.options.dry_run {
            self.dirs.finish(&|entries| self.finish_dirs(entries))?;
        }
        Ok(FinishReport { notes: self.notes.all() })
    }

    fn is_held_by_iops(&self) -> bool {
        self.tree.smb.server.ops.is_waited_for()
    }

    fn streams(&self) -> u32 {
        self.tree.smb.server.streams()
    }
}

//! The source.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::filter::RulesAbove;
use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, Digest, Entry, RelPath, Result, ScanOptions, Sha256, Source, SourceCaps, Traffic,
};

use super::source_state::SourceState;
use super::tree::RootKind;
use super::{read, remove_source, rules, walk};

/// A tree in a bucket, to be read.
pub(super) struct ObjectSource {
    state: SourceState,
}

impl ObjectSource {
    pub(super) fn new(state: SourceState) -> Self {
        Self { state }
    }
}

impl Source for ObjectSource {
    fn caps(&self) -> SourceCaps {
        SourceCaps { removes: true, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        let root = RelPath::root();
        Ok(match self.state.at_root()? {
            RootKind::Nothing => None,
            RootKind::Object => self.state.ask(&root)?.map(|cached| cached.entry.clone()),
            RootKind::Directory => self.state.ask_directory(&root)?.map(|cached| cached.entry.clone()),
        })
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        walk::walk(&self.state, options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        Ok(self.state.look.each(paths, |path| match self.state.cache.get(path) {
            Some(cached) => Ok(Some(cached.entry.clone())),
            None => self.state.ask(path).map(|cached| cached.map(|cached| cached.entry.clone())),
        }))
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        rules::above(&self.state.tree, names)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        read::read(&self.state, batch)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        read::digest(&self.state, paths)
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        read::sha256(&self.state, paths)
    }

    fn hashed(&self) -> Option<u64> {
        Some(self.state.hashed.sum())
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        Ok(self.state.look.each(entries, |entry| remove_source::remove(&self.state, entry)))
    }

    fn streams(&self) -> u32 {
        self.state.tree.client.readers()
    }

    fn traffic(&self) -> Traffic {
        Traffic { wire_bytes: self.state.came.load(Ordering::Relaxed), ..Traffic::default() }
    }
}

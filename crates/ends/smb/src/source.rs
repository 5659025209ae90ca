//! The contract of a source, carried out on a share.

use std::sync::Arc;

use haul_core::filter::RulesAbove;
use haul_core::source::{ScanVisit, removes_no_targets};
use haul_core::{Batch, BatchData, Digest, Entry, RelPath, Result, ScanOptions, Sha256, Source, SourceCaps};
use haul_ends::hashed::HashedBytes;
use haul_ends::server_tree::ServerTree;

use super::attrs::TIME_UNIT;
use super::read::HASHERS;
use super::tree::Tree;
use super::{remove, walk};

/// A tree on a share, to be read.
pub(super) struct SmbSource {
    tree: Tree,
    hashed: HashedBytes,
}

impl SmbSource {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree, hashed: HashedBytes::default() }
    }
}

impl Source for SmbSource {
    fn caps(&self) -> SourceCaps {
        SourceCaps { removes: !self.tree.links.are_followed(), time_unit: TIME_UNIT, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.tree.root()
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        walk::walk(&self.tree, options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.tree.entries_at(paths)
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        self.tree.rules_above(names)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.tree.read(batch)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        self.tree.digest(paths, HASHERS, &self.hashed)
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        self.tree.sha256(paths, HASHERS, &self.hashed)
    }

    fn hashed(&self) -> Option<u64> {
        Some(self.hashed.sum())
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        if self.tree.links.are_followed() {
            return Err(removes_no_targets());
        }
        remove::remove_unchanged(&self.tree, entries)
    }

    fn is_held_by_iops(&self) -> bool {
        self.tree.smb.server.ops.is_waited_for()
    }

    fn streams(&self) -> u32 {
        self.tree.smb.server.streams()
    }
}

//! A large file on the share.

use std::sync::Arc;

use haul_core::staging::{JOURNAL, PART, staging_name};
use haul_core::{ChainingValue, Entry, Result};

use super::tree::Tree;

/// A large file, and whether it replaces a file. Its journal is opened for each record.
pub(super) type LargeFile = haul_ends::large_file::LargeFile<String, (), bool>;
pub(super) type LargeFiles = haul_ends::large_file::LargeFiles<String, (), bool>;

/// A file with the `known` slices of an interrupted run, which its journal names.
pub(super) fn large_file(
    tree: &Tree,
    entry: &Arc<Entry>,
    replaces: bool,
    known: &[(u32, ChainingValue)],
) -> Result<LargeFile> {
    let beside = |suffix| tree.beside(&entry.path, &staging_name(tree.name_of(&entry.path), suffix));
    let large = LargeFile::new(entry, (beside(PART)?, beside(JOURNAL)?), replaces, known);
    large.lock().recorded = known.len();
    Ok(large)
}

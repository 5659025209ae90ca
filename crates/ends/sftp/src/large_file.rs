//! A large file at the server.

use std::sync::Arc;

use haul_core::staging::{JOURNAL, PART, staging_name};
use haul_core::{ChainingValue, Entry};

use super::conn::Conn;
use super::tree::Tree;

/// A handle of a connection.
type ConnHandle = (Arc<Conn>, Vec<u8>);
/// A large file, and the mode with which its staged file is created.
pub(super) type LargeFile = haul_ends::large_file::LargeFile<Vec<u8>, ConnHandle, u32>;
pub(super) type LargeFiles = haul_ends::large_file::LargeFiles<Vec<u8>, ConnHandle, u32>;
pub(super) type LargeFileProgress = haul_ends::large_file::LargeFileProgress<ConnHandle>;

/// A file with the `known` slices of an interrupted run.
pub(super) fn large_file(
    tree: &Tree,
    entry: &Arc<Entry>,
    first_mode: u32,
    known: &[(u32, ChainingValue)],
) -> LargeFile {
    let beside = |suffix| tree.beside(&entry.path, &staging_name(tree.name_of(&entry.path), suffix));
    LargeFile::new(entry, (beside(PART), beside(JOURNAL)), first_mode, known)
}

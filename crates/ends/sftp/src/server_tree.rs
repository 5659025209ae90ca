//! The operations of a tree at the server.

use std::sync::Arc;

use haul_core::{Batch, BatchData, Entry, Error, ErrorKind, RelPath, Result, Side};
use haul_ends::server_tree::ServerTree;

use super::tree::Tree;
use super::{entries, read};

impl ServerTree for Tree {
    fn side(&self) -> Side {
        self.side
    }

    fn top(&self) -> Self {
        Self::top(self)
    }

    fn path_of_root(&self) -> Vec<u8> {
        self.remote(&RelPath::root())
    }

    fn entries_at(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        entries::entries_at(self, paths)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        read::read(self, batch)
    }

    fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Self::fault(self, kind, operation, path, cause)
    }
}

//! A tree on a server. One call may ask about many entries.

use std::sync::Arc;

use haul_core::filter::{DirRules, Filter, RulesAbove, RulesReader, look_above};
use haul_core::{Batch, BatchData, Digest, Entry, Error, ErrorKind, RelPath, Result, Sha256, Side};

use crate::hashed::HashedBytes;

/// The operations of a tree on a server. Those with a body use the others.
pub trait ServerTree: Sync + Sized {
    /// The end that it is.
    fn side(&self) -> Side;

    /// All that the server has.
    fn top(&self) -> Self;

    /// The path of the root from the top.
    fn path_of_root(&self) -> Vec<u8>;

    /// The entries at `paths` as they are now.
    ///
    /// # Errors
    /// If the server cannot be asked.
    fn entries_at(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>>;

    /// Reads the slices of a batch and hashes them.
    ///
    /// # Errors
    /// If the server cannot be asked.
    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData>;

    /// An error of haul's own for the entry at `path`.
    fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error;

    /// The entry at the root.
    ///
    /// # Errors
    /// Those of [`ServerTree::entries_at`].
    fn root(&self) -> Result<Option<Entry>> {
        self.entries_at(&[RelPath::root()])?.pop().unwrap_or(Ok(None))
    }

    /// The error of an entry that is not there.
    fn missing(&self, operation: &str, path: &RelPath) -> Error {
        self.fault(ErrorKind::NotFound, operation, path, "No such file or directory")
    }

    /// The error of a file that is not the one of the scan any more.
    fn changed(&self, path: &RelPath) -> Error {
        self.fault(ErrorKind::SourceChanged, "read", path, "the file changed while it was read")
    }

    /// The digests of whole files as they are now. Up to `threads` batches are read at a time, and counted in `hashed`.
    ///
    /// # Errors
    /// Those of [`ServerTree::read`].
    fn digest(&self, paths: &[RelPath], threads: u32, hashed: &HashedBytes) -> Result<Vec<Result<Digest>>> {
        let read = |batch: &Arc<Batch>| hashed.read(batch, |batch| self.read(batch));
        crate::digests::digests(files(self, paths)?, threads, read)
    }

    /// The same with the SHA-256 of each file.
    ///
    /// # Errors
    /// Those of [`ServerTree::read`].
    fn sha256(&self, paths: &[RelPath], threads: u32, hashed: &HashedBytes) -> Result<Vec<Result<Sha256>>> {
        let read = |batch: &Arc<Batch>| hashed.read(batch, |batch| self.read(batch));
        crate::sha256::sha256(files(self, paths)?, threads, read)
    }

    /// The path of the root, and the files of filter rules with these names above it.
    ///
    /// # Errors
    /// Those of reading them.
    fn rules_above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        let root = self.path_of_root();
        reading(&self.top(), |reader| look_above(&root, names, &mut |path| reader.read_at(path)))
    }
}

/// The files at these paths.
fn files(tree: &impl ServerTree, paths: &[RelPath]) -> Result<Vec<Result<Arc<Entry>>>> {
    let file = |(path, found): (&RelPath, Result<Option<Entry>>)| match found? {
        Some(entry) if entry.is_file() => Ok(Arc::new(entry)),
        Some(_) => Err(tree.changed(path)),
        None => Err(tree.missing("open", path)),
    };
    Ok(paths.iter().zip(tree.entries_at(paths)?).map(file).collect())
}

/// Calls `with` with the operations that read files of rules in a tree.
fn reading<T>(tree: &impl ServerTree, with: impl FnOnce(&RulesReader<'_>) -> T) -> T {
    with(&RulesReader { lookup: &|paths| tree.entries_at(paths), read: &|batch| tree.read(batch) })
}

/// The filter rules of a directory anywhere in the tree.
pub(crate) fn enter_all(
    tree: &impl ServerTree,
    filter: &Filter<'_>,
    top: &DirRules,
    dir: &RelPath,
) -> Result<DirRules> {
    let entered = reading(tree, |reader| filter.enter_all(top, dir, &mut |path| reader.read_at(path)));
    entered.map_err(|error| error.with_side(tree.side()))
}

/// The filter rules of directories, whose parents have the rules given with them: one result for each, in order.
pub(crate) fn enter(
    tree: &impl ServerTree,
    filter: &Filter<'_>,
    dirs: &[(&DirRules, &RelPath)],
) -> Result<Vec<Result<DirRules>>> {
    let entered = reading(tree, |reader| reader.enter(filter, dirs))?;
    Ok(entered.into_iter().map(|rules| rules.map_err(|error| error.with_side(tree.side()))).collect())
}

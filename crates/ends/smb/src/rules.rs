//! Files of filter rules on the share.

use haul_core::filter::{Above, DirRules, Filter, RulesReader, look_above};
use haul_core::{RelPath, Result};

use super::entries::entries_at;
use super::read;
use super::tree::Tree;

/// Calls `with` with the operations that read files of rules in a tree.
fn reading<T>(tree: &Tree, with: impl FnOnce(&RulesReader<'_>) -> T) -> T {
    with(&RulesReader { lookup: &|paths| entries_at(tree, paths), read: &|batch| read::read(tree, batch) })
}

/// The path of the root from the top of the share, and the files with these names above it. What is above the share is
/// not seen.
pub(super) fn above(tree: &Tree, names: &[Vec<u8>]) -> Result<Above> {
    reading(&tree.top(), |reader| look_above(&tree.path_of_root(), names, &mut |path| reader.read_at(path)))
}

/// The rules of a directory anywhere in the tree.
pub(super) fn enter_all(tree: &Tree, filter: &Filter<'_>, top: &DirRules, dir: &RelPath) -> Result<DirRules> {
    let entered = reading(tree, |reader| filter.enter_all(top, dir, &mut |path| reader.read_at(path)));
    entered.map_err(|error| error.with_side(tree.side))
}

/// The rules of directories, whose parents have the rules given with them: one result for each, in order.
pub(super) fn enter(
    tree: &Tree,
    filter: &Filter<'_>,
    dirs: &[(&DirRules, &RelPath)],
) -> Result<Vec<Result<DirRules>>> {
    let entered = reading(tree, |reader| reader.enter(filter, dirs))?;
    Ok(entered.into_iter().map(|rules| rules.map_err(|error| error.with_side(tree.side))).collect())
}

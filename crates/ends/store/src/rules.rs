//! Files of filter rules in a bucket.

use haul_core::filter::{DirRules, Filter, MAX_RULES_LEN, RulesAbove, look_above, read_rules};
use haul_core::{ErrorKind, RelPath, Result};

use super::metadata;
use super::read;
use super::source_state::SourceState;
use super::tree::Tree;

const READ: &str = "read the filter rules";

/// The key of the root as an absolute path, and the objects with these names above it.
pub(super) fn above(tree: &Tree, names: &[Vec<u8>]) -> Result<RulesAbove> {
    let top = tree.top();
    look_above(tree.root_path().as_bytes(), names, &mut |path| {
        let key = top.key(path);
        let Some(object) = top.client.look(&key)? else { return Ok(None) };
        if object.len > MAX_RULES_LEN as u64 {
            return Err(top.error(ErrorKind::Usage, READ, path, "the object has more than 1 MiB"));
        }
        // An object of another kind has no content.
        Ok(top
            .client
            .read_small(&key, MAX_RULES_LEN)?
            .filter(|_| metadata::read(path, &object, false, None).is_file()))
    })
}

/// The rules of `dir`, whose parent has the rules `above`.
pub(super) fn enter(
    source: &SourceState,
    filter: &Filter<'_>,
    above: &DirRules,
    dir: &RelPath,
) -> Result<DirRules> {
    let entered = filter.enter(above, dir, &mut |path| read_at(source, path));
    entered.map_err(|error| error.with_side(source.tree.side))
}

/// The rules of a directory anywhere in the tree.
pub(super) fn enter_all(
    source: &SourceState,
    filter: &Filter<'_>,
    top: &DirRules,
    dir: &RelPath,
) -> Result<DirRules> {
    let entered = filter.enter_all(top, dir, &mut |path| read_at(source, path));
    entered.map_err(|error| error.with_side(source.tree.side))
}

fn read_at(source: &SourceState, path: &RelPath) -> Result<Option<Vec<u8>>> {
    let Some(object) = source.tree.client.look(&source.tree.key(path))? else { return Ok(None) };
    let cached = source.learn(path, object, false)?;
    read_rules(Some(cached.entry.clone()), |batch| read::read(source, batch))
}

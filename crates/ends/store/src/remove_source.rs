//! Removes objects of a source after they were copied, if they are still those that were copied.

use haul_core::source::changed_since_copied;
use haul_core::{Entry, Result};
use haul_streams::sidecar::{self, SidecarObject};

use super::source_state::SourceState;

/// Removes the object of an entry, and its sidecar. A missing object counts as removed.
///
/// # Errors
/// `SourceChanged` if it is another object than the one that was copied; else the error of the request.
pub(super) fn remove(state: &SourceState, entry: &Entry) -> Result<()> {
    let (tree, key) = (&state.tree, state.tree.key(&entry.path));
    let changed = || Err(changed_since_copied().on(tree.shown(&entry.path)));
    if key.is_empty() || entry.is_dir() {
        return changed();
    }
    let Some(object) = tree.client.look(&key)? else { return Ok(()) };
    let now = state.learn(&entry.path, object, false)?;
    // The inode stands for the ETag.
    if now.entry.kind != entry.kind || now.entry.identity() != entry.identity() {
        return changed();
    }
    let has_sidecar = sidecar::beside(&tree.client, &key)? == SidecarObject::Sidecar;
    tree.client.remove_unchanged(&now.object)?;
    if has_sidecar {
        let left = tree.client.remove(&[sidecar::key_of(&key)])?;
        return left.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
    }
    Ok(())
}

//! Opens a sink with the trees that belong to it: backups and references.

use haul_core::{BufferPool, MAX_REFERENCES, Place, Result, SinkOptions, twin_place};

use super::state::{EarlierCopies, LocalSink};
use crate::backups::{Backups, decided};
use crate::path::place::RootEntry;
use crate::path::root::Root;

/// Opens a sink. `base` resolves a place, and may make the directories above it if told so; `open` gives a root there.
///
/// # Errors
/// Those of `base`; `Io` if no thread can be started.
pub(crate) fn open_at(
    place: &Place,
    options: &SinkOptions,
    pool: &BufferPool,
    base: impl Fn(&Place, bool) -> Result<RootEntry>,
    open: impl Fn(RootEntry) -> Root,
) -> Result<LocalSink> {
    let made = |place: &Place| base(place, !options.dry_run);
    let found = |place: &Place| base(place, false);
    let mut root = open(made(place)?);
    if let Some(backup) = &options.backup {
        Backups::new(backup, place, made, &open)?.serve(&mut root);
    }
    let mut references = Vec::new();
    let dirs = &options.references.dirs;
    if !dirs.is_empty() {
        let of = decided(place, found)?;
        for dir in dirs.iter().take(MAX_REFERENCES) {
            references.push(open(found(&twin_place(&of, dir))?));
        }
    }
    let references = EarlierCopies::new(references, options);
    Ok(LocalSink::new(root, options.clone(), pool.clone())?.with_earlier(references))
}

//! Opens a sink with the trees that belong to it: backups and references.

use haul_core::{BufferPool, MAX_REFERENCES, Place, PlaceRoot, RelPath, Result, SinkOptions, twin_place};

use super::state::{EarlierCopies, LocalSink};
use crate::backups::{Backups, decided};
use crate::path::place::RootEntry;
use crate::path::root::Root;
use crate::path::stat;

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
            let mut twin = twin_place(&of, dir);
            if options.dry_run {
                // The run itself makes the directories that the path leads through.
                let is_there = |path: &[u8]| {
                    let at = Place { path: path.to_vec(), root: PlaceRoot::Exactly };
                    found(&at).is_ok_and(|base| is_there(&open(base)))
                };
                twin.path = without_missing(&twin.path, is_there);
            }
            references.push(open(found(&twin)?));
        }
    }
    let references = EarlierCopies::new(references, options);
    Ok(LocalSink::new(root, options.clone(), pool.clone())?.with_earlier(references))
}

fn is_there(root: &Root) -> bool {
    root.at(&RelPath::root()).is_ok_and(|at| stat::statx(&at).is_ok())
}

/// The path without each directory that is missing and that `..` leaves again: `new/../old` is `old` if there is no `new`.
fn without_missing(path: &[u8], is_there: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        let is_left = part == b".." && kept.last().is_some_and(|last| !matches!(*last, b"" | b"." | b".."));
        if is_left && !is_there(&kept.join(&b'/')) {
            kept.pop();
        } else if !part.is_empty() || kept.is_empty() {
            kept.push(part);
        }
    }
    let mut path = if kept.is_empty() { b".".to_vec() } else { kept.join(&b'/') };
    // A slash at the end means the directory itself.
    path.push(b'/');
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_left_where_the_path_leads_out_of_them() {
        for (path, expected) in [
            ("new/../old/", "old/"),
            ("/a/new/x/../../old", "/a/old/"),
            ("/a//new/../", "/a/"),
            ("a/../old", "a/../old/"),
            ("new/..", "./"),
            ("../new/../old", "../old/"),
            ("new/../../old", "../old/"),
            ("old", "old/"),
        ] {
            let is_there = |path: &[u8]| [&b"a"[..], b"/a"].contains(&path);
            let found = String::from_utf8(without_missing(path.as_bytes(), is_there)).unwrap();
            assert_eq!(found, expected, "{path}");
        }
    }
}

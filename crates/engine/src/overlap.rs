//! Several sources with one destination: which source an entry is copied from.
//!
//! As with rsync, the first source that has the entry wins, but a directory wins over any other kind, because another
//! source may have entries in it. A directory of several sources gets the metadata of the first one.

use haul_core::{Entry, RelPath, Result, Source};

use crate::listed::ListedEntries;
use crate::run::Run;

/// Whether this source's entry is copied.
#[derive(Debug, PartialEq, Eq)]
enum OverlapVerdict {
    /// It is copied.
    Own,
    /// Another source's entry is copied.
    Skip,
    /// It is copied, as a directory with the metadata of an earlier source.
    As(Box<Entry>),
}

/// The entries that are copied from this source.
pub(crate) fn own(run: &Run<'_>, entries: Vec<Entry>) -> Vec<Entry> {
    if run.other_sources.is_empty() || entries.is_empty() {
        return entries;
    }
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    let mut found: Vec<Vec<Result<Option<Entry>>>> = Vec::with_capacity(run.other_sources.len());
    for other in run.other_sources {
        match listed(run, &*other.source, &paths) {
            Ok(entries) => found.push(entries),
            Err(error) => {
                run.abort(error);
                return Vec::new();
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        // An error of another source is reported when that source is copied.
        let others = found.iter_mut().map(|entries| entries.next().and_then(Result::ok).flatten());
        let others: Vec<(bool, Entry)> = run
            .other_sources
            .iter()
            .zip(others)
            .filter(|(other, _)| other.selection.as_ref().is_none_or(|selection| selection.has(&entry.path)))
            .filter_map(|(other, entry)| Some((other.is_earlier, entry?)))
            .collect();
        match judge(&entry, others) {
            OverlapVerdict::Own => kept.push(entry),
            OverlapVerdict::As(first) => kept.push(*first),
            OverlapVerdict::Skip => {
                run.meter.totals().left += 1;
                run.meter.left(&entry);
                run.trust.note_overlap(&entry);
            }
        }
    }
    kept
}

/// The entries at `paths` that a scan of another source lists.
fn listed(run: &Run<'_>, source: &dyn Source, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
    let mut found = source.lookup(paths)?;
    if !run.rules.is_empty() {
        for (found, listed) in found.iter_mut().zip(ListedEntries::new(source, run.rules)?.lists(paths)?) {
            if listed == Ok(false) {
                *found = Ok(None);
            }
        }
    }
    Ok(found)
}

/// Decides about an entry. `others`: the same path in the other sources, in their order, and whether the source is
/// earlier.
fn judge(entry: &Entry, others: Vec<(bool, Entry)>) -> OverlapVerdict {
    if entry.is_dir() {
        let first = others.into_iter().find(|(is_earlier, other)| *is_earlier && other.is_dir());
        return first.map_or(OverlapVerdict::Own, |(_, first)| {
            let names = entry.names.clone().filter(|_| (entry.uid, entry.gid) == (first.uid, first.gid));
            OverlapVerdict::As(Box::new(Entry { names, ..first }))
        });
    }
    let is_skipped = others.iter().any(|(is_earlier, other)| *is_earlier || other.is_dir());
    if is_skipped { OverlapVerdict::Skip } else { OverlapVerdict::Own }
}

#[cfg(test)]
mod tests {
    use haul_core::EntryKind;

    use super::*;

    fn entry(kind: EntryKind, mode: u32) -> Entry {
        Entry { mode, ..Entry::new(RelPath::new(b"name").unwrap(), kind, 0) }
    }

    #[test]
    fn the_first_source_wins_and_a_directory_wins_over_other_kinds() {
        let (file, dir) = (|| entry(EntryKind::File, 1), |mode| entry(EntryKind::Dir, mode));
        assert_eq!(judge(&file(), Vec::new()), OverlapVerdict::Own);
        assert_eq!(judge(&file(), vec![(false, file())]), OverlapVerdict::Own);
        assert_eq!(judge(&file(), vec![(true, file())]), OverlapVerdict::Skip);
        assert_eq!(judge(&file(), vec![(false, dir(1))]), OverlapVerdict::Skip);
        assert_eq!(judge(&dir(1), vec![(true, file()), (false, dir(2))]), OverlapVerdict::Own);
        let first = judge(&dir(1), vec![(true, file()), (true, dir(2)), (true, dir(3))]);
        assert_eq!(first, OverlapVerdict::As(Box::new(dir(2))));
    }
}

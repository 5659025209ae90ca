//! Several sources that go to one place: whose an entry is that more than one of them has.
//!
//! As with rsync, the first source counts, but a folder counts more than what is none, as another source may have
//! something in it. A folder that several of them have gets the metadata that it has in the first.

use std::sync::Arc;

use haul_core::event::Action;
use haul_core::{Entry, RelPath, Result, Source, filter};

use crate::copy::Run;

/// Another source that goes to the same place.
pub struct Rival {
    /// The source.
    pub source: Arc<dyn Source>,
    /// Whether it comes before the one that is being copied.
    pub is_earlier: bool,
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is this source's.
    Own,
    /// Another source's counts.
    Left,
    /// A folder with the metadata of an earlier source.
    As(Box<Entry>),
}

/// Those of the entries that are copied from this source.
pub(crate) fn own(run: &Run<'_>, entries: Vec<Entry>) -> Vec<Entry> {
    if run.rivals.is_empty() || entries.is_empty() {
        return entries;
    }
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    let mut others: Vec<Vec<Result<Option<Entry>>>> = Vec::with_capacity(run.rivals.len());
    for rival in run.rivals {
        match rival.source.lookup(&paths) {
            Ok(found) => others.push(found),
            Err(error) => {
                run.abort(error);
                return Vec::new();
            }
        }
    }
    let mut others: Vec<_> = others.into_iter().map(Vec::into_iter).collect();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        // What cannot be looked at there is told of when that source is copied.
        let found = others.iter_mut().map(|found| found.next().and_then(Result::ok).flatten());
        let found: Vec<(bool, Entry)> = run
            .rivals
            .iter()
            .zip(found)
            .filter_map(|(rival, found)| Some((rival.is_earlier, found?)))
            .filter(|(_, found)| !filter::excludes(run.rules, &found.path, found.is_dir()))
            .collect();
        match judge(&entry, found) {
            Verdict::Own => kept.push(entry),
            Verdict::As(first) => kept.push(*first),
            Verdict::Left => {
                run.meter.totals().left += 1;
                run.meter.entry(Action::Left, &entry.path, entry.len);
            }
        }
    }
    kept
}

/// Whose an entry is, of which other sources have these, earlier ones or later ones, in the order of the sources.
fn judge(entry: &Entry, others: Vec<(bool, Entry)>) -> Verdict {
    if entry.is_dir() {
        let first = others.into_iter().find(|(is_earlier, other)| *is_earlier && other.is_dir());
        return first.map_or(Verdict::Own, |(_, first)| {
            let names = entry.names.clone().filter(|_| (entry.uid, entry.gid) == (first.uid, first.gid));
            Verdict::As(Box::new(Entry { names, ..first }))
        });
    }
    let is_left = others.iter().any(|(is_earlier, other)| *is_earlier || other.is_dir());
    if is_left { Verdict::Left } else { Verdict::Own }
}

#[cfg(test)]
mod tests {
    use haul_core::EntryKind;

    use super::*;

    fn entry(kind: EntryKind, mode: u32) -> Entry {
        Entry { mode, ..Entry::new(RelPath::new(b"name").unwrap(), kind, 0) }
    }

    #[test]
    fn the_first_counts_and_a_folder_counts_more() {
        let (file, dir) = (|| entry(EntryKind::File, 1), |mode| entry(EntryKind::Dir, mode));
        assert_eq!(judge(&file(), Vec::new()), Verdict::Own);
        assert_eq!(judge(&file(), vec![(false, file())]), Verdict::Own);
        assert_eq!(judge(&file(), vec![(true, file())]), Verdict::Left);
        assert_eq!(judge(&file(), vec![(false, dir(1))]), Verdict::Left);
        assert_eq!(judge(&dir(1), vec![(true, file()), (false, dir(2))]), Verdict::Own);
        let first = judge(&dir(1), vec![(true, file()), (true, dir(2)), (true, dir(3))]);
        assert_eq!(first, Verdict::As(Box::new(dir(2))));
    }
}

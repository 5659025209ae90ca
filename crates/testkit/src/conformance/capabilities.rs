//! The stated capabilities of an end are those that it has.

use std::io::Read;
use std::sync::Arc;

use haul_core::delta::{PAGE_LEN, page_value};
use haul_core::{Delta, Entry, Error, ErrorKind, Outcome, PageHashes, SLICE_LEN, SinkOptions, Slice};

use super::bench::{TestBench, need, offer};
use super::case::{ConformanceCase, cases};
use super::content::{batch_of, bytes, write_file};

/// Two slices.
const LARGE: usize = 2 * SLICE_LEN as usize;
/// The pages of a slice.
const PAGES: usize = SLICE_LEN as usize / PAGE_LEN;
/// A page that the destination has with other content.
const CHANGED: usize = 3;

pub(super) const SOURCE_CASES: &[ConformanceCase] = cases![
    a_source_with_delta_omits_known_pages,
    a_source_with_local_files_opens_them,
    a_source_that_removes_spares_changed_entries,
];

pub(super) const SINK_CASES: &[ConformanceCase] =
    cases![a_sink_with_delta_hashes_existing_pages, a_sink_that_does_not_fetch_returns_the_callback];

/// The hashes of the pages of one slice.
fn pages_of(content: &[u8], index: usize) -> PageHashes {
    let mut pages = PageHashes::default();
    for page in index * PAGES..(index + 1) * PAGES {
        let at = page * PAGE_LEN;
        pages.push(&page_value(at as u64, &content[at..at + PAGE_LEN]));
    }
    pages
}

fn a_source_with_delta_omits_known_pages(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "large");
    let content = bytes("large", LARGE);
    let mut theirs = content.clone();
    theirs[SLICE_LEN as usize + CHANGED * PAGE_LEN] ^= 1;
    let data = source.read_changed(&batch_of(&entry, [Slice::whole(0, 1)]), &pages_of(&theirs, 1)).unwrap();
    let read = data.slices[0].as_ref().unwrap();
    let start = SLICE_LEN as usize;
    if source.caps().delta {
        let at = start + CHANGED * PAGE_LEN;
        assert!(data.content.bytes() == &content[at..at + PAGE_LEN], "the changed page alone is sent");
        assert_eq!(read.same_len(), SLICE_LEN - PAGE_LEN as u64);
    } else {
        assert!(data.content.bytes() == &content[start..], "everything is sent");
        assert_eq!(read.same_len(), 0);
    }
}

fn a_source_with_local_files_opens_them(bench: &TestBench) {
    bench.put_files(&[("small", 1000)]);
    let source = bench.source();
    let opened = source.local_file(&bench.seen(&*source, "small"));
    assert_eq!(opened.is_some(), source.caps().local_files);
    if let Some(file) = opened {
        let mut found = Vec::new();
        file.unwrap().read_to_end(&mut found).unwrap();
        assert!(found == bytes("small", 1000));
    }
}

fn a_source_that_removes_spares_changed_entries(bench: &TestBench) {
    bench.put_files(&[("same", 1000), ("dir/same", 10), ("longer", 10)]);
    let source = bench.source();
    if !source.caps().removes {
        assert!(source.remove_unchanged(&[]).is_err());
        return;
    }
    let seen = |name| Entry::clone(&bench.seen(&*source, name));
    let entries = ["same", "dir/same", "longer", "dir"].map(seen);
    bench.put(&bench.file("longer", 11));
    assert_eq!(source.remove_unchanged(&[]).unwrap(), [], "it may remove");
    let removed = source.remove_unchanged(&entries).unwrap();
    let kinds: Vec<_> = removed.iter().map(|one| one.as_ref().err().map(Error::kind)).collect();
    let changed = Some(ErrorKind::SourceChanged);
    assert_eq!(kinds, [None, None, changed, changed], "{removed:?}");
    assert!(bench.is_missing("same") && bench.is_missing("dir/same"));
    assert_eq!(bench.content("longer"), bytes("longer", 11));
    assert_eq!(source.remove_unchanged(&entries[..2]).unwrap(), [Ok(()), Ok(())], "again");
}

fn a_sink_with_delta_hashes_existing_pages(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let sink = bench.sink_with(&SinkOptions { delta: Delta::Always, ..SinkOptions::default() });
    let old = bench.file("large", LARGE);
    let new = Arc::new(Entry { mtime: bench.time(1), ..Entry::clone(&old) });
    assert_eq!(offer(&*sink, &new), need(false));
    let found = sink.pages(&new, 0..2).unwrap();
    if sink.caps().delta {
        let content = bytes("large", LARGE);
        assert_eq!(found, [pages_of(&content, 0), pages_of(&content, 1)]);
    } else {
        assert!(found.is_empty());
    }
    assert!(matches!(write_file(&*sink, &bench.pool, &new, &bytes("large", LARGE)), Outcome::Committed(_)));
}

fn a_sink_that_does_not_fetch_returns_the_callback(bench: &TestBench) {
    bench.put_root();
    let (sink, entry) = (bench.sink(), bench.file("file", 1000));
    assert_eq!(offer(&*sink, &entry), need(true));
    if !sink.caps().fetches {
        let batch = batch_of(&entry, [Slice::whole(0, 0)]);
        assert!(sink.fetch(&batch, Box::new(|_| ())).is_some(), "the caller reads and writes the batch");
    }
}

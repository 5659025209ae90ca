//! The effects of the options of a copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::event::Action;
use haul_core::sync::Mutex;
use haul_core::{Digest, Entry, EntryKind, ErrorKind, Retry, SLICE_LEN, Source, SourceCaps, Timestamp};

use super::faults::{EndCall, error, path};
use super::memory::{MemorySink, MemorySource, content, dir, file, older, symlink, tree};
use super::runs::{Setup, counted, options};
use crate::cloning::CLONED;
use crate::{CopyOptions, OtherSource, Trust};

fn all_kinds() -> Vec<Entry> {
    vec![dir(""), dir("d"), file("d/new", 10), file("d/old", 10), file("d/same", 10), symlink("l", "d")]
}

fn old() -> Vec<Entry> {
    let touched = Entry { mode: 0o600, ..file("d/mode", 5) };
    vec![dir(""), older(file("d/old", 10)), file("d/same", 10), touched]
}

#[test]
fn every_entry_gets_the_action_that_it_needs() {
    let mut setup = Setup::new(all_kinds().into_iter().chain([file("d/mode", 5)]), old());
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.made, totals.updated, totals.same), (2, 2, 1, 2));
    assert_eq!((totals.copied_bytes, totals.sent_bytes, totals.same_bytes), (20, 20, 15));
    let named = |action, at: &str| (action, at.to_owned());
    assert_eq!(
        setup.actions(),
        [
            named(Action::Made, "d"),
            named(Action::Updated, "d/mode"),
            named(Action::Copied, "d/new"),
            named(Action::Replaced, "d/old"),
            named(Action::Made, "l"),
        ]
    );
}

#[test]
fn a_dry_run_changes_nothing_and_counts_the_same() {
    let sink = MemorySink { tree: Mutex::new(tree(old())), dry_run: true, ..MemorySink::default() };
    let mut setup = Setup::with_sink(all_kinds(), sink);
    let totals = setup.run(CopyOptions { dry_run: true, ..options() }).totals;
    assert_eq!((totals.copied, totals.made, totals.same, counted(&totals)), (2, 2, 2, totals.found));
    assert_eq!(setup.old(), tree(old()));
    assert!(setup.actions().contains(&(Action::Replaced, "d/old".to_owned())));
}

#[test]
fn the_digest_decides_with_checksum() {
    let source = [file("same", 10), file("other", 10), file("new", 10), file("gone", 10)];
    let old = [older(file("same", 10)), older(file("other", 10)), older(file("gone", 10))];
    let old = old.map(|entry| if entry.path == path("same") { content(entry, 0) } else { entry });
    let mut setup = Setup::new(source, old.map(|entry| Entry { mtime: Timestamp::default(), ..entry }));
    setup.faults.plan(EndCall::Digest, "gone", 1, &error(ErrorKind::NotFound, Retry::Never));
    let report = setup.run(CopyOptions { checksum: true, ..options() });
    assert_eq!((report.totals.copied, report.totals.failed, counted(&report.totals)), (3, 1, 4));
    assert_eq!(setup.faults.calls(EndCall::Digest, "new"), 0, "a new file needs no digest");
    assert_eq!(setup.faults.calls(EndCall::Offer, "other"), 2);
}

#[test]
fn existing_entries_are_left_with_ignore_existing() {
    let sink = MemorySink { tree: Mutex::new(tree(old())), ignore_existing: true, ..MemorySink::default() };
    let mut setup = Setup::with_sink(all_kinds(), sink);
    let totals = setup.run(CopyOptions { ignore_existing: true, ..options() }).totals;
    assert_eq!((totals.left, totals.copied), (2, 1));
}

#[test]
fn a_list_names_the_entries() {
    let mut setup = Setup::new(all_kinds(), []);
    let list = ["d/new", "l", "absent"].map(|at| Ok(path(at)));
    let report = setup.run(CopyOptions { files_from: Some(Box::new(list.into_iter())), ..options() });
    assert_eq!((report.totals.found, report.totals.copied, report.totals.made), (2, 1, 1));
}

#[test]
fn the_root_is_copied_only_if_a_list_names_it() {
    for names_root in [false, true] {
        let mut setup = Setup::new([dir(""), dir("d"), file("f", 1)], []);
        setup.source.lists_above.store(true, Ordering::Relaxed);
        let list = ["d", if names_root { "" } else { "f" }].map(|at| Ok(path(at)));
        let report = setup.run(CopyOptions { files_from: Some(Box::new(list.into_iter())), ..options() });
        assert_eq!((report.totals.found, report.totals.failed, setup.has("d")), (2, 0, true));
        assert_eq!(setup.has(""), names_root);
    }
}

#[test]
fn the_engine_keeps_the_rate_only_if_no_connection_does() {
    for keeps_rate in [false, true] {
        let mut setup = Setup::new([dir(""), file("f", 1000)], []);
        setup.source.content_len.store(1000, Ordering::Relaxed);
        let pace = haul_core::Pace::default();
        let report = setup.run(CopyOptions { pace: pace.clone(), keeps_rate, ..options() });
        assert_eq!(report.totals.copied, 1);
        assert_eq!(pace.taken(), if keeps_rate { 1000 } else { 0 });
    }
}

#[test]
fn one_batch_after_another_passes_the_rate() {
    let mut setup = Setup::new([file("g", 4 * SLICE_LEN)], []);
    setup.source.content_len.store(16 << 10, Ordering::Relaxed);
    setup.faults.cancel_at(EndCall::Write, &setup.cancel);
    let pace = haul_core::Pace::default();
    pace.set(Some(64 << 10));
    let report = setup.run(CopyOptions { pace: pace.clone(), keeps_rate: true, ..options() });
    assert!(report.interrupted);
    assert!(
        pace.taken() < 2 * (16 << 10),
        "{} bytes had passed when the first batch was written",
        pace.taken()
    );
}

#[test]
fn a_large_file_that_a_list_names_twice_is_sent_once() {
    let mut setup = Setup::new([file("g", 30 * SLICE_LEN)], []);
    let list = (0..2000).map(|_| Ok(path("g")));
    let report = setup.run(CopyOptions { files_from: Some(Box::new(list)), ..options() });
    assert_eq!((report.totals.found, counted(&report.totals)), (2, 2));
    assert_eq!(report.totals.failed, 0);
}

#[test]
fn entries_of_an_index_are_compared_and_looked_up_only_if_they_differ() {
    for with_preview in [false, true] {
        let mut setup = Setup::new(all_kinds(), old());
        setup.source.from_index.store(true, Ordering::Relaxed);
        setup.faults.plan(EndCall::Lookup, "l", 1, &error(ErrorKind::PermissionDenied, Retry::Never));
        setup.source.now.lock().insert(path("d/old"), None);
        if with_preview {
            let tree = Mutex::new(tree(old()));
            setup.preview = Some(Arc::new(MemorySink { tree, dry_run: true, ..MemorySink::default() }));
        }
        let totals = setup.copy();
        assert_eq!((totals.copied, totals.failed, totals.same, totals.made), (1, 2, 2, 1));
        assert_eq!(setup.faults.calls(EndCall::Lookup, "d/same"), u32::from(!with_preview));
        let failures =
            [("d/old".to_owned(), ErrorKind::SourceChanged), ("l".to_owned(), ErrorKind::PermissionDenied)];
        assert_eq!(setup.failures(), failures);
    }
}

#[test]
fn an_entry_of_several_sources_is_copied_from_one_of_them() {
    let source = [dir(""), dir("d"), file("f", 1), file("x", 1), file("only", 1)];
    let mut setup = Setup::new(source, []);
    let other = |entries: Vec<Entry>, is_earlier| {
        let source = MemorySource { tree: Mutex::new(tree(entries)), ..MemorySource::default() };
        OtherSource { source: Arc::new(source) as Arc<dyn Source>, selection: None, is_earlier }
    };
    let first = Entry { mode: 0o700, ..dir("d") };
    setup.other_sources = vec![other(vec![first, file("f", 9)], true), other(vec![dir("x")], false)];
    let totals = setup.copy();
    assert_eq!((totals.left, totals.copied, totals.made), (2, 1, 2));
    assert_eq!(setup.old()[&path("d")].mode, 0o700);
}

#[test]
fn another_source_that_cannot_answer_ends_the_run() {
    let faults = Arc::new(super::faults::PlannedErrors::default());
    let mut setup = Setup::new([file("f", 1)], []);
    let source = MemorySource { faults, ..MemorySource::default() };
    setup.other_sources =
        vec![OtherSource { source: Arc::new(Unreachable(source)), selection: None, is_earlier: true }];
    let report = setup.run(options());
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Unreachable));
}

/// A source of which no lookup succeeds.
struct Unreachable(MemorySource);

impl Source for Unreachable {
    fn caps(&self) -> SourceCaps {
        self.0.caps()
    }

    fn root(&self) -> haul_core::Result<Option<Entry>> {
        self.0.root()
    }

    fn scan(
        &self,
        options: &haul_core::ScanOptions,
        visit: haul_core::source::ScanVisit<'_>,
    ) -> haul_core::Result<()> {
        self.0.scan(options, visit)
    }

    fn lookup(&self, _: &[haul_core::RelPath]) -> haul_core::Result<Vec<haul_core::Result<Option<Entry>>>> {
        Err(error(ErrorKind::Unreachable, Retry::Never))
    }

    fn read(&self, batch: &Arc<haul_core::Batch>) -> haul_core::Result<haul_core::BatchData> {
        self.0.read(batch)
    }

    fn digest(
        &self,
        paths: &[haul_core::RelPath],
    ) -> haul_core::Result<Vec<haul_core::Result<haul_core::Digest>>> {
        self.0.digest(paths)
    }
}

#[test]
fn impossible_and_untrusted_entries_are_not_copied() {
    let impossible = Entry { uid: u32::MAX, ..file("impossible", 1) };
    let device = Entry::new(path("device"), EntryKind::CharDevice(259), 0);
    let mut setup = Setup::new([impossible, device, file("f", 1)], []);
    let trust = Trust { devices: false, ..Trust::default() };
    let report = setup.run(CopyOptions { trust, ..options() });
    assert_eq!((report.totals.copied, report.totals.failed, report.totals.left), (1, 1, 1));
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(setup.failures(), [("impossible".to_owned(), ErrorKind::Unsupported)]);
}

#[test]
fn files_are_cloned_where_both_ends_can() {
    let clone = |source: bool, sink: bool, in_place: bool| {
        let (long, short) = (CLONED, CLONED - 1);
        let entries = [file("short", short), file("f", long), file("g", 2 * SLICE_LEN), file("bad", long)];
        let mut setup = Setup::new(entries, [older(file("g", 2 * SLICE_LEN))]);
        setup.source.can_clone.store(source, Ordering::Relaxed);
        setup.sink.can_clone.store(sink, Ordering::Relaxed);
        setup.faults.plan(EndCall::Clone, "bad", 1, &error(ErrorKind::Io, Retry::Never));
        let report = setup.run(CopyOptions { in_place, ..options() });
        assert_eq!(counted(&report.totals), 4);
        let written = ["short", "f", "g", "bad"].map(|at| setup.faults.calls(EndCall::Write, at));
        (written, report.totals.failed)
    };
    assert_eq!(clone(true, true, false), ([1, 0, 0, 0], 1));
    assert_eq!(clone(true, true, true), ([1, 0, 2, 0], 1), "a file in place keeps its inode");
    assert_eq!(clone(false, true, false), ([1, 1, 2, 1], 0));
}

#[test]
fn a_sink_that_cannot_clone_is_asked_once() {
    let mut setup = Setup::new([file("a", CLONED), file("b", CLONED)], []);
    setup.source.can_clone.store(true, Ordering::Relaxed);
    assert_eq!(setup.copy().copied, 2);
    assert_eq!(setup.faults.calls(EndCall::Clone, "a") + setup.faults.calls(EndCall::Clone, "b"), 1);
}

#[test]
fn clones_are_read_unless_they_are_trusted_and_no_digest_is_asked_for() {
    let digests_of = |digests, trusts_clones| {
        let mut setup = Setup::new([file("f", CLONED)], []);
        setup.source.can_clone.store(true, Ordering::Relaxed);
        setup.sink.can_clone.store(true, Ordering::Relaxed);
        let report = setup.run(CopyOptions { checksum: digests, digests, trusts_clones, ..options() });
        assert_eq!((report.totals.sent_bytes, report.totals.cloned_bytes), (0, CLONED));
        setup.events.digests.lock().clone()
    };
    let read = [("f".to_owned(), Digest([7; 32]))];
    assert_eq!(digests_of(false, false), read);
    assert_eq!(digests_of(true, false), read);
    assert_eq!(digests_of(true, true), read);
    assert_eq!(digests_of(false, true), []);
}

#[test]
fn a_changed_file_is_sent_instead_of_cloned() {
    let run = |kind| {
        let mut setup = Setup::new([file("f", CLONED)], []);
        setup.source.can_clone.store(true, Ordering::Relaxed);
        setup.sink.can_clone.store(true, Ordering::Relaxed);
        setup.faults.plan(EndCall::Clone, "f", 1, &error(kind, Retry::Never));
        let totals = setup.copy();
        (setup.faults.calls(EndCall::Write, "f"), totals.copied, totals.failed, totals.cloned_bytes)
    };
    assert_eq!(run(ErrorKind::SourceChanged), (1, 1, 0, 0));
    assert_eq!(run(ErrorKind::Io), (0, 0, 1, 0));
}

#[test]
fn with_digests_up_to_date_files_are_reported() {
    let entries = [file("same", 10), file("new", CLONED), dir("d")];
    let mut setup = Setup::new(entries, [content(file("same", 10), 0)]);
    let report = setup.run(CopyOptions { checksum: true, digests: true, ..options() });
    assert_eq!((report.totals.copied, report.totals.same), (1, 1));
    assert!(setup.actions().contains(&(Action::Same, "same".to_owned())), "{:?}", setup.actions());
    assert!(!setup.actions().iter().any(|(action, path)| *action == Action::Same && path == "d"));
}

#[test]
fn slices_of_an_interrupted_run_are_not_sent_again() {
    let mut setup = Setup::new([file("g", 5 * SLICE_LEN)], []);
    *setup.sink.have.lock() = vec![0..2, 3..4];
    let totals = setup.copy();
    assert_eq!((totals.resumed_bytes, totals.sent_bytes, totals.copied), (3 * SLICE_LEN, 2 * SLICE_LEN, 1));
}

#[test]
fn only_a_large_file_that_replaces_a_file_is_compared() {
    let compared = |delta: bool, has_old: bool| {
        let old = has_old.then(|| older(file("g", 6 * SLICE_LEN)));
        let mut setup = Setup::new([file("g", 6 * SLICE_LEN), file("s", 1)], old);
        let report = setup.run(CopyOptions { delta, ..options() });
        assert_eq!(report.totals.copied, 2);
        setup.sink.compared.lock().iter().map(ExactSizeIterator::len).sum::<usize>()
    };
    assert_eq!([compared(true, true), compared(true, false), compared(false, true)], [6, 0, 0]);
}

#[test]
fn a_root_that_cannot_be_created_is_the_only_failure() {
    let entries = || [dir(""), file("f", 10), dir("d"), file("d/f", 10)];
    let refused = error(ErrorKind::PermissionDenied, Retry::Never);
    for is_only in [true, false] {
        let mut setup = Setup::new(entries(), []);
        setup.faults.plan(EndCall::Offer, "", 1, &refused);
        let report = setup.run(CopyOptions { is_only, ..options() });
        assert_eq!(report.fatal.is_some(), is_only, "{report:?}");
        assert_eq!(setup.failures().len(), usize::from(!is_only));
    }
}

//! Removal of source entries after they were copied.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::event::Action;
use haul_core::{Entry, ErrorKind, Report, Retry, SLICE_LEN, Timestamp};

use super::faults::{EndCall, error, path};
use super::memory::{SinkView, content, dir, file, older, symlink};
use super::runs::{Setup, options};
use crate::{ConfirmedEntries, Copied, CopyOptions, remove_sources};

fn with_inode(entry: Entry, ino: u64) -> Entry {
    Entry { ino, ctime: Some(Timestamp { sec: 5, nsec: 7 }), ..entry }
}

/// Copies, then removes the source entries that may be removed. Returns both reports.
fn moved(setup: &mut Setup, options: CopyOptions) -> (Report, Report) {
    let entries = Arc::new(ConfirmedEntries::default());
    let dry_run = options.dry_run;
    let options = CopyOptions { checksum: true, confirmed: Some(Arc::clone(&entries)), ..options };
    setup.sink.checksum.store(true, Ordering::Relaxed);
    let copied = setup.run(options);
    let view = (!dry_run).then(|| Arc::new(SinkView(Arc::clone(&setup.sink))) as _);
    let removal = Copied { source: setup.source.clone(), view, entries };
    let removed = remove_sources(&removal, &setup.events, &setup.cancel);
    (copied, removed)
}

fn left(setup: &Setup) -> Vec<String> {
    setup.source.tree.lock().keys().map(ToString::to_string).collect()
}

#[test]
fn everything_but_directories_is_removed() {
    let large = file("d/large", 2 * SLICE_LEN + 5);
    let tree = [dir(""), dir("d"), file("d/a", 5), large, symlink("l", "d"), file("same", 3)];
    let mut setup = Setup::new(tree, [dir(""), file("same", 3)]);
    let (copied, removed) = moved(&mut setup, options());
    assert_eq!((copied.totals.failed, removed.totals.removed_at_source, removed.kept), (0, 4, 0));
    assert_eq!(left(&setup), [".", "d"]);
    assert!(setup.has("d/a") && setup.has("d/large") && setup.has("same"));
    assert!(setup.actions().contains(&(Action::RemovedAtSource, "d/large".to_owned())));
}

#[test]
fn a_file_of_the_same_size_and_time_but_other_content_is_copied_first() {
    let mut setup = Setup::new([content(file("f", 5), 1)], [content(file("f", 5), 2)]);
    let (copied, removed) = moved(&mut setup, options());
    assert_eq!((copied.totals.copied, removed.totals.removed_at_source), (1, 1));
    assert_eq!(setup.old()[&path("f")].atime.sec, 1);
    assert!(left(&setup).is_empty());
}

#[test]
fn failed_and_skipped_files_stay() {
    let mut setup = Setup::new([file("bad", 5), file("good", 5), file("old", 5)], [older(file("old", 5))]);
    let sink = Arc::get_mut(&mut setup.sink).unwrap();
    sink.ignore_existing = true;
    setup.faults.plan(EndCall::Write, "bad", 1, &error(ErrorKind::Io, Retry::Never));
    let (copied, removed) = moved(&mut setup, CopyOptions { ignore_existing: true, ..options() });
    assert_eq!((copied.totals.failed, copied.totals.left), (1, 1));
    assert_eq!((removed.totals.removed_at_source, removed.totals.failed), (1, 0));
    assert_eq!(left(&setup), ["bad", "old"]);
}

#[test]
fn nothing_is_removed_unless_the_destination_has_synced() {
    let mut setup = Setup::new([dir(""), file("a", 5), file("b", 0)], []);
    setup.faults.plan(EndCall::Finish, "", 1, &error(ErrorKind::Io, Retry::Never));
    let (copied, removed) = moved(&mut setup, options());
    assert!(copied.fatal.is_some());
    assert_eq!(removed.totals.removed_at_source, 0);
    assert_eq!(left(&setup).len(), 3);
}

#[test]
fn a_run_that_was_interrupted_removes_nothing() {
    let mut setup = Setup::new([file("a", 5), file("b", 5)], []);
    setup.faults.cancel_at(EndCall::Finish, &setup.cancel.clone());
    let (_, removed) = moved(&mut setup, options());
    assert!(removed.interrupted && removed.totals.removed_at_source == 0);
    assert_eq!(left(&setup).len(), 2);
}

#[test]
fn an_entry_that_changed_after_it_was_copied_stays_and_is_named() {
    let mut setup = Setup::new([file("a", 5), file("b", 5)], []);
    let newer = Entry { mtime: Timestamp { sec: 9, nsec: 0 }, ..file("a", 5) };
    setup.source.changed_before_removal.lock().push(newer);
    let (_, removed) = moved(&mut setup, options());
    assert_eq!((removed.kept, removed.totals.failed, removed.totals.removed_at_source), (1, 1, 1));
    assert_eq!(left(&setup), ["a"]);
    assert_eq!(setup.failures(), [("a".to_owned(), ErrorKind::SourceChanged)]);
}

#[test]
fn an_entry_that_the_destination_has_lost_meanwhile_stays() {
    let mut setup = Setup::new([file("a", 5), file("b", 5), file("c", 5)], []);
    let entries = Arc::new(ConfirmedEntries::default());
    let options = CopyOptions { checksum: true, confirmed: Some(Arc::clone(&entries)), ..options() };
    assert!(setup.run(options).is_complete());
    setup.sink.tree.lock().remove(&path("a"));
    setup.sink.tree.lock().insert(path("b"), file("b", 4));
    let view = Some(Arc::new(SinkView(Arc::clone(&setup.sink))) as _);
    let removal = Copied { source: setup.source.clone(), view, entries };
    let removed = remove_sources(&removal, &setup.events, &setup.cancel);
    assert_eq!((removed.kept, removed.totals.removed_at_source), (2, 1));
    assert_eq!(left(&setup), ["a", "b"]);
}

#[test]
fn a_file_that_is_its_own_destination_stays() {
    let tree = || [with_inode(file("a", 5), 1), with_inode(file("b", 5), 2)];
    let mut setup = Setup::new(tree(), tree());
    let (copied, removed) = moved(&mut setup, options());
    assert_eq!((copied.totals.same, removed.kept, removed.totals.removed_at_source), (2, 2, 0));
    assert_eq!(left(&setup).len(), 2);
}

#[test]
fn a_single_file_that_cannot_be_told_from_its_destination_stays() {
    let mut setup = Setup::new([file("", 5)], [file("", 5)]);
    let (_, removed) = moved(&mut setup, options());
    assert_eq!((removed.kept, left(&setup).len()), (1, 1));
    let mut setup = Setup::new([file("", 5)], []);
    let (_, removed) = moved(&mut setup, options());
    assert_eq!((removed.totals.removed_at_source, left(&setup).len()), (1, 0));
}

#[test]
fn names_of_a_file_go_only_if_the_file_is_there() {
    let names = |ino| ["a", "b", "c"].map(|name| Entry { nlink: 3, ino, dev: 1, ..file(name, 5) });
    let mut setup = Setup::new(names(5), []);
    let (_, removed) = moved(&mut setup, options());
    assert_eq!((removed.totals.removed_at_source, left(&setup).len()), (3, 0));
    // The links are there already, and the destination keeps old content under a name that fails.
    for (fails, stay) in [(["a"].as_slice(), 1), (&["a", "b"], 2), (&["a", "b", "c"], 3)] {
        let mut setup = Setup::new(names(5), names(5).map(|entry| content(entry, 8)));
        for name in fails {
            setup.faults.plan(EndCall::Write, name, 1, &error(ErrorKind::Io, Retry::Never));
        }
        let (_, removed) = moved(&mut setup, options());
        assert_eq!((removed.totals.removed_at_source, left(&setup).len()), (3 - stay, stay as usize));
    }
}

#[test]
fn a_dry_run_removes_nothing_and_lists_all() {
    let mut setup = Setup::new([file("a", 5), file("same", 5), symlink("l", "x")], [file("same", 5)]);
    Arc::get_mut(&mut setup.sink).unwrap().dry_run = true;
    let (_, removed) = moved(&mut setup, CopyOptions { dry_run: true, ..options() });
    assert_eq!((removed.totals.removed_at_source, left(&setup).len()), (3, 3));
}

#[test]
fn errors_of_a_removal_are_those_of_entries() {
    let mut setup = Setup::new([file("a", 5), file("b", 5)], []);
    setup.faults.plan(EndCall::RemoveSource, "a", 9, &error(ErrorKind::PermissionDenied, Retry::Never));
    setup.faults.plan(EndCall::RemoveSource, "b", 1, &error(ErrorKind::Io, Retry::Again));
    let (_, removed) = moved(&mut setup, options());
    assert_eq!((removed.kept, removed.totals.removed_at_source), (1, 1), "the other one is asked again");
    assert_eq!(left(&setup), ["a"]);
}

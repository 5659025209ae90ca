//! Deletion of extraneous entries, and when it is refused.

use haul_core::event::Action;
use haul_core::filter::Rule;
use haul_core::sync::Mutex;
use haul_core::{Entry, ErrorKind, Report, Retry, ScanOptions};

use super::faults::{EndCall, error, path};
use super::memory::{MemorySink, dir, file, tree};
use super::runs::{Setup, counted, options};
use crate::{CopyOptions, Delete};

fn deleting() -> CopyOptions {
    CopyOptions { delete: Some(Delete::default()), ..options() }
}

/// A destination with one extraneous file, and with one extraneous directory that has a file.
fn setup() -> Setup {
    let source = [dir(""), dir("d"), file("d/f", 1)];
    let old = [dir(""), dir("d"), file("d/x", 1), dir("x"), file("x/y", 1)];
    Setup::new(source, old)
}

#[test]
fn extraneous_entries_are_deleted_and_others_are_not() {
    let mut setup = setup();
    let report = setup.run(deleting());
    assert_eq!((report.totals.removed, report.totals.failed, report.not_removed), (3, 0, None));
    assert_eq!(setup.old().keys().map(ToString::to_string).collect::<Vec<_>>(), [".", "d", "d/f"]);
    let removed: Vec<_> =
        setup.actions().into_iter().filter(|(action, _)| *action == Action::Removed).collect();
    assert_eq!(removed.len(), 3);
}

#[test]
fn a_destination_that_holds_the_source_loses_nothing() {
    let ctime = Some(haul_core::Timestamp { sec: 5, nsec: 7 });
    let inside = |at: &str, ino| Entry { ctime, ino, ..dir(at) };
    for (ino, removed) in [(5, 0), (6, 3)] {
        let old = [dir(""), dir("x"), inside("x/src", ino), file("x/src/f", 1)];
        let mut setup = Setup::new([inside("", 5), file("f", 1)], old);
        let report = setup.run(deleting());
        assert_eq!((report.totals.removed, report.totals.copied), (removed, 1), "{ino}");
        assert_eq!(report.not_removed.is_some_and(|why| why.contains("x/src is the source")), ino == 5);
    }
}

#[test]
fn nothing_is_deleted_after_scan_errors() {
    let mut setup = setup();
    setup.source.unreadable.lock().push(path("locked"));
    let report = setup.run(deleting());
    assert!(report.not_removed.is_some_and(|why| why.contains("not all of the source")));
    assert_eq!((report.totals.removed, report.totals.failed, report.totals.copied), (0, 1, 1));
    assert!(setup.has("x/y") && setup.has("d/x"));
    assert_eq!(setup.faults.calls(EndCall::Remove, "x/y"), 0);
}

#[test]
fn nothing_is_deleted_after_a_scan_that_failed() {
    let mut setup = setup();
    setup.faults.plan(EndCall::Scan, "", 1, &error(ErrorKind::Io, Retry::Never));
    let report = setup.run(deleting());
    assert_eq!((report.totals.removed, report.fatal.map(|error| error.kind())), (0, Some(ErrorKind::Io)));
    assert!(setup.has("x/y"));
}

#[test]
fn nothing_is_deleted_if_a_line_of_the_list_is_no_path() {
    let mut setup = setup();
    let paths = [Ok(path("d/f")), Err(error(ErrorKind::Usage, Retry::Never))];
    let report = setup.run(CopyOptions { files_from: Some(Box::new(paths.into_iter())), ..deleting() });
    assert_eq!((report.totals.found, report.totals.failed, report.totals.removed), (2, 1, 0));
    assert!(report.not_removed.is_some());
}

#[test]
fn scan_errors_can_be_ignored() {
    let mut setup = setup();
    setup.source.unreadable.lock().push(path("locked"));
    let delete = Some(Delete { ignore_errors: true, ..Delete::default() });
    assert_eq!(setup.run(CopyOptions { delete, ..options() }).totals.removed, 3);
}

#[test]
fn an_entry_that_the_source_cannot_look_up_stays_with_its_directory() {
    let mut setup = setup();
    setup.faults.plan(EndCall::Lookup, "x/y", 1, &error(ErrorKind::PermissionDenied, Retry::Never));
    let report = setup.run(deleting());
    assert_eq!(report.totals.removed, 1);
    assert!(setup.has("x/y") && !setup.has("d/x"));
    assert!(setup.events.notes.lock()[0].contains("1 directory"));
}

#[test]
fn a_failed_deletion_is_reported_and_its_directory_stays() {
    let mut setup = setup();
    setup.faults.plan(EndCall::Remove, "x/y", 1, &error(ErrorKind::PermissionDenied, Retry::Never));
    let report = setup.run(deleting());
    assert_eq!((report.totals.removed, report.totals.failed), (1, 1));
    assert!(setup.has("x") && setup.events.notes.lock().len() == 1);
    let mut setup = self::setup();
    setup.faults.plan(EndCall::Remove, "d/x", 1, &error(ErrorKind::InUse, Retry::Never));
    assert_eq!(setup.run(deleting()).totals.failed, 0, "a name in use is no failure");
}

#[test]
fn no_more_than_the_limit_is_deleted() {
    for (max, removed) in [(2, 0), (3, 3)] {
        let delete = Some(Delete { max: Some(max), ..Delete::default() });
        let report = setup().run(CopyOptions { delete, ..options() });
        assert_eq!((report.totals.removed, report.not_removed.is_some()), (removed, removed == 0), "{max}");
    }
}

fn many(names: std::ops::Range<u32>) -> impl Iterator<Item = Entry> {
    [dir("")].into_iter().chain(names.map(|number| file(&format!("f{number:03}"), 1)))
}

#[test]
fn an_empty_source_deletes_nothing_and_changes_nothing() {
    let run =
        |old: u32, delete| Setup::new(many(0..0), many(0..old)).run(CopyOptions { delete, ..options() });
    let report = run(1, Some(Delete::default()));
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Usage));
    assert_eq!((report.totals.removed, counted(&report.totals)), (0, 0));
    assert_eq!(run(0, Some(Delete::default())).fatal, None, "both are empty");
    assert_eq!(run(3, Some(Delete { force: true, ..Delete::default() })).totals.removed, 3);
}

#[test]
fn more_than_half_of_a_large_destination_is_not_deleted() {
    let run = |kept: u32, force: bool| -> Report {
        let delete = Some(Delete { force, ..Delete::default() });
        Setup::new(many(0..kept), many(0..200)).run(CopyOptions { delete, ..options() })
    };
    let report = run(99, false);
    assert!(report.refused && report.not_removed.is_some_and(|why| why.contains("101 of 200")));
    assert_eq!(report.totals.removed, 0);
    assert_eq!(run(100, false).totals.removed, 100);
    assert_eq!(run(99, true).totals.removed, 101);
}

#[test]
fn a_file_replaces_a_directory_after_its_content_was_sent() {
    let setup = || Setup::new([dir(""), file("a", 1)], [dir(""), dir("a"), dir("a/b"), file("a/b/c", 1)]);
    let mut deletes = setup();
    let report = deletes.run(deleting());
    assert_eq!((report.totals.copied, report.totals.failed, report.totals.removed), (1, 0, 2));
    assert!(deletes.old()[&path("a")].is_file());
    let mut fails = setup();
    fails.faults.plan(EndCall::Read, "a", 1, &error(ErrorKind::Io, Retry::Never));
    let report = fails.run(deleting());
    assert_eq!((report.totals.copied, report.totals.failed), (0, 1));
    let mut refused = setup();
    let delete = Some(Delete { max: Some(1), ..Delete::default() });
    let report = refused.run(CopyOptions { delete, ..options() });
    assert_eq!((report.totals.failed, report.totals.removed), (1, 0));
    assert!(refused.has("a/b/c"));
}

#[test]
fn a_directory_with_an_entry_that_stays_is_not_replaced() {
    for dry_run in [false, true] {
        let old = [dir(""), dir("a"), file("a/b", 1), file("a/c", 1)];
        let sink = MemorySink { tree: Mutex::new(tree(old)), dry_run, ..MemorySink::default() };
        let mut setup = Setup::with_sink([dir(""), file("a", 1)], sink);
        setup.faults.plan(EndCall::Lookup, "a/b", 1, &error(ErrorKind::Io, Retry::Never));
        let report = setup.run(CopyOptions { dry_run, ..deleting() });
        assert_eq!((report.totals.failed, report.totals.copied), (1, 0), "{dry_run}");
        assert_eq!(setup.failures(), [("a".to_owned(), ErrorKind::NotEmpty)]);
    }
}

#[test]
fn entries_that_an_option_skips_protect_those_below_their_path() {
    // The source has a large file where the destination has a directory.
    let source = || [dir(""), file("big", 100), file("small", 1)];
    let old = || [dir(""), dir("big"), file("big/x", 1), file("small", 1), file("y", 1)];
    let mut setup = Setup::new(source(), old());
    // The memory source ignores sizes, so the scan finds the large file too.
    setup.source.tree.lock().remove(&path("big"));
    setup.source.now.lock().insert(path("big"), Some(file("big", 100)));
    let scan = ScanOptions { max_size: Some(10), ..ScanOptions::default() };
    let report = setup.run(CopyOptions { scan, ..deleting() });
    assert_eq!(report.totals.removed, 1);
    assert!(setup.has("big/x") && !setup.has("y"));
}

#[test]
fn a_mount_point_protects_the_entries_below_it() {
    let mounted = Entry { dev: 2, ..dir("mnt") };
    let old = [dir(""), dir("mnt"), file("mnt/x", 1), dir("z"), file("z/x", 1)];
    let mut setup = Setup::new([dir(""), mounted], old);
    let scan = ScanOptions { one_file_system: true, ..ScanOptions::default() };
    let report = setup.run(CopyOptions { scan, ..deleting() });
    assert_eq!(report.totals.removed, 2);
    assert!(setup.has("mnt/x") && !setup.has("z"));
}

#[test]
fn an_ancestor_that_cannot_be_looked_up_protects_the_entries_below_it() {
    let mut setup = setup();
    setup.faults.plan(EndCall::Lookup, "x", 9, &error(ErrorKind::Io, Retry::Never));
    let scan =
        ScanOptions { min_size: Some(1), rules: vec![Rule::exclude("q")].into(), ..ScanOptions::default() };
    let report = setup.run(CopyOptions { scan, ..deleting() });
    assert_eq!((report.totals.removed, setup.has("x/y")), (1, true));
}

#[test]
fn a_destination_that_cannot_be_listed_ends_the_run() {
    let mut setup = setup();
    setup.sink.unlistable.store(true, std::sync::atomic::Ordering::Relaxed);
    let report = setup.run(deleting());
    assert!(report.not_removed.is_some_and(|why| why.contains("could not be listed")));
    assert_eq!((report.totals.removed, report.fatal.is_some()), (0, true));
}

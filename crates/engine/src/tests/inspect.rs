//! Runs that only read: `hash`, `verify` and `check_manifest`.

use std::time::Duration;

use haul_core::sync::Mutex;
use haul_core::{Digest, Entry, EntryKind, ErrorKind, Retry, ScanOptions};

use super::faults::{EndCall, error, path};
use super::memory::{MemorySource, content, dir, file, symlink, tree};
use super::runs::{Events, counted};
use crate::{Algorithm, Cancel, HashLine, VerifyDifference, VerifyOptions, check_manifest, hash, verify};

fn source(entries: impl IntoIterator<Item = Entry>) -> MemorySource {
    MemorySource { tree: Mutex::new(tree(entries)), ..MemorySource::default() }
}

fn digest(content: u8) -> Digest {
    Digest([content; 32])
}

#[test]
fn every_file_is_hashed_once() {
    let files = (0..900).map(|number| file(&format!("d/{number}"), 1 << 20));
    let bad = Entry { uid: u32::MAX, ..file("bad", 1) };
    let source = source(files.chain([dir("d"), content(file("z", 1), 7), bad]));
    source.faults.plan(EndCall::Digest, "d/5", 1, &error(ErrorKind::Io, Retry::Never));
    source.unreadable.lock().push(path("locked"));
    let mut lines = Vec::new();
    let mut line = |line| {
        lines.push(line);
        Ok(())
    };
    let events = Events::default();
    let report =
        hash(&source, &ScanOptions::default(), Algorithm::Blake3, &mut line, &events, &Cancel::default());
    assert_eq!((report.totals.same, report.totals.failed, report.fatal), (900, 3, None));
    assert_eq!(lines.len(), 900);
    assert!(lines.contains(&HashLine { path: path("z"), digest: digest(7) }));
}

#[test]
fn an_error_of_the_output_ends_the_hashing() {
    let source = source([file("f", 1)]);
    let mut line = |_| Err(error(ErrorKind::NoSpace, Retry::Never));
    let report = hash(
        &source,
        &ScanOptions::default(),
        Algorithm::Blake3,
        &mut line,
        &Events::default(),
        &Cancel::default(),
    );
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::NoSpace));
}

#[test]
fn a_scan_that_fails_and_a_cancelled_run_end_the_hashing() {
    let cancel = Cancel::default();
    let scanned = source([file("f", 1)]);
    scanned.faults.plan(EndCall::Scan, "", 1, &error(ErrorKind::Io, Retry::Never));
    let mut line = |_| Ok(());
    let report =
        hash(&scanned, &ScanOptions::default(), Algorithm::Blake3, &mut line, &Events::default(), &cancel);
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Io));
    cancel.cancel();
    let report = hash(
        &source([file("f", 1)]),
        &ScanOptions::default(),
        Algorithm::Blake3,
        &mut line,
        &Events::default(),
        &cancel,
    );
    assert!(report.interrupted && report.totals.same == 0);
}

#[test]
fn verify_names_every_difference() {
    let ends = |kind: EntryKind| Entry::new(path("kind"), kind, 0);
    let kinds = [EntryKind::Fifo, EntryKind::Socket, EntryKind::BlockDevice(1), EntryKind::CharDevice(1)];
    for kind in kinds {
        let source = source([
            dir("d"),
            file("d/same", 3),
            file("d/content", 3),
            file("d/len", 3),
            file("d/missing", 3),
            file("d/unreadable", 3),
            file("d/unknown", 3),
            symlink("l", "a"),
            symlink("l2", "a"),
            ends(EntryKind::Dir),
        ]);
        let destination = self::source([
            dir("d"),
            file("d/same", 3),
            content(file("d/content", 3), 1),
            file("d/len", 4),
            file("d/unreadable", 3),
            file("d/unknown", 3),
            symlink("l", "b"),
            symlink("l2", "a"),
            ends(kind),
            file("extra", 1),
        ]);
        destination.faults.plan(EndCall::Digest, "d/unreadable", 1, &error(ErrorKind::Io, Retry::Never));
        destination.faults.plan(EndCall::Lookup, "d/unknown", 1, &error(ErrorKind::Io, Retry::Never));
        let (events, mut found) = (Events::default(), Vec::new());
        let mut take = |checked| found.push(checked);
        let options = VerifyOptions::default();
        let report = verify(&source, &destination, options, &mut take, &events, &Cancel::default());
        assert_eq!((report.corrupt, report.totals.same, report.totals.failed, report.fatal), (5, 3, 2, None));
        assert_eq!(report.totals.found, 10);
        let differing =
            found.iter().filter(|checked| matches!(checked, VerifyDifference::Differs(..))).count();
        assert_eq!(differing, 4);
        assert!(found.contains(&VerifyDifference::Missing(path("d/missing"))));
        assert!(found.contains(&VerifyDifference::Extra(path("extra"))));
        let lengths = "3 bytes at the source, 4 at the destination".to_owned();
        assert!(found.contains(&VerifyDifference::Differs(path("d/len"), lengths)));
    }
}

#[test]
fn the_bytes_of_a_file_count_as_both_ends_hash_them() {
    let slow = |hashed| {
        let end = source([file("f", 1000)]);
        *end.hashing.lock() = (Duration::from_millis(500), hashed);
        end
    };
    let (first, second, events) = (slow(700), slow(400), Events::default());
    let mut take = |_| ();
    let report = verify(&first, &second, VerifyOptions::default(), &mut take, &events, &Cancel::default());
    assert_eq!((report.totals.same, report.totals.same_bytes), (1, 1000));
    assert!(events.checked.lock().contains(&400), "the slower end counts");
    let mut line = |_| Ok(());
    let options = ScanOptions::default();
    let events = Events::default();
    let _ = hash(&first, &options, Algorithm::Blake3, &mut line, &events, &Cancel::default());
    assert!(events.checked.lock().contains(&700));
    let line = Ok(HashLine { path: path("f"), digest: digest(0) });
    let (events, mut lines, mut found) = (Events::default(), [line].into_iter(), |_| ());
    let cancel = Cancel::default();
    let report = check_manifest(&mut lines, &first, (Algorithm::Blake3, false), &mut found, &events, &cancel);
    assert_eq!((report.totals.found_bytes, report.totals.same_bytes), (1000, 1000));
    assert!(events.checked.lock().contains(&700), "{:?}", events.checked.lock());
}

#[test]
fn an_end_that_cannot_list_ends_verify() {
    let (first, second) = (source([file("f", 1)]), source([file("f", 1)]));
    second.faults.plan(EndCall::Scan, "", 1, &error(ErrorKind::Io, Retry::Never));
    let options = VerifyOptions::default();
    let report = verify(&first, &second, options, &mut |_| (), &Events::default(), &Cancel::default());
    assert_eq!((report.totals.same, report.fatal.map(|error| error.kind())), (1, Some(ErrorKind::Io)));
}

#[test]
fn a_root_that_cannot_be_looked_at_ends_verify() {
    let (first, second) = (source([file("", 1)]), source([file("", 1)]));
    second.faults.plan(EndCall::Lookup, "", 1, &error(ErrorKind::PermissionDenied, Retry::Never));
    let options = VerifyOptions::default();
    let report = verify(&first, &second, options, &mut |_| (), &Events::default(), &Cancel::default());
    let fatal = report.fatal.map(|error| error.kind());
    assert_eq!((report.totals.failed, fatal), (0, Some(ErrorKind::PermissionDenied)));
}

#[test]
fn a_manifest_is_compared_line_by_line() {
    let destination = source([file("a", 1), content(file("b", 1), 2), file("d", 1)]);
    destination.faults.plan(EndCall::Digest, "d", 1, &error(ErrorKind::Io, Retry::Never));
    let line = |at: &str| Ok(HashLine { path: path(at), digest: digest(0) });
    let good = [line("a"), line("b"), line("c"), line("d"), Err(error(ErrorKind::Usage, Retry::Never))];
    let bad = (0..300).map(|_| Err(error(ErrorKind::Usage, Retry::Never)));
    let (events, mut found) = (Events::default(), Vec::new());
    let mut take = |checked| found.push(checked);
    let mut lines = bad.chain(good).chain([line("a")]);
    let report = check_manifest(
        &mut lines,
        &destination,
        (Algorithm::Blake3, false),
        &mut take,
        &events,
        &Cancel::default(),
    );
    assert_eq!((report.totals.found, report.totals.same, report.corrupt), (306, 2, 2));
    assert_eq!(report.totals.failed, 302);
    assert_eq!(counted(&report.totals) + report.corrupt, report.totals.found);
    assert!(matches!(&found[..], [VerifyDifference::Differs(..), VerifyDifference::Missing(_)]), "{found:?}");
}

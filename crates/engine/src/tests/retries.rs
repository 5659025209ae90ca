//! How often a slice is sent again, by the retry that its error allows.

use std::time::Duration;

use haul_core::{ErrorKind, Retry, SLICE_LEN};

use super::faults::{EndCall, error};
use super::memory::file;
use super::runs::{Setup, counted, options};
use crate::{CopyOptions, LockedRetries};

/// Copies one small file whose writes fail `times` times. Returns copied, failed, resent, and the number of writes.
fn small(kind: ErrorKind, retry: Retry, times: usize) -> (u64, u64, u64, u32) {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Write, "f", times, &error(kind, retry));
    let totals = setup.copy();
    assert_eq!(setup.has("f"), totals.copied == 1);
    (totals.copied, totals.failed, totals.resent, setup.faults.calls(EndCall::Write, "f"))
}

#[test]
fn a_slice_that_does_not_verify_is_sent_again_three_times() {
    assert_eq!(small(ErrorKind::Corrupt, Retry::Again, 3), (1, 0, 3, 4));
    assert_eq!(small(ErrorKind::Corrupt, Retry::Again, 4), (0, 1, 3, 4));
}

#[test]
fn a_slice_of_a_lost_connection_is_sent_again_fifty_times() {
    assert_eq!(small(ErrorKind::Io, Retry::OtherStream, 50), (1, 0, 50, 51));
    assert_eq!(small(ErrorKind::Io, Retry::OtherStream, 51), (0, 1, 50, 51));
}

#[test]
fn an_error_without_retry_fails_at_once() {
    assert_eq!(small(ErrorKind::PermissionDenied, Retry::Never, 1), (0, 1, 0, 1));
}

#[test]
fn a_file_that_the_destination_lost_is_sent_again_once() {
    assert_eq!(small(ErrorKind::Io, Retry::Anew, 1), (1, 0, 1, 2));
    assert_eq!(small(ErrorKind::Io, Retry::Anew, 2), (0, 1, 1, 2));
}

#[test]
fn the_two_kinds_of_retries_are_counted_apart() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Write, "f", 3, &error(ErrorKind::Corrupt, Retry::Again));
    setup.faults.plan(EndCall::Write, "f", 3, &error(ErrorKind::Io, Retry::OtherStream));
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.resent), (1, 6));
}

#[test]
fn the_rest_of_a_file_with_bad_pages_is_read_and_the_file_fails_once() {
    let mut setup = Setup::new([file("f", 5 * SLICE_LEN), file("g", 10)], []);
    setup.faults.plan(EndCall::Read, "f", 2, &error(ErrorKind::BadPages, Retry::Never));
    let report = setup.run(options());
    assert_eq!((report.corrupt, report.totals.failed, report.totals.copied), (1, 1, 1));
    assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::BadPages)]);
    assert_eq!(setup.faults.calls(EndCall::Read, "f"), 5, "each slice is read once");
    assert!(!setup.has("f"));
}

#[test]
fn a_corrupt_file_is_counted_as_corrupt() {
    let mut setup = Setup::new([file("f", 10), file("g", 10)], []);
    setup.faults.plan(EndCall::Write, "f", 9, &error(ErrorKind::Corrupt, Retry::Again));
    let report = setup.run(options());
    assert_eq!((report.corrupt, report.totals.failed, report.totals.copied), (1, 1, 1));
    assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::Corrupt)]);
}

#[test]
fn the_slices_of_a_large_file_are_sent_again_one_by_one() {
    let mut setup = Setup::new([file("g", 5 * SLICE_LEN)], []);
    setup.faults.plan(EndCall::Write, "g", 2, &error(ErrorKind::Corrupt, Retry::Again));
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.resent, totals.sent_bytes), (1, 2, 5 * SLICE_LEN));
    assert_eq!(setup.faults.calls(EndCall::Write, "g"), 7);
}

#[test]
fn a_large_file_with_a_failed_slice_fails_once() {
    let mut setup = Setup::new([file("g", 50 * SLICE_LEN), file("s", 1)], []);
    setup.faults.plan(EndCall::Write, "g", 50, &error(ErrorKind::Io, Retry::Never));
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.failed), (1, 1));
    assert_eq!(setup.failures(), [("g".to_owned(), ErrorKind::Io)]);
}

#[test]
fn a_large_file_that_the_destination_lost_is_offered_again() {
    let lost = |times| {
        let mut setup = Setup::new([file("g", 3 * SLICE_LEN)], []);
        setup.faults.plan(EndCall::Write, "g", times, &error(ErrorKind::Io, Retry::Anew));
        let totals = setup.copy();
        (totals.copied, totals.failed, setup.faults.calls(EndCall::Offer, "g"))
    };
    assert_eq!(lost(1), (1, 0, 2));
    assert_eq!(lost(9), (0, 1, 2));
}

#[test]
fn a_lost_connection_without_retry_ends_the_run() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Write, "f", 1, &error(ErrorKind::Unreachable, Retry::Never));
    let report = setup.run(options());
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Unreachable));
}

#[test]
fn a_batch_that_cannot_be_read_is_read_again_or_ends_the_run() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::ReadBatch, "f", 2, &error(ErrorKind::Io, Retry::OtherStream));
    assert_eq!(setup.copy().resent, 2);
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::ReadBatch, "f", 1, &error(ErrorKind::Protocol, Retry::Never));
    let report = setup.run(options());
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Protocol));
    assert_eq!(report.totals.copied, 0);
}

#[test]
fn an_error_of_the_sink_at_the_end_ends_the_run() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Finish, "", 1, &error(ErrorKind::Io, Retry::Never));
    let report = setup.run(options());
    assert_eq!((report.totals.copied, report.fatal.map(|error| error.kind())), (1, Some(ErrorKind::Io)));
}

/// The options with so many retries of files that another program has open.
fn patient(times: u32) -> CopyOptions {
    CopyOptions { locked: LockedRetries { times, wait: Duration::from_millis(1) }, ..options() }
}

#[test]
fn a_file_that_another_program_has_open_is_copied_at_the_end() {
    for call in [EndCall::Read, EndCall::Offer, EndCall::Write] {
        let mut setup = Setup::new([file("f", 10), file("g", 3 * SLICE_LEN), file("h", 1)], []);
        for name in ["f", "g"] {
            // An offer that may be repeated is repeated at once, too.
            let retry = if call == EndCall::Offer { Retry::Never } else { Retry::Again };
            setup.faults.plan(call, name, 2, &error(ErrorKind::Locked, retry));
        }
        let report = setup.run(patient(3));
        assert_eq!((report.totals.copied, report.totals.failed), (3, 0), "{call:?}");
        assert_eq!(counted(&report.totals), report.totals.found);
        assert_eq!(report.totals.resent, 0, "{call:?}: nothing is sent again at once");
    }
}

#[test]
fn a_file_that_stays_open_fails_once_after_all_retries() {
    for (times, calls) in [(0, 4), (1, 1 + 4), (2, 1 + 1 + 4)] {
        let mut setup = Setup::new([file("f", 10), file("h", 1)], []);
        setup.faults.plan(EndCall::Write, "f", 99, &error(ErrorKind::Locked, Retry::Again));
        let report = setup.run(patient(times));
        assert_eq!((report.totals.copied, report.totals.failed), (1, 1));
        assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::Locked)]);
        assert_eq!(setup.faults.calls(EndCall::Write, "f"), calls, "{times}");
        assert_eq!(counted(&report.totals), report.totals.found);
    }
}

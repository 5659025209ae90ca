//! Large files that were sent completely, and whose commit the sink does not report.

use std::sync::atomic::Ordering;

use haul_core::{ErrorKind, HungOperation, SLICE_LEN};

use super::faults::EndCall;
use super::memory::file;
use super::runs::{Setup, options};

#[test]
fn a_file_whose_commit_was_not_reported_is_offered_again() {
    let mut setup = Setup::new([file("g", 3 * SLICE_LEN)], []);
    setup.sink.silent_commits.store(1, Ordering::Relaxed);
    let totals = setup.copy();
    assert_eq!((totals.same, totals.copied, setup.faults.calls(EndCall::Offer, "g")), (1, 0, 2));
}

#[test]
fn a_file_whose_commit_was_lost_is_sent_again() {
    let mut setup = Setup::new([file("g", 3 * SLICE_LEN)], []);
    setup.sink.silent_commits.store(1, Ordering::Relaxed);
    setup.sink.loses_commits.store(true, Ordering::Relaxed);
    let totals = setup.copy();
    assert_eq!((totals.same, totals.copied, setup.faults.calls(EndCall::Write, "g")), (0, 1, 6));
}

#[test]
fn a_file_whose_commit_is_always_lost_fails() {
    let mut setup = Setup::new([file("g", 3 * SLICE_LEN)], []);
    setup.sink.silent_commits.store(u32::MAX, Ordering::Relaxed);
    setup.sink.loses_commits.store(true, Ordering::Relaxed);
    assert_eq!(setup.copy().failed, 1);
    assert_eq!(setup.failures(), [("g".to_owned(), ErrorKind::Io)]);
    assert_eq!(setup.faults.calls(EndCall::Offer, "g"), 6, "five more offers");
}

#[test]
fn one_warning_names_an_operation_that_hangs() {
    let mut setup = Setup::new([file("s", 1)], []);
    let hung = |at: &str| HungOperation { operation: "read".to_owned(), path: at.as_bytes().to_vec() };
    *setup.sink.hung.lock() = vec![hung("a"), hung("b")];
    setup.sink.holds_writes.store(true, Ordering::Relaxed);
    let cancel = setup.cancel.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            cancel.cancel();
        });
        assert!(setup.run(options()).interrupted);
    });
    let warnings = setup.events.warnings.lock().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("read a (and 1 more)"), "{warnings:?}");
}

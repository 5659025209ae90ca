//! A destination that is full.

use std::time::Duration;

use haul_core::{ErrorKind, Retry, SLICE_LEN};

use super::faults::{EndCall, error};
use super::memory::{dir, file};
use super::runs::{Setup, counted, options};
use crate::{CopyOptions, OnFull};

fn pausing(longest: Duration) -> CopyOptions {
    CopyOptions { on_full: OnFull::Pause(longest), ..options() }
}

fn setup(call: EndCall, times: usize) -> Setup {
    let mut linked = [file("d/f", 10), file("d/l", 10)];
    for file in &mut linked {
        (file.nlink, file.ino) = (2, 5);
    }
    let entries = [dir("d"), file("g", 3 * SLICE_LEN)].into_iter().chain(linked);
    let setup = Setup::new(entries, []);
    let at = if call == EndCall::Link { "d/l" } else { "d/f" };
    setup.faults.plan(call, at, times, &error(ErrorKind::NoSpace, Retry::Never));
    setup
}

#[test]
fn the_run_waits_for_space_and_goes_on() {
    for call in [EndCall::Offer, EndCall::Write, EndCall::Link] {
        let mut setup = setup(call, 2);
        let report = setup.run(pausing(Duration::from_secs(60)));
        assert_eq!((report.fatal, report.totals.failed), (None, 0), "{call:?}");
        assert_eq!(counted(&report.totals), 4, "{call:?}");
        let warnings = setup.events.warnings.lock().clone();
        assert_eq!(warnings.len(), 1, "{call:?}: {warnings:?}");
        assert!(warnings[0].contains("is full"), "{warnings:?}");
    }
}

#[test]
fn a_large_file_waits_for_space() {
    let mut setup = Setup::new([file("g", 3 * SLICE_LEN)], []);
    setup.faults.plan(EndCall::Write, "g", 2, &error(ErrorKind::NoSpace, Retry::Never));
    let report = setup.run(pausing(Duration::from_secs(60)));
    assert_eq!((report.fatal, report.totals.copied), (None, 1));
}

#[test]
fn a_file_that_was_lost_on_a_full_disk_is_sent_again_as_often_as_it_takes() {
    let mut setup = Setup::new([file("f", 1)], []);
    setup.faults.plan(EndCall::Write, "f", 3, &error(ErrorKind::NoSpace, Retry::Anew));
    let report = setup.run(pausing(Duration::from_secs(60)));
    assert_eq!((report.fatal, report.totals.copied, report.totals.resent), (None, 1, 3));
}

#[test]
fn the_run_ends_when_it_has_waited_too_long() {
    for call in [EndCall::Offer, EndCall::Write, EndCall::Link] {
        let mut setup = setup(call, usize::from(u16::MAX));
        let report = setup.run(pausing(Duration::from_millis(30)));
        assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::NoSpace), "{call:?}");
    }
}

#[test]
fn the_run_ends_at_once_if_it_may_not_wait() {
    for call in [EndCall::Offer, EndCall::Write, EndCall::Link] {
        let mut setup = setup(call, 1);
        let report = setup.run(options());
        assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::NoSpace), "{call:?}");
        assert_eq!(setup.events.warnings.lock().len(), 0);
    }
}

#[test]
fn only_the_first_entry_that_does_not_fit_has_failed() {
    let mut setup = Setup::new((0..50).map(|number| dir(&format!("d{number}"))), []);
    for number in 0..50 {
        let full = error(ErrorKind::NoSpace, Retry::Never);
        setup.faults.plan(EndCall::Offer, &format!("d{number}"), usize::from(u16::MAX), &full);
    }
    let report = setup.run(options());
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::NoSpace));
    assert_eq!(report.totals.failed, 1);
}

#[test]
fn a_cancelled_run_does_not_wait_for_space() {
    let mut setup = setup(EndCall::Write, usize::from(u16::MAX));
    let cancel = setup.cancel.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            cancel.cancel();
        });
        let report = setup.run(pausing(Duration::from_secs(600)));
        assert_eq!((report.fatal, report.interrupted), (None, true));
    });
}

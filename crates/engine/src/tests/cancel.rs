//! A run that is cancelled ends soon, reports no failure, and has counted nothing twice.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use haul_core::SLICE_LEN;

use super::faults::EndCall;
use super::memory::{dir, file};
use super::runs::{Setup, counted, options};
use crate::{CopyOptions, Delete};

fn setup() -> Setup {
    let mut entries = vec![dir(""), dir("d"), file("g", 9 * SLICE_LEN)];
    entries.extend((0..200).map(|number| file(&format!("d/f{number}"), 10)));
    let mut link = file("d/z", 10);
    (link.nlink, link.ino) = (2, 5);
    let first = haul_core::Entry { path: super::faults::path("d/a"), ..link.clone() };
    Setup::new(entries.into_iter().chain([first, link]), [file("extra", 1)])
}

#[test]
fn a_run_can_be_cancelled_in_every_state() {
    for call in [
        EndCall::Scan,
        EndCall::Offer,
        EndCall::ReadBatch,
        EndCall::Read,
        EndCall::Write,
        EndCall::Link,
        EndCall::Remove,
        EndCall::Finish,
    ] {
        let mut setup = setup();
        setup.faults.cancel_at(call, &setup.cancel);
        let begun = Instant::now();
        let delete = Some(Delete { force: true, ..Delete::default() });
        let report = setup.run(CopyOptions { delete, ..options() });
        assert!(report.interrupted, "{call:?}");
        assert_eq!((report.fatal, report.totals.failed), (None, 0), "{call:?}");
        assert!(counted(&report.totals) <= report.totals.found, "{call:?}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{call:?}");
        let is_late = matches!(call, EndCall::Remove | EndCall::Finish);
        assert_eq!(report.totals.removed, u64::from(is_late), "{call:?}");
        assert_eq!(setup.has("d/z"), is_late || call == EndCall::Link, "{call:?}");
    }
}

#[test]
fn a_run_that_is_cancelled_before_it_begins_copies_nothing() {
    let mut setup = setup();
    setup.cancel.cancel();
    let report = setup.run(options());
    assert!(report.interrupted);
    assert_eq!(counted(&report.totals), 0);
    assert_eq!(setup.faults.calls(EndCall::Write, "g"), 0);
}

#[test]
fn a_cancelled_run_does_not_wait_for_writes_for_ever() {
    let mut setup = setup();
    setup.sink.holds_writes.store(true, Ordering::Relaxed);
    setup.faults.cancel_at(EndCall::Write, &setup.cancel);
    let begun = Instant::now();
    let report = setup.run(options());
    assert!(report.interrupted && report.totals.copied == 0);
    assert!(begun.elapsed() < Duration::from_secs(3));
}

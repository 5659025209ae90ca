//! Files that change, or go away, while they are read.

use haul_core::{ErrorKind, Retry, SLICE_LEN};

use super::faults::{EndCall, error, path};
use super::memory::{dir, file};
use super::runs::Setup;

/// Copies a file that changes `times` times while it is read. Returns the setup, copied and failed.
fn changing(len: u64, times: usize) -> (Setup, u64, u64) {
    let mut setup = Setup::new([file("f", len), file("other", 1)], []);
    setup.faults.plan(EndCall::Read, "f", times, &error(ErrorKind::SourceChanged, Retry::Never));
    let totals = setup.copy();
    (setup, totals.copied - 1, totals.failed)
}

#[test]
fn a_file_that_changes_once_is_copied_again() {
    for len in [10, 3 * SLICE_LEN] {
        let (setup, copied, failed) = changing(len, 1);
        assert_eq!((copied, failed), (1, 0));
        assert_eq!(
            (setup.faults.calls(EndCall::Discard, "f"), setup.faults.calls(EndCall::Offer, "f")),
            (1, 2)
        );
    }
}

#[test]
fn a_file_that_changes_twice_fails() {
    let (setup, copied, failed) = changing(10, 2);
    assert_eq!((copied, failed, setup.has("f")), (0, 1, false));
    assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::SourceChanged)]);
    let (setup, copied, failed) = changing(20 * SLICE_LEN, 40);
    assert_eq!((copied, failed, setup.has("f")), (0, 1, false));
}

#[test]
fn a_file_that_goes_away_after_it_changed_fails() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Read, "f", 1, &error(ErrorKind::SourceChanged, Retry::Never));
    setup.faults.plan(EndCall::Lookup, "f", 1, &error(ErrorKind::NotFound, Retry::Never));
    assert_eq!(setup.copy().failed, 1);
    assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::NotFound)]);
}

#[test]
fn a_file_that_is_another_thing_after_it_changed_fails() {
    for now in [None, Some(dir("f"))] {
        let mut setup = Setup::new([file("f", 10)], []);
        setup.source.now.lock().insert(path("f"), now);
        setup.faults.plan(EndCall::Read, "f", 1, &error(ErrorKind::SourceChanged, Retry::Never));
        assert_eq!(setup.copy().failed, 1);
        assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::SourceChanged)]);
    }
}

#[test]
fn a_changed_file_fails_if_its_staged_file_cannot_be_discarded() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.faults.plan(EndCall::Read, "f", 1, &error(ErrorKind::SourceChanged, Retry::Never));
    setup.faults.plan(EndCall::Discard, "f", 1, &error(ErrorKind::Io, Retry::Never));
    assert_eq!(setup.copy().failed, 1);
    assert_eq!(setup.failures(), [("f".to_owned(), ErrorKind::Io)]);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_copied_as_it_is_now() {
    let mut setup = Setup::new([file("f", 10)], []);
    setup.source.now.lock().insert(path("f"), Some(file("f", 3 * SLICE_LEN)));
    setup.faults.plan(EndCall::Read, "f", 1, &error(ErrorKind::SourceChanged, Retry::Never));
    assert_eq!(setup.copy().copied_bytes, 3 * SLICE_LEN);
}

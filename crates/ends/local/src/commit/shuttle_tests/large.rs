//! A large file that an interrupted run has left: its last slice waits until the first one is read back.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use haul_core::{Entry, ErrorKind, Outcome, Retry, SLICE_LEN, Sink};
use tempfile::TempDir;

use super::model::{SinkModel, in_many_orders, join, scratch};
use crate::scene::{names, own_file};

fn large() -> Arc<Entry> {
    own_file("f", SLICE_LEN + 5)
}

/// A directory in which a run has stored the first of two slices.
fn interrupted() -> TempDir {
    let dir = scratch();
    let model = SinkModel::new(dir.path(), false);
    join([model.write(&[large()], 0)]);
    assert_eq!(model.end(), [Ok(Outcome::Stored)]);
    dir
}

fn damage_staged_file(dir: &Path) {
    let name = names(dir).into_iter().find(|name| name.ends_with(".part")).unwrap();
    File::options().write(true).open(dir.join(name)).unwrap().write_all_at(b"damage", 9).unwrap();
}

#[test]
fn shuttle_a_slice_that_waits_for_reading_back_is_settled() {
    in_many_orders(|| {
        let dir = interrupted();
        let model = SinkModel::new(dir.path(), false);
        // As its connection died, the slice is sent twice.
        let writes = [model.write(&[large()], 1), model.write(&[large()], 1)];
        join(writes);
        let outcomes = model.finish();
        assert!(outcomes.iter().any(|outcome| matches!(outcome, Ok(Outcome::Committed(_)))), "{outcomes:?}");
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(names(dir.path()), ["f"]);
        model.end();
    });
}

#[test]
fn shuttle_a_run_that_is_finished_twice_waits_for_reading_back() {
    in_many_orders(|| {
        let dir = interrupted();
        let model = SinkModel::new(dir.path(), false);
        join([model.write(&[large()], 1)]);
        // The connection of the first request has died.
        join([
            model.start(|sink| drop(sink.finish().unwrap())),
            model.start(|sink| drop(sink.finish().unwrap())),
        ]);
        assert!(matches!(model.finish()[..], [Ok(Outcome::Committed(_))]));
        model.end();
    });
}

#[test]
fn shuttle_a_slice_that_waits_for_a_damaged_one_is_settled() {
    in_many_orders(|| {
        let dir = interrupted();
        damage_staged_file(dir.path());
        let model = SinkModel::new(dir.path(), false);
        join([model.write(&[large()], 1), model.start(Sink::flush)]);
        let error = model.finish().remove(0).unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Anew));
        model.end();
    });
}

#[test]
fn shuttle_a_waiting_slice_is_settled_if_its_file_is_discarded() {
    in_many_orders(|| {
        let dir = interrupted();
        let model = SinkModel::new(dir.path(), false);
        join([model.write(&[large()], 1)]);
        let discard = model.start(|sink| sink.discard(&[large().path.clone()]).unwrap());
        join([model.start(Sink::flush), discard]);
        model.finish();
        model.end();
    });
}

#[test]
fn shuttle_a_waiting_slice_is_settled_if_the_sink_ends() {
    in_many_orders(|| {
        let dir = interrupted();
        let model = SinkModel::new(dir.path(), false);
        join([model.write(&[large()], 1)]);
        let outcome = model.end().remove(0).unwrap();
        assert_eq!(names(dir.path()).contains(&"f".to_owned()), outcome != Outcome::Stored);
    });
}

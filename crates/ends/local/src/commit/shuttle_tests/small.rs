//! Small files, which share syncs.

use std::sync::Arc;

use haul_core::{Entry, Error, Outcome, Result, Retry, Sink};

use super::model::{LOST, SinkModel, in_many_orders, join, scratch};
use crate::scene::{names, own_file};

/// Three batches. The disk loses one of their files.
fn batches() -> [Vec<Arc<Entry>>; 3] {
    let batch = |name: &str, lens: [u64; 2]| lens.map(|len| own_file(&format!("{name}{len}"), len)).into();
    [batch("a", [1, 2]), batch("b", [LOST, 4]), batch("c", [5, 6])]
}

/// All files but the lost one are committed.
fn check(outcomes: &[Result<Outcome>], found: &[String]) {
    let lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert_eq!(lost.map(Error::retry).collect::<Vec<_>>(), [Retry::Anew]);
    let committed = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Committed(_))));
    assert_eq!(committed.count(), 5, "{outcomes:?}");
    assert_eq!(found, ["a1", "a2", "b4", "c5", "c6"]);
}

fn write_and_finish(is_network_fs: bool) {
    let dir = scratch();
    let model = SinkModel::new(dir.path(), is_network_fs);
    let mut threads: Vec<_> = batches().iter().map(|batch| model.write(batch, 0)).collect();
    threads.push(model.start(Sink::flush));
    join(threads);
    check(&model.finish(), &names(dir.path()));
    model.end();
}

#[test]
fn shuttle_each_small_file_is_settled_before_the_run_is_finished() {
    in_many_orders(|| write_and_finish(false));
}

#[test]
fn shuttle_files_that_several_threads_publish_are_settled_before_the_run_is_finished() {
    in_many_orders(|| write_and_finish(true));
}

#[test]
fn shuttle_a_sink_that_ends_settles_its_writes() {
    in_many_orders(|| {
        let dir = scratch();
        let model = SinkModel::new(dir.path(), false);
        join(batches().iter().map(|batch| model.write(batch, 0)).collect::<Vec<_>>());
        check(&model.end(), &names(dir.path()));
    });
}

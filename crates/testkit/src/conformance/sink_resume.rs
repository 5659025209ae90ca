//! The promises of a sink for files that an interrupted run has left unfinished.

use std::sync::Arc;

use haul_core::{Answer, Changes, Digest, Entry, Outcome, SLICE_LEN};

use super::bench::{TestBench, need, offer};
use super::case::{ConformanceCase, cases};
use super::content::{bytes, slice_of, write_file, write_one};

const LEN: usize = 4 * SLICE_LEN as usize + 5;

pub(super) const CASES: &[ConformanceCase] = cases![
    a_later_sink_has_the_slices_of_an_earlier_one if resumes,
    a_file_that_changed_is_not_resumed if resumes,
    a_discarded_file_is_not_resumed,
    discarding_a_file_that_is_not_staged_is_no_error,
    a_file_may_be_written_after_it_was_discarded,
];

/// Writes slices 0, 1 and 3 of the file; the sink is then dropped as by an interruption.
fn interrupted(bench: &TestBench) -> (Arc<Entry>, Vec<u8>) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LEN), bytes("large", LEN));
    offer(&*sink, &entry).unwrap();
    for index in [0, 1, 3] {
        write_one(&*sink, slice_of(&bench.pool, &entry, index, &content)).unwrap();
    }
    (entry, content)
}

fn a_later_sink_has_the_slices_of_an_earlier_one(bench: &TestBench) {
    let (entry, content) = interrupted(bench);
    let sink = bench.sink();
    assert_eq!(offer(&*sink, &entry), Ok(Answer::Need { changes: Changes::NEW, have: vec![0..2, 3..4] }));
    assert_eq!(write_one(&*sink, slice_of(&bench.pool, &entry, 4, &content)), Ok(Outcome::Stored));
    let last = write_one(&*sink, slice_of(&bench.pool, &entry, 2, &content));
    assert_eq!(last, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
}

fn a_file_that_changed_is_not_resumed(bench: &TestBench) {
    let (entry, _) = interrupted(bench);
    let changed = Arc::new(Entry { mtime: bench.time(1), ..(*entry).clone() });
    let sink = bench.sink();
    assert_eq!(offer(&*sink, &changed), need(true));
    write_file(&*sink, &bench.pool, &changed, &bytes("other", LEN));
    assert!(bench.content("large") == bytes("other", LEN));
}

fn a_discarded_file_is_not_resumed(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LEN), bytes("large", LEN));
    offer(&*sink, &entry).unwrap();
    write_one(&*sink, slice_of(&bench.pool, &entry, 0, &content)).unwrap();
    sink.discard(std::slice::from_ref(&entry.path)).unwrap();
    sink.finish().unwrap();
    drop(sink);
    assert_eq!(bench.names(), []);
    assert_eq!(offer(&*bench.sink(), &entry), need(true));
}

fn discarding_a_file_that_is_not_staged_is_no_error(bench: &TestBench) {
    bench.put_files(&[("file", 10)]);
    let sink = bench.sink();
    sink.discard(&["file", "gone"].map(super::content::path)).unwrap();
    assert_eq!(bench.content("file"), bytes("file", 10));
}

fn a_file_may_be_written_after_it_was_discarded(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LEN), bytes("large", LEN));
    offer(&*sink, &entry).unwrap();
    write_one(&*sink, slice_of(&bench.pool, &entry, 2, &content)).unwrap();
    sink.discard(std::slice::from_ref(&entry.path)).unwrap();
    assert_eq!(offer(&*sink, &entry), need(true));
    assert_eq!(
        write_file(&*sink, &bench.pool, &entry, &content),
        Outcome::Committed(Some(Digest::of(&content)))
    );
    assert!(bench.content("large") == content);
}

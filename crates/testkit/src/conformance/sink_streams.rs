//! The promises of a sink with [`haul_core::SinkCaps::growing`] for streams, whose length is known at their end.

use std::sync::Arc;

use haul_core::entry::GROWING;
use haul_core::{
    Answer, BatchData, Buffer, Compare, Digest, Entry, ErrorKind, Extent, Offer, Outcome, Preserve, Result,
    SLICE_LEN, Sink, SinkOptions, Slice, SliceData,
};

use super::bench::{TestBench, offer};
use super::case::{ConformanceCase, cases};
use super::content::{batch_of, bytes, path, prove, slice_of, write_one};

const LEN: usize = 4 * SLICE_LEN as usize + 5;

pub(super) const CASES: &[ConformanceCase] = cases![
    a_stream_of_unknown_length_is_a_file_once_its_end_is_written,
    a_stream_that_ends_with_a_slice_is_whole,
    a_short_stream_is_a_small_file,
    a_stream_without_an_end_has_no_name_and_a_discarded_one_leaves_nothing,
    staged_slices_of_a_stream_count_only_if_they_are_the_same if resumes_streams,
    a_later_sink_completes_the_file_of_an_earlier_one if resumes_streams,
    a_shorter_stream_leaves_nothing_of_a_longer_one if resumes_streams,
    a_stream_does_not_grow_beyond_its_end,
    a_length_that_somebody_made_up_is_refused,
];

/// The options of a sink for streams.
fn open(bench: &TestBench) -> Arc<dyn Sink> {
    bench.sink_with(&SinkOptions {
        compare: Compare::Checksum,
        preserve: Preserve::NOTHING,
        ..SinkOptions::default()
    })
}

fn stream(len: u64) -> Arc<Entry> {
    Arc::new(Entry::stream(path("stream"), len))
}

/// A sink that has been offered the stream; `None` if the end has no streams.
fn begun(bench: &TestBench) -> Option<Arc<dyn Sink>> {
    bench.put_root();
    let sink = open(bench);
    if !sink.caps().growing {
        let refused = offer(&*sink, &stream(GROWING));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        return None;
    }
    let answer = offer(&*sink, &stream(GROWING)).unwrap();
    assert!(matches!(answer, Answer::Need { .. }), "{answer:?}");
    Some(sink)
}

/// A slice of the stream while its length is not known.
fn growing(bench: &TestBench, index: u32, content: &[u8]) -> BatchData {
    slice_of(&bench.pool, &stream(GROWING), index, content)
}

/// The last slice, with the length.
fn end(bench: &TestBench, content: &[u8]) -> BatchData {
    let entry = stream(content.len() as u64);
    slice_of(&bench.pool, &entry, haul_core::digest::slice_count(entry.len) - 1, content)
}

/// Asks whether the sink has a slice from an earlier one.
fn compare(sink: &dyn Sink, index: u32, content: &[u8]) -> Result<Outcome> {
    let (entry, slice) = (stream(GROWING), Slice::whole(0, index));
    let start = slice.start() as usize;
    let SliceData { value, .. } = prove(&entry, slice, &content[start..start + SLICE_LEN as usize]);
    let extents = vec![Extent { start: 0, len: SLICE_LEN as u32, same: true }];
    let slices = vec![Ok(SliceData { extents, value })];
    let batch = batch_of(&entry, [slice]);
    write_one(sink, BatchData { batch, slices, content: Buffer::default(), at_hand: false })
}

fn committed(content: &[u8]) -> Result<Outcome> {
    Ok(Outcome::Committed(Some(Digest::of(content))))
}

fn a_stream_of_unknown_length_is_a_file_once_its_end_is_written(bench: &TestBench) {
    let Some(sink) = begun(bench) else { return };
    let content = bytes("stream", LEN);
    for index in [2, 0, 3, 1, 2] {
        assert_eq!(write_one(&*sink, growing(bench, index, &content)), Ok(Outcome::Stored));
        assert!(bench.is_missing("stream"));
    }
    assert_eq!(write_one(&*sink, end(bench, &content)), committed(&content));
    sink.finish().unwrap();
    assert!(bench.content("stream") == content);
    assert_eq!(bench.names(), [path("stream")], "nothing else is there");
    let same = Offer { entry: stream(LEN as u64), digest: Some(Digest::of(&content)) };
    let answer = open(bench).offer(&[same]).unwrap().remove(0);
    assert!(matches!(answer, Ok(Answer::Same | Answer::Updated(_))), "{answer:?}");
}

fn a_stream_that_ends_with_a_slice_is_whole(bench: &TestBench) {
    for slices in [2, 4] {
        let Some(sink) = begun(bench) else { return };
        let content = bytes("stream", slices * SLICE_LEN as usize);
        for index in 0..slices as u32 - 1 {
            assert_eq!(write_one(&*sink, growing(bench, index, &content)), Ok(Outcome::Stored));
        }
        assert_eq!(write_one(&*sink, end(bench, &content)), committed(&content));
        assert!(bench.content("stream") == content);
    }
}

fn a_short_stream_is_a_small_file(bench: &TestBench) {
    for len in [0, 1, SLICE_LEN as usize] {
        let Some(sink) = begun(bench) else { return };
        let content = bytes("stream", len);
        assert_eq!(write_one(&*sink, end(bench, &content)), committed(&content), "{len}");
        sink.finish().unwrap();
        assert!(bench.content("stream") == content);
        assert_eq!(bench.names(), [path("stream")]);
    }
}

fn a_stream_without_an_end_has_no_name_and_a_discarded_one_leaves_nothing(bench: &TestBench) {
    bench.put_files(&[("stream", 1000)]);
    let Some(sink) = begun(bench) else { return };
    let content = bytes("other", LEN);
    for index in 0..4 {
        assert_eq!(write_one(&*sink, growing(bench, index, &content)), Ok(Outcome::Stored));
    }
    assert!(bench.content("stream") == bytes("stream", 1000), "the old file stays whole");
    sink.discard(&[path("stream")]).unwrap();
    sink.finish().unwrap();
    assert!(bench.content("stream") == bytes("stream", 1000));
    assert_eq!(bench.names(), [path("stream")]);
}

/// Writes slices 0, 1 and 3; the sink is then dropped as by an interruption.
fn interrupted(bench: &TestBench, content: &[u8]) -> bool {
    let Some(sink) = begun(bench) else { return false };
    for index in [0, 1, 3] {
        assert_eq!(write_one(&*sink, growing(bench, index, content)), Ok(Outcome::Stored));
    }
    true
}

fn staged_slices_of_a_stream_count_only_if_they_are_the_same(bench: &TestBench) {
    let old = bytes("stream", LEN);
    let mut new = old.clone();
    new[SLICE_LEN as usize + 7] ^= 1;
    if !interrupted(bench, &old) {
        return;
    }
    let sink = open(bench);
    let Ok(Answer::Need { have, .. }) = offer(&*sink, &stream(GROWING)) else { panic!("it is needed") };
    assert_eq!(have, [0..2, 3..4]);
    let differs = |outcome: Result<Outcome>| outcome.unwrap_err().kind() == ErrorKind::Corrupt;
    assert_eq!(compare(&*sink, 0, &new), Ok(Outcome::Stored));
    assert_eq!(compare(&*sink, 0, &new), Ok(Outcome::Stored), "asked again");
    assert!(differs(compare(&*sink, 1, &new)) && differs(compare(&*sink, 2, &new)));
    for index in [1, 2] {
        assert_eq!(write_one(&*sink, growing(bench, index, &new)), Ok(Outcome::Stored));
    }
    assert_eq!(compare(&*sink, 3, &new), Ok(Outcome::Stored));
    assert_eq!(write_one(&*sink, end(bench, &new)), committed(&new));
    assert!(bench.content("stream") == new);
}

fn a_later_sink_completes_the_file_of_an_earlier_one(bench: &TestBench) {
    // The process of the sink was started again within one put, which sends only the slices without an answer.
    let content = bytes("stream", LEN);
    if !interrupted(bench, &content) {
        return;
    }
    let sink = open(bench);
    let _needed = offer(&*sink, &stream(GROWING)).unwrap();
    for index in [0, 1, 3] {
        assert_eq!(compare(&*sink, index, &content), Ok(Outcome::Stored));
    }
    assert_eq!(write_one(&*sink, growing(bench, 2, &content)), Ok(Outcome::Stored));
    assert_eq!(write_one(&*sink, end(bench, &content)), committed(&content));
    assert!(bench.content("stream") == content);
}

fn a_shorter_stream_leaves_nothing_of_a_longer_one(bench: &TestBench) {
    if !interrupted(bench, &bytes("stream", LEN)) {
        return;
    }
    let content = bytes("short", SLICE_LEN as usize + 1);
    let Some(sink) = begun(bench) else { return };
    assert_eq!(write_one(&*sink, growing(bench, 0, &content)), Ok(Outcome::Stored));
    assert_eq!(write_one(&*sink, end(bench, &content)), committed(&content));
    assert!(bench.content("stream") == content);
}

fn a_stream_does_not_grow_beyond_its_end(bench: &TestBench) {
    let Some(sink) = begun(bench) else { return };
    let content = bytes("stream", LEN);
    // The end comes first, so that slices are missing.
    assert_eq!(write_one(&*sink, end(bench, &content[..SLICE_LEN as usize + 1])), Ok(Outcome::Stored));
    for index in [1, 3] {
        let outcome = write_one(&*sink, growing(bench, index, &content));
        assert!(!matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    }
    assert!(bench.is_missing("stream"));
    let other = write_one(&*sink, end(bench, &content[..SLICE_LEN as usize + 2]));
    assert!(!matches!(other, Ok(Outcome::Committed(_))), "{other:?}");
}

fn a_length_that_somebody_made_up_is_refused(bench: &TestBench) {
    bench.put_root();
    let sink = open(bench);
    let file = Arc::new(Entry { len: GROWING, ..(*bench.file("stream", 5)).clone() });
    assert_eq!(offer(&*sink, &file).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(bench.is_missing("stream"));
}

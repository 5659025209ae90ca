//! The promises of both ends for content that is taken while it is read.

use std::sync::Arc;
use std::sync::mpsc::channel;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::sink::ArrivingContent;
use haul_core::{
    Batch, ChainingValue, Digest, Entry, Error, ErrorKind, Extent, Outcome, Result, SLICE_LEN, Side, Sink,
    Slice, SliceData, WriteDone,
};

use super::bench::{TestBench, offer};
use super::case::{ConformanceCase, cases};
use super::content::{TIME, batch_of, bytes, part, prove, slice_of, write_one};

/// Two slices and a bit.
const LARGE: usize = 2 * SLICE_LEN as usize + 777;
const PIECE: usize = 100_000;

pub(super) const SOURCE_CASES: &[ConformanceCase] =
    cases![content_that_arrives_is_that_of_the_slice, content_that_nobody_takes_is_read];

pub(super) const SINK_CASES: &[ConformanceCase] =
    cases![content_that_passes_is_written, content_that_is_withdrawn_does_not_count,];

fn content_that_arrives_is_that_of_the_slice(bench: &TestBench) {
    bench.put_files(&[("large", LARGE), ("small", 1000)]);
    let source = bench.source();
    for (name, len) in [("large", LARGE), ("small", 1000)] {
        let (entry, content) = (bench.seen(&*source, name), bytes(name, len));
        for index in 0..slice_count(entry.len) {
            let slice = Slice::whole(0, index);
            let expected = part(&entry, slice, &content);
            let (mut found, mut value) = (Vec::new(), None);
            let data = source.read_arriving(&batch_of(&entry, [slice]), &mut |_, slices, content| {
                // From the beginning if a connection is lost.
                found.clear();
                loop {
                    let piece = content.next()?;
                    if piece.is_empty() {
                        break;
                    }
                    found.extend_from_slice(piece);
                }
                let [Ok(read)] = slices else { panic!("{slices:?}") };
                assert_eq!(read.data_len(), found.len() as u64);
                value = Some(content.proof()?.unwrap_or(read.value));
                Ok(true)
            });
            if let Some(data) = data.unwrap() {
                found.extend_from_slice(data.content.bytes());
                value = Some(data.slices[0].as_ref().unwrap().value);
            }
            assert!(found == expected, "slice {index} of {name}");
            assert_eq!(value, Some(prove(&entry, slice, expected).value), "slice {index} of {name}");
        }
    }
}

fn content_that_nobody_takes_is_read(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let (source, content) = (bench.source(), bytes("large", LARGE));
    let entry = bench.seen(&*source, "large");
    let slice = Slice::whole(0, 1);
    let data = source.read_arriving(&batch_of(&entry, [slice]), &mut |_, _, _| Ok(false)).unwrap().unwrap();
    let expected = part(&entry, slice, &content);
    assert!(data.content.bytes() == expected);
    assert_eq!(data.slices, [Ok(prove(&entry, slice, expected))]);
}

/// A slice that is read from a file of this process. It cannot be read from byte `fails_at` on; at its end, it has no proof.
struct PassingBytes<'a> {
    bytes: &'a [u8],
    at: usize,
    fails_at: Option<usize>,
    hasher: SliceHasher,
}

impl ArrivingContent for PassingBytes<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        let end = (self.at + PIECE).min(self.bytes.len());
        if self.fails_at.is_some_and(|fails_at| fails_at < end) {
            return Err(unreadable());
        }
        let piece = &self.bytes[self.at..end];
        self.hasher.update(piece);
        self.at = end;
        Ok(piece)
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        if self.fails_at.is_some() {
            return Err(unreadable());
        }
        Ok(Some(std::mem::replace(&mut self.hasher, SliceHasher::new(0, 0)).finish()))
    }

    fn is_at_hand(&self) -> bool {
        true
    }
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Io, Side::Source, "read", "Input/output error")
}

/// Passes a slice to the sink. `None` if the sink does not take it so.
fn pass(
    sink: &dyn Sink,
    entry: &Arc<Entry>,
    index: u32,
    content: &[u8],
    fails_at: Option<usize>,
) -> Result<Option<Result<Outcome>>> {
    let slice = Slice::whole(0, index);
    let bytes = part(entry, slice, content);
    let (sender, receiver) = channel();
    let mut done: Option<WriteDone> = Some(Box::new(move |outcomes| drop(sender.send(outcomes))));
    let extents = vec![Extent::data(0, bytes.len() as u32)];
    let slices = [Ok(SliceData { extents, value: ChainingValue::default() })];
    let hasher = SliceHasher::new(entry.len, slice.start());
    let mut passing = PassingBytes { bytes, at: 0, fails_at, hasher };
    let batch: Arc<Batch> = batch_of(entry, [slice]);
    let passed = sink.write_arriving(&batch, &slices, &mut passing, &mut done);
    if passed.is_err() {
        assert!(done.is_some(), "nothing was taken");
    }
    passed?;
    if done.is_some() {
        assert_eq!(passing.at, 0, "content was taken");
        return Ok(None);
    }
    sink.flush();
    Ok(Some(receiver.recv_timeout(TIME).expect("the write is answered").remove(0)))
}

/// As [`pass`], or as a whole if the sink does not take it so.
fn sent(
    bench: &TestBench,
    sink: &dyn Sink,
    entry: &Arc<Entry>,
    index: u32,
    content: &[u8],
) -> Result<Outcome> {
    pass(sink, entry, index, content, None)
        .unwrap()
        .unwrap_or_else(|| write_one(sink, slice_of(&bench.pool, entry, index, content)))
}

fn content_that_passes_is_written(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    assert_eq!(sent(bench, &*sink, &entry, 1, &content), Ok(Outcome::Stored));
    assert_eq!(sent(bench, &*sink, &entry, 2, &content), Ok(Outcome::Stored));
    let last = sent(bench, &*sink, &entry, 0, &content);
    assert_eq!(last, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
    sink.finish().unwrap();
}

fn content_that_is_withdrawn_does_not_count(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    assert_eq!(sent(bench, &*sink, &entry, 0, &content), Ok(Outcome::Stored));
    for fails_at in [0, 5 * PIECE, SLICE_LEN as usize - 1, SLICE_LEN as usize] {
        match pass(&*sink, &entry, 1, &content, Some(fails_at)) {
            Ok(None) => {}
            passed => assert_eq!(passed, Err(unreadable()), "{fails_at}"),
        }
    }
    assert_eq!(sent(bench, &*sink, &entry, 2, &content), Ok(Outcome::Stored));
    assert!(bench.is_missing("large"));
    let last = sent(bench, &*sink, &entry, 1, &content);
    assert_eq!(last, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
    sink.finish().unwrap();
}

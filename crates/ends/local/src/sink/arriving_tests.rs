//! Slices that are written while they arrive: in order, damaged, cut off, and overtaken by another copy.

use std::fs;

use haul_core::{BatchData, Error, Outcome, Side, Sink, SinkOptions, Source};

use super::*;
use crate::scene::{LEN, LocalScene, batch, committed, content, have, large_scene, names, write};

const PIECE: usize = 128 * 1024;

/// Content that arrives in pieces. `between` is called before each with its number; an error is a lost connection.
struct CutContent<'a> {
    bytes: Vec<u8>,
    at: usize,
    between: &'a mut dyn FnMut(usize) -> Result<()>,
}

impl ArrivingContent for CutContent<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        (self.between)(self.at / PIECE)?;
        let end = (self.at + PIECE).min(self.bytes.len());
        let piece = &self.bytes[self.at..end];
        self.at = end;
        Ok(piece)
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "read", "the connection was lost")
}

fn read(scene: &LocalScene, index: u32) -> BatchData {
    scene.source.read(&batch(&scene.entry("f"), index)).unwrap()
}

/// Lets a slice arrive. `Ok(None)` if the sink wants it collected.
fn arrive(
    sink: &LocalSink,
    data: &BatchData,
    damage: Option<usize>,
    between: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Option<Result<Outcome>>> {
    let mut bytes = data.content.bytes().to_vec();
    if let Some(at) = damage {
        bytes[at] ^= 1;
    }
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let mut done: Option<WriteDone> = Some(Box::new(move |outcomes| sender.send(outcomes).unwrap()));
    let mut pieces = CutContent { bytes, at: 0, between };
    sink.write_arriving(&data.batch, &data.slices, &mut pieces, &mut done)?;
    if done.is_some() {
        assert_eq!(pieces.at, 0, "content was taken");
        return Ok(None);
    }
    sink.flush();
    Ok(Some(receiver.recv().unwrap().remove(0)))
}

fn arrives(sink: &LocalSink, data: &BatchData) -> Result<Outcome> {
    arrive(sink, data, None, &mut |_| Ok(())).unwrap().unwrap()
}

fn send(scene: &LocalScene, sink: &LocalSink, index: u32) -> Result<Outcome> {
    write(sink, BatchData { at_hand: false, ..read(scene, index) })
}

fn check_copy(scene: &LocalScene, sink: &LocalSink) {
    sink.finish().unwrap();
    assert!(fs::read(scene.to.join("f")).unwrap() == content());
    assert_eq!(names(&scene.to), ["f"]);
}

#[test]
fn slices_that_arrive_make_a_file() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    assert_eq!(arrives(&sink, &read(&scene, 2)), Ok(Outcome::Stored));
    assert_eq!(arrives(&sink, &read(&scene, 0)), Ok(Outcome::Stored));
    assert_eq!(arrives(&sink, &read(&scene, 1)), committed());
    check_copy(&scene, &sink);
}

#[test]
fn a_damaged_slice_does_not_count() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    assert_eq!(arrives(&sink, &read(&scene, 0)), Ok(Outcome::Stored));
    for at in [0, PIECE, SLICE_LEN as usize - 1] {
        let error = arrive(&sink, &read(&scene, 1), Some(at), &mut |_| Ok(())).unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    drop(sink);
    let sink = scene.sink(SinkOptions::default());
    assert_eq!(have(&sink, &scene), std::iter::once(0..1).collect::<Vec<_>>());
    assert_eq!(send(&scene, &sink, 2), Ok(Outcome::Stored));
    assert_eq!(arrives(&sink, &read(&scene, 1)), committed());
    check_copy(&scene, &sink);
}

#[test]
fn a_slice_that_counts_is_not_written_again() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    let data = read(&scene, 0);
    assert_eq!(arrives(&sink, &data), Ok(Outcome::Stored));
    assert_eq!(arrive(&sink, &data, Some(5), &mut |_| Ok(())), Ok(None));
    assert_eq!(send(&scene, &sink, 1), Ok(Outcome::Stored));
    assert_eq!(send(&scene, &sink, 2), committed());
    assert_eq!(arrive(&sink, &data, Some(5), &mut |_| Ok(())), Ok(None), "the file is in place");
    check_copy(&scene, &sink);
}

#[test]
fn a_lost_connection_leaves_nothing_that_counts() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    let mut cut = |number| if number == 3 { Err(lost()) } else { Ok(()) };
    assert_eq!(arrive(&sink, &read(&scene, 0), Some(9), &mut cut), Err(lost()));
    for index in [1, 2] {
        assert_eq!(send(&scene, &sink, index), Ok(Outcome::Stored));
    }
    assert_eq!(arrives(&sink, &read(&scene, 0)), committed());
    check_copy(&scene, &sink);
}

/// The source has a hole now where content had arrived for an earlier state of its slices.
#[test]
fn a_hole_is_made_where_content_had_arrived() {
    let scene = LocalScene::new();
    let file = fs::File::create(scene.from.join("f")).unwrap();
    file.set_len(LEN as u64).unwrap();
    drop(file);
    let sink = scene.sink(SinkOptions::default());
    let mut data = read(&scene, 0);
    let holes = data.slices.clone();
    let len = SLICE_LEN as usize;
    data.slices =
        vec![Ok(SliceData { extents: vec![Extent::data(0, len as u32)], value: ChainingValue([7; 32]) })];
    let noise = vec![9; len];
    let mut cut = |number| if number == 3 { Err(lost()) } else { Ok(()) };
    let mut done: Option<WriteDone> = Some(Box::new(|_| panic!("it did not arrive")));
    let mut pieces = CutContent { bytes: noise, at: 0, between: &mut cut };
    assert_eq!(sink.write_arriving(&data.batch, &data.slices, &mut pieces, &mut done), Err(lost()));
    assert!(done.is_some());
    data.slices = holes;
    assert_eq!(write(&sink, BatchData { at_hand: false, ..data }), Ok(Outcome::Stored));
    assert_eq!(send(&scene, &sink, 1), Ok(Outcome::Stored));
    assert!(send(&scene, &sink, 2).is_ok_and(|outcome| outcome != Outcome::Stored));
    sink.finish().unwrap();
    assert!(fs::read(scene.to.join("f")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn the_last_copy_of_a_slice_wins() {
    for later_arrives in [false, true] {
        for damage in [None, Some(SLICE_LEN as usize - 1), Some(2)] {
            let scene = large_scene();
            let sink = scene.sink(SinkOptions::default());
            let mut overtaken = |number| {
                if number == 4 {
                    let again =
                        if later_arrives { arrives(&sink, &read(&scene, 1)) } else { send(&scene, &sink, 1) };
                    assert_eq!(again, Ok(Outcome::Stored));
                }
                Ok(())
            };
            let first = arrive(&sink, &read(&scene, 1), damage, &mut overtaken).unwrap().unwrap();
            assert_eq!(first.is_ok(), damage.is_none(), "{first:?}");
            assert_eq!(send(&scene, &sink, 0), Ok(Outcome::Stored));
            assert_eq!(send(&scene, &sink, 2), committed());
            check_copy(&scene, &sink);
        }
    }
}

#[test]
fn a_slice_may_arrive_when_its_file_is_complete_or_the_run_has_ended() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    let mut completed = |number| {
        if number == 1 {
            let outcomes: Vec<_> = (0..3).map(|index| send(&scene, &sink, index)).collect();
            assert_eq!(outcomes.last(), Some(&committed()));
        }
        if number == 2 {
            sink.finish().unwrap();
        }
        Ok(())
    };
    let stamp = |scene: &LocalScene| fs::metadata(scene.from.join("f")).unwrap().modified().unwrap();
    let late =
        arrive(&sink, &read(&scene, 0), Some(SLICE_LEN as usize - 1), &mut completed).unwrap().unwrap();
    assert!(late.is_err());
    assert!(fs::read(scene.to.join("f")).unwrap() == content());
    assert_eq!(fs::metadata(scene.to.join("f")).unwrap().modified().unwrap(), stamp(&scene));
    assert_eq!(names(&scene.to), ["f"]);
}

#[test]
fn content_that_is_verified_first_is_not_taken() {
    let scene = large_scene();
    fs::write(scene.from.join("small"), b"small").unwrap();
    let refused = |sink: &LocalSink, data: &BatchData| {
        assert_eq!(arrive(sink, data, None, &mut |_| Ok(())), Ok(None));
    };
    let sink = scene.sink(SinkOptions::default());
    refused(&sink, &scene.source_read("small"));
    let mut part = Batch::clone(&batch(&scene.entry("f"), 0));
    part.slices[0].part = Some(1);
    let part = scene.source.read(&Arc::new(part)).unwrap();
    refused(&sink, &part);
    // A part of the slice counts already.
    assert_eq!(write(&sink, BatchData { at_hand: false, ..part }), Ok(Outcome::Stored));
    refused(&sink, &read(&scene, 0));
    drop(sink);
    refused(&scene.sink_on(SinkOptions::default(), true), &read(&scene, 0));
    fs::write(scene.to.join("f"), vec![3; LEN]).unwrap();
    refused(&scene.sink(SinkOptions { in_place: true, ..SinkOptions::default() }), &read(&scene, 0));
}

/// Passes a slice from the source to the sink while it is read; the outcome if the sink took it.
fn pass(scene: &LocalScene, sink: &LocalSink, index: u32, before: &dyn Fn()) -> Result<Option<BatchData>> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let mut done: Option<WriteDone> = Some(Box::new(move |outcomes| sender.send(outcomes).unwrap()));
    let batch = batch(&scene.entry("f"), index);
    let passed = scene.source.read_arriving(&batch, &mut |batch, slices, content| {
        before();
        sink.write_arriving(batch, slices, content, &mut done)?;
        Ok(done.is_none())
    });
    if done.is_none() {
        sink.flush();
        receiver.recv().unwrap().remove(0).unwrap();
    }
    passed
}

#[test]
fn slices_pass_from_the_source_to_the_file() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    for index in [2, 0, 1] {
        assert!(pass(&scene, &sink, index, &|| ()).unwrap().is_none());
    }
    check_copy(&scene, &sink);
}

#[test]
fn a_slice_whose_file_changes_while_it_passes_does_not_count() {
    let scene = large_scene();
    let sink = scene.sink(SinkOptions::default());
    assert!(pass(&scene, &sink, 1, &|| ()).unwrap().is_none());
    let change = || {
        let file = fs::File::options().write(true).open(scene.from.join("f")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    let failed = pass(&scene, &sink, 0, &change).unwrap().unwrap();
    assert_eq!(failed.slices[0].as_ref().unwrap_err().kind(), ErrorKind::SourceChanged);
    assert!(!scene.to.join("f").exists());
}

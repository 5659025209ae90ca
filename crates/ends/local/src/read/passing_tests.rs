//! Slices that are passed on while they are read: whole, changed and cut meanwhile, and those that are not passed.

use std::fs::{self, OpenOptions};

use haul_core::{ErrorKind, Slice, Source};

use super::*;
use crate::scene::{LEN, LocalScene, batch, content, large_scene};

/// The fate of a batch that was passed to somebody who takes all of it.
struct Taken {
    bytes: Vec<u8>,
    proof: Option<ChainingValue>,
    result: Result<Option<BatchData>>,
}

/// Reads a batch piece by piece. `between` is called before each piece with its number.
fn pass(scene: &LocalScene, batch: &Arc<Batch>, between: &dyn Fn(usize)) -> Taken {
    let (mut bytes, mut proof) = (Vec::new(), None);
    let result = scene.source.read_arriving(batch, &mut |_, slices, content| {
        let [Ok(slice)] = slices else { panic!("one slice that can be read") };
        let mut number = 0;
        loop {
            between(number);
            let piece = content.next()?;
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= STEP);
            bytes.extend_from_slice(piece);
            number += 1;
        }
        assert_eq!(slice.data_len(), bytes.len() as u64);
        proof = content.proof()?;
        Ok(true)
    });
    Taken { bytes, proof, result }
}

fn error_of(taken: &Taken) -> ErrorKind {
    let data = taken.result.as_ref().unwrap().as_ref().unwrap();
    assert!(data.content.bytes().is_empty());
    data.slices[0].as_ref().unwrap_err().kind()
}

#[test]
fn a_slice_passes_with_its_proof_behind_it() {
    for index in 0..3 {
        // A new source: one that finds its disk slow passes no further slice for a while.
        let scene = large_scene();
        let batch = batch(&scene.entry("f"), index);
        let taken = pass(&scene, &batch, &|_| ());
        let read = scene.source.read(&batch).unwrap();
        assert_eq!(taken.result.map(|data| data.is_none()), Ok(true));
        assert!(taken.bytes == read.content.bytes());
        assert_eq!(taken.proof, Some(read.slices[0].as_ref().unwrap().value));
    }
}

#[test]
fn a_file_that_changes_while_it_passes_has_no_proof() {
    let scene = large_scene();
    let batch = batch(&scene.entry("f"), 0);
    let taken = pass(&scene, &batch, &|number| {
        if number == 2 {
            fs::write(scene.from.join("f"), content()).unwrap();
        }
    });
    assert_eq!((error_of(&taken), taken.proof), (ErrorKind::SourceChanged, None));
    // The same again is an error at once: the file is not the one of the scan.
    assert_eq!(error_of(&pass(&scene, &batch, &|_| ())), ErrorKind::SourceChanged);
}

#[test]
fn a_file_that_is_cut_while_it_passes_has_no_proof() {
    let scene = large_scene();
    let batch = batch(&scene.entry("f"), 1);
    let taken = pass(&scene, &batch, &|number| {
        if number == 1 {
            let file = OpenOptions::new().write(true).open(scene.from.join("f")).unwrap();
            file.set_len(SLICE_LEN + STEP as u64 + 1).unwrap();
        }
    });
    assert_eq!(taken.bytes.len(), STEP);
    assert_eq!((error_of(&taken), taken.proof), (ErrorKind::SourceChanged, None));
}

#[test]
fn content_that_nobody_takes_is_read_as_a_whole() {
    let scene = large_scene();
    let batch = batch(&scene.entry("f"), 0);
    let mut asked = 0;
    let mut decline = |_: &Arc<Batch>, _: &[Result<SliceData>], _: &mut dyn ArrivingContent| {
        asked += 1;
        Ok(false)
    };
    let data = scene.source.read_arriving(&batch, &mut decline).unwrap().unwrap();
    assert!(data.content.bytes() == &content()[..SLICE_LEN as usize]);
    assert_eq!(asked, 1);
    let lost =
        || Error::new(ErrorKind::Unreachable, haul_core::Side::Wire, "send", "the connection was lost");
    let failed = scene.source.read_arriving(&batch, &mut |_, _, _| Err(lost()));
    assert_eq!(failed.err(), Some(lost()), "it is no error of the file");
}

#[test]
fn small_files_holes_and_several_slices_are_read_as_a_whole() {
    let scene = large_scene();
    fs::write(scene.from.join("small"), "small").unwrap();
    let holes = fs::File::create(scene.from.join("holes")).unwrap();
    holes.set_len(LEN as u64).unwrap();
    let large = scene.entry("f");
    let both = Batch {
        entries: vec![large.clone(), scene.entry("small")],
        slices: vec![Slice::whole(0, 2), Slice::whole(1, 0)],
        again: false,
    };
    for batch in [Arc::new(both), batch(&scene.entry("small"), 0), batch(&scene.entry("holes"), 0)] {
        let taken = scene.source.read_arriving(&batch, &mut |_, _, _| panic!("it was passed"));
        assert!(taken.unwrap().unwrap().slices.iter().all(Result::is_ok));
    }
}

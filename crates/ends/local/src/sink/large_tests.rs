//! Tests of large files: interrupted and resumed, read back, compared by pages, updated in place.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use haul_core::{Changes, Compare, Delta, Digest, ErrorKind, Retry, SLICE_LEN, SinkOptions};

use super::*;
use crate::scene::{LEN, LocalScene, batch, committed, content, have, large_scene, names, offer, write};

fn options() -> SinkOptions {
    SinkOptions { compare: Compare::SizeAndTime, recheck: true, ..SinkOptions::default() }
}

/// The staged file.
fn staged(scene: &LocalScene) -> fs::File {
    let name = names(&scene.to).into_iter().find(|name| name.ends_with(".part")).unwrap();
    fs::File::options().write(true).open(scene.to.join(name)).unwrap()
}

#[test]
fn an_interrupted_file_is_resumed() {
    for (durable, recheck) in [(true, true), (true, false), (false, true)] {
        let scene = large_scene();
        let options = SinkOptions { durable, recheck, ..options() };
        let first = scene.sink(options.clone());
        assert_eq!(scene.send(&first, "f", &[1]), Ok(Outcome::Stored));
        drop(first);
        let second = scene.sink(options);
        assert_eq!(have(&second, &scene), std::iter::once(1..2).collect::<Vec<_>>(), "durable {durable}");
        assert_eq!(scene.send(&second, "f", &[0, 2]), committed());
        second.finish().unwrap();
        assert!(fs::read(scene.to.join("f")).unwrap() == content());
        assert_eq!(names(&scene.to), ["f"]);
        assert_eq!(scene.offer(&second, "f"), Ok(Answer::Same));
    }
}

#[test]
fn a_slice_that_was_damaged_since_is_sent_again() {
    let scene = large_scene();
    let first = scene.sink(options());
    assert_eq!(scene.send(&first, "f", &[0, 1]), Ok(Outcome::Stored));
    drop(first);
    staged(&scene).write_all_at(b"damage", SLICE_LEN + 9).unwrap();
    let second = scene.sink(options());
    assert_eq!(have(&second, &scene).len(), 1);
    let error = scene.send(&second, "f", &[2]).unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Anew));
    let left = have(&second, &scene);
    assert!(left.contains(&(0..1)) && !left.iter().any(|slices| slices.contains(&1)), "{left:?}");
    assert_eq!(scene.send(&second, "f", &[1, 2]), committed());
    assert!(fs::read(scene.to.join("f")).unwrap() == content());
}

#[test]
fn another_state_of_the_source_begins_anew() {
    let scene = large_scene();
    let sink = scene.sink(options());
    assert_eq!(scene.send(&sink, "f", &[0]), Ok(Outcome::Stored));
    let file = fs::File::options().write(true).open(scene.from.join("f")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    assert_eq!(have(&sink, &scene), []);
    assert_eq!(scene.send(&sink, "f", &[0, 1, 2]), committed());
    assert_eq!(scene.send(&sink, "f", &[1]), committed(), "a slice that arrives again finds its file");
}

#[test]
fn a_discarded_file_leaves_nothing() {
    let scene = large_scene();
    let sink = scene.sink(options());
    assert_eq!(scene.send(&sink, "f", &[0]), Ok(Outcome::Stored));
    assert_eq!(names(&scene.to).len(), 2, "the staged file and its journal");
    sink.discard(&[scene.entry("f").path.clone()]).unwrap();
    assert_eq!(names(&scene.to), [""; 0]);
}

#[test]
fn a_directory_in_the_way_is_an_error_and_the_slices_stay() {
    let scene = large_scene();
    let sink = scene.sink(options());
    assert_eq!(scene.send(&sink, "f", &[0, 1]), Ok(Outcome::Stored));
    fs::create_dir_all(scene.to.join("f/full")).unwrap();
    let error = scene.send(&sink, "f", &[2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEmpty);
    fs::remove_dir(scene.to.join("f/full")).unwrap();
    drop(sink);
    let sink = scene.sink(options());
    assert_eq!(have(&sink, &scene).len(), 1);
}

#[test]
fn files_are_read_back_from_the_disk_if_the_options_say_so() {
    let scene = large_scene();
    fs::write(scene.from.join("small"), "abc").unwrap();
    let sink = scene.sink(SinkOptions { verify_disk: true, ..options() });
    assert_eq!(scene.send(&sink, "f", &[0, 1, 2]), committed());
    assert_eq!(scene.send(&sink, "small", &[0]), Ok(Outcome::Committed(Some(Digest::of(b"abc")))));
    let file = fs::File::open(scene.to.join("small")).unwrap();
    let error = sink.committer.read_back(&file, &scene.entry("small"), Digest::of(b"x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

/// Sends all slices, those pages alone that differ from the destination.
fn send_changed(scene: &LocalScene, sink: &LocalSink) -> (Result<Outcome>, u64) {
    let entry = scene.entry("f");
    assert_eq!(offer(sink, entry.clone()), Ok(Answer::Need { changes: Changes::NONE, have: Vec::new() }));
    let pages = sink.pages(&entry, 0..3).unwrap();
    assert_eq!(pages.len(), 3);
    let (mut outcome, mut sent) = (Ok(Outcome::Stored), 0);
    for (index, pages) in pages.iter().enumerate() {
        let data = scene.source_read_changed(&batch(&entry, index as u32), pages);
        sent += data.slices[0].as_ref().unwrap().data_len();
        outcome = write(sink, BatchData { at_hand: false, ..data });
    }
    (outcome, sent)
}

#[test]
fn only_changed_pages_are_sent() {
    for in_place in [false, true] {
        let scene = large_scene();
        let mut old = content();
        old[SLICE_LEN as usize + 5] ^= 1;
        fs::write(scene.to.join("f"), &old).unwrap();
        let inode = fs::metadata(scene.to.join("f")).unwrap().ino();
        let sink = scene.sink(SinkOptions { delta: Delta::Always, in_place, ..options() });
        let (outcome, sent) = send_changed(&scene, &sink);
        assert_eq!(outcome, committed());
        assert!(sent < 3 * haul_core::delta::PAGE_LEN as u64, "{sent}");
        sink.finish().unwrap();
        assert!(fs::read(scene.to.join("f")).unwrap() == content());
        assert_eq!(fs::metadata(scene.to.join("f")).unwrap().ino() == inode, in_place);
        assert_eq!(names(&scene.to), ["f"]);
        assert_eq!(scene.offer(&sink, "f"), Ok(Answer::Same));
    }
}

#[test]
fn a_slice_whose_old_pages_have_changed_since_is_refused() {
    let scene = large_scene();
    fs::write(scene.to.join("f"), content()).unwrap();
    let sink = scene.sink(SinkOptions { delta: Delta::Always, ..options() });
    let entry = scene.entry("f");
    let pages = sink.pages(&entry, 0..1).unwrap();
    let data = scene.source_read_changed(&batch(&entry, 0), &pages[0]);
    let file = fs::File::options().write(true).open(scene.to.join("f")).unwrap();
    file.write_all_at(b"changed", 100).unwrap();
    let error = write(&sink, BatchData { at_hand: false, ..data }).unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Again));
}

#[test]
fn an_update_in_place_writes_over_the_old_content() {
    let scene = large_scene();
    fs::write(scene.to.join("f"), vec![9; LEN + 5]).unwrap();
    let sink = scene.sink(SinkOptions { in_place: true, ..options() });
    assert_eq!(have(&sink, &scene), []);
    assert_eq!(scene.send(&sink, "f", &[2, 0, 1]), committed());
    sink.finish().unwrap();
    assert!(fs::read(scene.to.join("f")).unwrap() == content());
    assert_eq!(scene.offer(&sink, "f"), Ok(Answer::Same));
}

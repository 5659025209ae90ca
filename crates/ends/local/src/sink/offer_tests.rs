//! Tests of answers to offers, of links and of removal.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use haul_core::digest::SliceHasher;
use haul_core::sink::CloneRead;
use haul_core::{Changes, Compare, Digest, ErrorKind, SinkOptions, SkipReason};

use super::*;
use crate::scene::{LocalScene, names, offer, path};

const NEED_NEW: Answer = Answer::Need { changes: Changes::NEW, have: Vec::new() };
const NEED: Answer = Answer::Need { changes: Changes::NONE, have: Vec::new() };

fn options() -> SinkOptions {
    SinkOptions { compare: Compare::SizeAndTime, ..SinkOptions::default() }
}

/// A file at both ends, with times a day apart.
fn two_files(scene: &LocalScene, here: &str) {
    let day =
        |count: u64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000 + count * 86_400);
    for (dir, content, count) in [(&scene.from, "one", 1), (&scene.to, here, 0)] {
        fs::write(dir.join("f"), content).unwrap();
        fs::File::options().write(true).open(dir.join("f")).unwrap().set_modified(day(count)).unwrap();
    }
}

#[test]
fn a_file_is_needed_if_the_comparison_finds_a_difference() {
    for (compare, here, answer) in [
        (Compare::SizeOnly, "two", Answer::Updated(Changes::NONE)),
        (Compare::SizeOnly, "three", NEED),
        (Compare::SizeAndTime, "one", NEED),
        (Compare::Checksum, "two", NEED),
        (Compare::Checksum, "one", Answer::Updated(Changes::NONE)),
    ] {
        let scene = LocalScene::new();
        two_files(&scene, here);
        let sink = scene.sink(SinkOptions { compare, ..options() });
        let digest = Some(Digest::of(b"one"));
        let offer = Offer { entry: scene.entry("f"), digest };
        assert_eq!(sink.offer(&[offer]).unwrap().remove(0), Ok(answer), "{compare:?} {here}");
    }
    let scene = LocalScene::new();
    fs::write(scene.from.join("f"), "").unwrap();
    assert_eq!(scene.offer(&scene.sink(options()), "f"), Ok(NEED_NEW));
}

#[test]
fn options_skip_entries() {
    for (options, other_is_older, answer) in [
        (SinkOptions { ignore_existing: true, ..options() }, true, Answer::Left(SkipReason::Exists)),
        (SinkOptions { update: true, ..options() }, false, Answer::Left(SkipReason::Newer)),
        (SinkOptions { update: true, ..options() }, true, NEED),
    ] {
        let scene = LocalScene::new();
        two_files(&scene, "two");
        if !other_is_older {
            fs::File::options()
                .write(true)
                .open(scene.to.join("f"))
                .unwrap()
                .set_modified(std::time::SystemTime::now())
                .unwrap();
        }
        assert_eq!(scene.offer(&scene.sink(options), "f"), Ok(answer));
    }
    let scene = LocalScene::new();
    fs::create_dir(scene.from.join("d")).unwrap();
    fs::write(scene.from.join("d/f"), "").unwrap();
    let sink = scene.sink(SinkOptions { existing: true, ..options() });
    assert_eq!(scene.offer(&sink, "d/f"), Ok(Answer::Left(SkipReason::Missing)));
    fs::write(scene.to.join("d"), "a file").unwrap();
    let sink = scene.sink(SinkOptions { ignore_existing: true, ..options() });
    assert_eq!(scene.offer(&sink, "d/f"), Ok(Answer::Left(SkipReason::Exists)), "an ancestor is a file");
}

#[test]
fn entries_without_content_are_made_and_then_up_to_date() {
    let scene = LocalScene::new();
    fs::create_dir(scene.from.join("dir")).unwrap();
    symlink("target", scene.from.join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.from.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let names_here = ["dir", "fifo", "link"];
    for is_dry_run in [true, false] {
        let sink = scene.sink(SinkOptions { dry_run: is_dry_run, ..options() });
        for name in names_here {
            assert_eq!(scene.offer(&sink, name), Ok(Answer::Made(Changes::NEW)), "{name}");
        }
        sink.finish().unwrap();
        assert_eq!(names(&scene.to).len(), if is_dry_run { 0 } else { 3 });
    }
    assert_eq!(fs::read_link(scene.to.join("link")).unwrap().to_str(), Some("target"));
    let sink = scene.sink(options());
    for name in names_here {
        assert_eq!(scene.offer(&sink, name), Ok(Answer::Same), "{name}");
    }
    // Another target, and another mode.
    fs::remove_file(scene.from.join("link")).unwrap();
    symlink("other", scene.from.join("link")).unwrap();
    fs::set_permissions(scene.from.join("fifo"), fs::Permissions::from_mode(0o611)).unwrap();
    assert_eq!(scene.offer(&sink, "link"), Ok(Answer::Made(Changes::NONE)));
    assert_eq!(scene.offer(&sink, "fifo"), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!(fs::read_link(scene.to.join("link")).unwrap().to_str(), Some("other"));
    assert_eq!(fs::metadata(scene.to.join("fifo")).unwrap().mode() & 0o777, 0o611);
}

#[test]
fn an_empty_directory_gives_way_and_a_full_one_does_not() {
    for dry_run in [true, false] {
        let scene = LocalScene::new();
        for name in ["f", "link"] {
            fs::create_dir(scene.to.join(name)).unwrap();
        }
        fs::write(scene.from.join("f"), "x").unwrap();
        symlink("x", scene.from.join("link")).unwrap();
        let staged = String::from_utf8(haul_core::staging::staging_name(b"x", b".part")).unwrap();
        fs::write(scene.to.join("link").join(staged), "of a killed run").unwrap();
        let sink = scene.sink(SinkOptions { dry_run, ..options() });
        assert_eq!(scene.offer(&sink, "f"), Ok(NEED));
        assert_eq!(scene.offer(&sink, "link"), Ok(Answer::Made(Changes::NONE)));
        assert_eq!(names(&scene.to).len(), if dry_run { 2 } else { 1 });

        let _ = fs::remove_file(scene.to.join("link"));
        fs::create_dir_all(scene.to.join("link/full")).unwrap();
        assert_eq!(scene.offer(&sink, "link").unwrap_err().kind(), ErrorKind::NotEmpty);
    }
}

#[test]
fn a_second_entry_gets_a_file_of_its_own() {
    let scene = LocalScene::new();
    for name in ["a", "b"] {
        fs::write(scene.from.join(name), "same").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(scene.from.join(name)).unwrap().set_modified(time).unwrap();
    }
    let sink = scene.sink(options());
    scene.send(&sink, "a", &[0]).unwrap();
    fs::hard_link(scene.to.join("a"), scene.to.join("b")).unwrap();
    assert_eq!(scene.offer(&sink, "a"), Ok(Answer::Same));
    assert_eq!(scene.offer(&sink, "b"), Ok(NEED));
}

#[test]
fn further_names_are_linked() {
    let scene = LocalScene::new();
    fs::write(scene.from.join("a"), "x").unwrap();
    fs::create_dir(scene.to.join("second")).unwrap();
    let link = |sink: &LocalSink, name: &str, to: &str| {
        let entry = Entry { path: path(name), ..(*scene.entry("a")).clone() };
        sink.link(&[HardLink { entry: Arc::new(entry), to: path(to) }]).unwrap().remove(0)
    };
    let dry = scene.sink(SinkOptions { dry_run: true, ..options() });
    assert_eq!(link(&dry, "second", "a"), Ok(Answer::Made(Changes::NONE)));
    let sink = scene.sink(options());
    assert!(link(&sink, "second", "a").is_err(), "the first name is missing");
    scene.send(&sink, "a", &[0]).unwrap();
    assert_eq!(link(&dry, "second", "a"), Ok(Answer::Made(Changes::NONE)));
    assert_eq!(link(&sink, "second", "a"), Ok(Answer::Made(Changes::NONE)), "an empty directory gives way");
    assert_eq!(link(&sink, "second", "a"), Ok(Answer::Same));
    let ino = |name: &str| fs::metadata(scene.to.join(name)).unwrap().ino();
    assert_eq!(ino("a"), ino("second"));

    let existing = scene.sink(SinkOptions { existing: true, ..options() });
    assert_eq!(link(&existing, "third", "a"), Ok(Answer::Left(SkipReason::Missing)));
    fs::write(scene.to.join("third"), "").unwrap();
    let ignore = scene.sink(SinkOptions { ignore_existing: true, ..options() });
    assert_eq!(link(&ignore, "third", "a"), Ok(Answer::Left(SkipReason::Exists)));
    assert_eq!(names(&scene.to), ["a", "second", "third"], "no staging name is left");
}

#[test]
fn files_and_empty_directories_are_removed() {
    for is_network_fs in [false, true] {
        let scene = LocalScene::new();
        fs::create_dir_all(scene.to.join("full/sub")).unwrap();
        fs::create_dir(scene.to.join("left")).unwrap();
        fs::write(scene.to.join("f"), "").unwrap();
        let staged = String::from_utf8(haul_core::staging::staging_name(b"x", b".part")).unwrap();
        fs::write(scene.to.join("left").join(staged), "").unwrap();
        let paths = ["f", "left", "full", "missing"].map(path);
        let dry = scene.sink(SinkOptions { dry_run: true, ..options() });
        assert!(dry.remove(&paths).unwrap().iter().all(Result::is_ok));
        assert_eq!(names(&scene.to).len(), 3, "nothing was removed");
        let sink = scene.sink_on(options(), is_network_fs);
        let kinds: Vec<_> =
            sink.remove(&paths).unwrap().into_iter().map(|one| one.err().map(|error| error.kind())).collect();
        assert_eq!(kinds, [None, None, Some(ErrorKind::NotEmpty), None]);
        assert_eq!(names(&scene.to), ["full"]);
    }
}

#[test]
fn small_files_are_copied_to_a_network_file_system() {
    let scene = LocalScene::new();
    fs::create_dir_all(scene.from.join("d")).unwrap();
    for name in ["f", "d/f"] {
        fs::write(scene.from.join(name), name).unwrap();
    }
    fs::write(scene.to.join("f"), "older").unwrap();
    let sink = scene.sink_on(options(), true);
    assert_eq!(scene.offer(&sink, "d"), Ok(Answer::Made(Changes::NEW)));
    assert_eq!(scene.offer(&sink, "d/f"), Ok(NEED_NEW), "the directory is new");
    assert_eq!(scene.offer(&sink, "f"), Ok(NEED));
    for name in ["f", "d/f"] {
        let outcome = scene.send(&sink, name, &[0]);
        assert_eq!(outcome, Ok(Outcome::Committed(Some(Digest::of(name.as_bytes())))));
    }
    sink.finish().unwrap();
    assert!(sink.hung(Duration::ZERO).is_empty() && sink.caps().writers > 0);
    let next = scene.sink_on(options(), true);
    for name in ["f", "d", "d/f"] {
        assert_eq!(scene.offer(&next, name), Ok(Answer::Same), "{name}");
    }
    assert_eq!((names(&scene.to).len(), names(&scene.to.join("d")).len()), (2, 1));
}

#[test]
fn content_that_does_not_verify_is_refused() {
    let scene = LocalScene::new();
    fs::write(scene.from.join("f"), "abc").unwrap();
    let sink = scene.sink(options());
    let mut data = scene.source_read("f");
    let mut hasher = SliceHasher::new(3, 0);
    hasher.update(b"abd");
    if let Ok(read) = &mut data.slices[0] {
        read.value = hasher.finish();
    }
    let error = crate::scene::write(&sink, BatchData { at_hand: false, ..data }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(names(&scene.to), [""; 0]);
}

#[test]
fn a_clone_has_the_content_or_nothing_was_changed() {
    let scene = LocalScene::new();
    fs::write(scene.from.join("f"), "content").unwrap();
    let file = fs::File::open(scene.from.join("f")).unwrap();
    let is_read = |_| true;
    let reads: [Option<&CloneRead<'_>>; 2] = [None, Some(&is_read)];
    for (is_network_fs, read) in
        [false, true].into_iter().flat_map(|network| reads.map(|read| (network, read)))
    {
        let sink = scene.sink_on(options(), is_network_fs);
        match sink.clone_file(&scene.entry("f"), &file, read).unwrap() {
            Some(outcome) => {
                assert_eq!(outcome, Outcome::Committed(read.map(|_| Digest::of(b"content"))));
                assert_eq!(fs::read(scene.to.join("f")).unwrap(), b"content");
                fs::remove_file(scene.to.join("f")).unwrap();
            }
            None => assert_eq!(names(&scene.to), [""; 0]),
        }
    }
}

#[test]
fn a_directory_without_access_is_opened_up_and_closed_again() {
    let scene = LocalScene::new();
    fs::create_dir_all(scene.from.join("d")).unwrap();
    fs::write(scene.from.join("d/f"), "x").unwrap();
    fs::set_permissions(scene.from.join("d"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(scene.to.join("d")).unwrap();
    fs::set_permissions(scene.to.join("d"), fs::Permissions::from_mode(0o050)).unwrap();
    let sink = scene.sink(options());
    assert_eq!(scene.offer(&sink, "d"), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!(offer(&sink, scene.entry("d/f")), Ok(NEED_NEW));
    scene.send(&sink, "d/f", &[0]).unwrap();
    sink.finish().unwrap();
    assert_eq!(fs::metadata(scene.to.join("d")).unwrap().mode() & 0o777, 0o750);
}

//! The effects that a disk error, a power cut or data corruption may have on a destination, and those that it must not.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use haul_slowfs::{FaultEffect, FsFault, MountOptions, Op, SlowMount};
use haul_testkit::{Need, assert_same_tree};
use rustix::io::Errno;

use crate::scene::{Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Fuse;
        a_file_that_could_not_be_synced_is_sent_again_once_then_named,
        metadata_that_the_disk_refuses_is_a_failure,
        a_temporary_error_of_the_destination_is_tried_again_then_named,
    ]
}

/// A file system that is to fail, and the directory behind it with its content.
fn mounted(scene: &Scene) -> (SlowMount, PathBuf) {
    let behind = scene.join("behind");
    fs::create_dir_all(&behind).unwrap();
    fs::create_dir_all(scene.join("mnt")).unwrap();
    let delay = Duration::ZERO;
    let options = MountOptions { meta: delay, data: delay, xattrs: true, ..MountOptions::default() };
    (SlowMount::new(&behind, &scene.join("mnt"), options).unwrap(), behind)
}

fn a_file_that_could_not_be_synced_is_sent_again_once_then_named() {
    for len in [1000, 9 << 20] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("file", len);
        let (mount, behind) = mounted(&scene);
        mount.faults().add(FsFault::always(Op::Fsync, "", FaultEffect::Fail(Errno::IO)));
        let run = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_code(1);
        let named = events(&run).into_iter().filter(|event| event["type"] == "failed").count();
        assert_eq!(named, 1, "{run}");
        let left: Vec<_> = fs::read_dir(behind.join("dst")).unwrap().collect();
        assert!(left.is_empty(), "nothing is kept of what may be lost: {left:?}");
        mount.faults().clear();
        mount.faults().add(FsFault::once(Op::Fsync, "", FaultEffect::Fail(Errno::IO)));
        let run = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_success();
        assert!(summary(&run).of("resent") > 0, "{run}");
        assert_same_tree(source.path(), &behind.join("dst"));
    }
}

/// An error of the disk is no refusal of the file system: a run that could not set times or modes has not copied all.
fn metadata_that_the_disk_refuses_is_a_failure() {
    for is_dir in [false, true] {
        let scene = Scene::new();
        let source = scene.tree("src");
        if is_dir {
            fs::create_dir(source.join("entry")).unwrap();
        } else {
            source.file("entry", 1000);
        }
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::open(source.join("entry")).unwrap().set_modified(old).unwrap();
        let (mount, behind) = mounted(&scene);
        for errno in [Errno::IO, Errno::ROFS] {
            mount.faults().add(FsFault::always(Op::Setattr, "", FaultEffect::Fail(errno)));
            let run = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_code(1);
            assert!(run.said().contains("failed to"), "{run}");
            mount.faults().clear();
        }
        let _ = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_success();
        assert_same_tree(source.path(), &behind.join("dst"));
    }
}

/// A network file system reports errors that are gone a moment later.
fn a_temporary_error_of_the_destination_is_tried_again_then_named() {
    let requests = [
        (Op::Mkdir, "dir"),
        (Op::Symlink, "link"),
        (Op::Create, "small"),
        (Op::Write, "small"),
        (Op::Create, "large"),
        (Op::Write, "large"),
        (Op::Rename, "link"),
        (Op::Unlink, "extra"),
    ];
    for (number, (op, name)) in requests.into_iter().enumerate() {
        let scene = Scene::new();
        let source = scene.tree("src");
        fs::create_dir(source.join("dir")).unwrap();
        std::os::unix::fs::symlink("to", source.join("link")).unwrap();
        source.file("small", 1000);
        source.file("large", 9 << 20);
        let (mount, behind) = mounted(&scene);
        fs::create_dir(behind.join("dst")).unwrap();
        fs::write(behind.join("dst/extra"), "not at the source").unwrap();
        let run = || scene.by(Way::Local, "sync", slash(source.path()), slash(&mount.join("dst"))).finish();
        let errno = [Errno::IO, Errno::STALE, Errno::TIMEDOUT][number % 3];
        // Staged files have other names than those that they stand for.
        let path = if matches!(op, Op::Mkdir | Op::Unlink) { name } else { "" };
        let fault = FsFault::once(op, path, FaultEffect::Fail(errno));

        mount.faults().add(FsFault { times: u64::MAX, ..fault.clone() });
        let failed = run();
        assert!(failed.code() == Some(1) && failed.said().contains(name), "{op:?} {name}: {failed}");
        mount.faults().clear();
        fs::remove_dir_all(behind.join("dst")).unwrap();
        fs::create_dir(behind.join("dst")).unwrap();
        fs::write(behind.join("dst/extra"), "not at the source").unwrap();

        let skip = u64::from(op == Op::Write && name == "large");
        mount.faults().add(FsFault { skip, ..fault });
        let repaired = run();
        assert_eq!((repaired.code(), mount.faults().hits()), (Some(0), 1), "{op:?} {name}: {repaired}");
        assert_same_tree(source.path(), &behind.join("dst"));
    }
}

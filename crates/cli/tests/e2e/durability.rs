//! What a disk error, a power cut or data corruption may do to a destination, and what it must not do.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use haul_slowfs::{Action, Fault, Mount, Op, Options};
use haul_testkit::{Need, assert_same_tree};
use rustix::io::Errno;

use crate::scene::{Scene, Way, events, summary};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        Need::Fuse;
        a_file_that_could_not_be_synced_is_sent_again_once_then_named,
        metadata_that_the_disk_refuses_is_a_failure,
    ]
}

/// A file system that is to fail, and the folder that holds what is in it.
fn mounted(scene: &Scene) -> (Mount, PathBuf) {
    let behind = scene.join("behind");
    fs::create_dir_all(&behind).unwrap();
    fs::create_dir_all(scene.join("mnt")).unwrap();
    let delay = Duration::ZERO;
    let options = Options { meta: delay, data: delay, xattrs: true, ..Options::default() };
    (Mount::new(&behind, &scene.join("mnt"), options).unwrap(), behind)
}

fn a_file_that_could_not_be_synced_is_sent_again_once_then_named() {
    for len in [1000, 9 << 20] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("file", len);
        let (mount, behind) = mounted(&scene);
        mount.faults().add(Fault::always(Op::Fsync, "", Action::Fail(Errno::IO)));
        let run = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_code(1);
        let named = events(&run).into_iter().filter(|event| event["type"] == "failed").count();
        assert_eq!(named, 1, "{run}");
        let left: Vec<_> = fs::read_dir(behind.join("dst")).unwrap().collect();
        assert!(left.is_empty(), "nothing is kept of what may be lost: {left:?}");
        mount.faults().clear();
        mount.faults().add(Fault::once(Op::Fsync, "", Action::Fail(Errno::IO)));
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
            mount.faults().add(Fault::always(Op::Setattr, "", Action::Fail(errno)));
            let run = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_code(1);
            assert!(run.said().contains("failed to"), "{run}");
            mount.faults().clear();
        }
        let _ = scene.copy(Way::Local, source.path(), &mount.join("dst")).finish().expect_success();
        assert_same_tree(source.path(), &behind.join("dst"));
    }
}

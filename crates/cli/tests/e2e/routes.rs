//! A tree with every kind of entry arrives complete on every route.

use std::os::unix::fs::MetadataExt;

use haul_testkit::{Need, TestTree, assert_same_tree};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::scene::{Scene, WAYS, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root;
        a_hard_tree_arrives_whole_on_this_machine,
        a_hard_tree_arrives_whole_when_pushed,
        a_hard_tree_arrives_whole_when_pulled,
        a_hard_tree_arrives_whole_between_two_remote_ends,
        a_hard_tree_arrives_whole_with_content_read_back_from_the_disk,
        access_times_are_kept,
    ]
}

/// Access times are no part of the comparison by rsync.
fn access_times_are_kept() {
    for way in WAYS {
        let scene = Scene::new();
        let source = scene.tree("src");
        let times = [("small", 1_200_000_000, 5), ("big", -100, 999_999_999), ("new", 2_300_000_000, 0)];
        for (name, seconds, nanoseconds) in times {
            let path = source.file(name, if name == "big" { 9 << 20 } else { 10 });
            let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
            let times = Timestamps {
                last_access: time(seconds, nanoseconds),
                last_modification: time(1_700_000_000, 0),
            };
            utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        }
        let copy = scene.join("dst");
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        for (name, seconds, nanoseconds) in times {
            let meta = std::fs::metadata(copy.join(name)).unwrap();
            assert_eq!((meta.atime(), meta.atime_nsec()), (seconds, nanoseconds), "{way:?}: {name}");
        }
    }
}

fn arrives(way: Way, more: &[&str]) {
    let scene = Scene::new();
    let source = TestTree::hard(scene.join("src"), 1);
    let copy = scene.join("dst");
    let run = scene.copy(way, source.path(), &copy).args(more).finish().expect_success();
    assert_same_tree(source.path(), &copy);
    let summary = summary(&run);
    summary.assert_accounted();
    assert_eq!((summary.of("failed"), summary.of("same")), (0, 0));
    scene.assert_all_gone();
    // Once more: all is there.
    let again =
        crate::scene::summary(&scene.copy(way, source.path(), &copy).args(more).finish().expect_success());
    assert_eq!(again.of("found"), again.of("same"), "{again:?}");
    assert_same_tree(source.path(), &copy);
}

fn a_hard_tree_arrives_whole_on_this_machine() {
    arrives(Way::Local, &[]);
}

fn a_hard_tree_arrives_whole_when_pushed() {
    arrives(Way::Push, &[]);
}

fn a_hard_tree_arrives_whole_when_pulled() {
    arrives(Way::Pull, &[]);
}

fn a_hard_tree_arrives_whole_between_two_remote_ends() {
    arrives(Way::Relay, &[]);
}

fn a_hard_tree_arrives_whole_with_content_read_back_from_the_disk() {
    arrives(Way::Push, &["--verify", "disk"]);
}

//! Modes that deny access to their owner, and modes that a run must not change.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use haul_testkit::{Need, assert_same_tree};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("setpriv");
        a_read_only_directory_above_the_root_stays_as_it_is,
        directories_of_the_tree_are_opened_up_and_set_right,
        a_read_only_file_is_changed_in_place_by_its_owner,
        a_file_in_place_of_a_directory_gets_nothing_of_it,
    ]
}

const NOBODY: u32 = 65534;

fn give(path: &Path) {
    assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(path).status().unwrap().success());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn a_read_only_directory_above_the_root_stays_as_it_is() {
    let scene = Scene::new();
    let (source, ro) = (scene.tree("src"), scene.tree("ro"));
    source.file("f", 1000);
    source.file("tree/f", 1000);
    for tree in [&source, &ro] {
        give(tree.path());
    }
    set_mode(ro.path(), 0o555);
    for (from, to) in [("f", "f"), ("tree", "tree"), ("f", "")] {
        let run = scene.as_nobody().arg("copy").arg(source.join(from)).arg(ro.join(to)).finish();
        assert!(run.code() == Some(1) && run.said().contains("Permission denied"), "{run}");
        assert_eq!(mode(ro.path()), 0o555, "{run}");
    }
}

fn directories_of_the_tree_are_opened_up_and_set_right() {
    for locked in [0o300, 0o100, 0o500, 0] {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        for tree in [&source, &copy] {
            tree.file("a/old", 10);
            tree.file("a/b/old", 10);
        }
        source.file("a/b/new", 1000);
        copy.file("a/b/extra", 1);
        for directory in ["a/b", "a"] {
            set_mode(&source.join(directory), 0o555);
            set_mode(&copy.join(directory), locked);
        }
        for tree in [&source, &copy] {
            give(tree.path());
        }
        let run =
            scene.as_nobody().args(["sync", "--json"]).arg(slash(source.path())).arg(slash(copy.path()));
        let _ = run.finish().expect_success();
        assert_same_tree(source.path(), copy.path());
    }
}

fn a_read_only_file_is_changed_in_place_by_its_owner() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("big", 9 << 20);
    fs::write(copy.join("big"), vec![1; 9 << 20]).unwrap();
    // The clock of a file system ticks some hundred times a second: both could have the same time.
    let old = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(copy.join("big")).unwrap().set_modified(old).unwrap();
    for tree in [&source, &copy] {
        give(tree.path());
        set_mode(&tree.join("big"), 0o400);
    }
    let before = fs::metadata(copy.join("big")).unwrap().ino();
    let run = scene.as_nobody().args(["copy", "--inplace"]).arg(slash(source.path())).arg(slash(copy.path()));
    let _ = run.finish().expect_success();
    assert_eq!(fs::metadata(copy.join("big")).unwrap().ino(), before);
    assert_same_tree(source.path(), copy.path());
}

/// While the run goes on, the directory is swapped for another one of the same name, as who owns the destination can
/// do.
fn a_file_in_place_of_a_directory_gets_nothing_of_it() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let (source, copy, decoys) = (scene.tree("src"), scene.tree("dst"), scene.tree("decoys"));
        source.many("directory", 1500, 1..3000);
        set_mode(&source.join("directory"), 0o777);
        std::os::unix::fs::chown(source.join("directory"), Some(NOBODY), Some(NOBODY)).unwrap();
        decoys.dir("secret");
        set_mode(&decoys.join("secret"), 0o700);
        let stop = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Once: the directory that the run made is moved away, and another one gets its name.
                while !stop.load(Ordering::Relaxed) {
                    let made = copy.join("directory");
                    if fs::read_dir(&made).is_ok_and(|found| found.count() > 10) {
                        renameat_with(CWD, &made, CWD, decoys.join("secret"), RenameFlags::EXCHANGE).unwrap();
                        break;
                    }
                }
            });
            // Slow, so that the other thread gets its turn on a busy machine too.
            let run = scene.copy(way, source.path(), copy.path()).args(["--iops", "12000"]).finish();
            stop.store(true, Ordering::Relaxed);
            run
        });
        assert_eq!(run.code(), Some(1), "{way:?}: {run}");
        assert!(run.said().contains("put in its place"), "{way:?}: {run}");
        let there = fs::metadata(copy.join("directory")).unwrap();
        assert_eq!((there.mode() & 0o7777, there.uid()), (0o700, 0), "{way:?}: {run}");
    }
}

//! A source that changes while it is read: no file holds a mix of old and new data under its final name.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_testkit::tree::allocated;
use haul_testkit::{FaultPlan, TestTree};

use crate::scene::{Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_file_that_never_stops_changing_is_reported_and_not_committed_as_a_mix,
        a_file_that_grows_is_a_consistent_copy_or_reported,
        a_file_that_changed_once_is_copied_again,
        a_file_that_vanishes_is_reported_and_harms_nothing_else,
    ]
}

const BOTH: [Way; 2] = [Way::Push, Way::Pull];

fn slow(scene: &Scene) -> FaultPlan {
    FaultPlan::new(scene.join("plan")).slow(15_000_000)
}

fn a_file_that_never_stops_changing_is_reported_and_not_committed_as_a_mix() {
    for way in BOTH {
        let scene = Scene::new();
        // In memory: a busy disk would hold the writer up for longer than the copy takes.
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let source = TestTree::mixed(memory.path().join("src"), 13, &[], 50);
        // More than haul reads ahead, so that it reads as long as it sends.
        let len = 64 << 20;
        source.text("busy", vec![0; len]);
        let copy = scene.join("dst");
        let stop = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each round writes its number all over the file, block by block.
                let file = OpenOptions::new().write(true).open(source.join("busy")).unwrap();
                for round in (1..=255u8).cycle() {
                    for block in 0..len / (1 << 20) {
                        file.write_all_at(&vec![round; 1 << 20], (block as u64) << 20).unwrap();
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            });
            let plan = FaultPlan::new(scene.join("plan")).slow(40_000_000);
            let options = ["--streams", "2", "--compress", "none", "--max-memory", "32MiB"];
            let run = scene.fault_copy(way, &plan, source.path(), &copy).args(options).finish();
            stop.store(true, Ordering::Relaxed);
            run
        });
        let run = run.expect_code(1);
        assert!(run.said().contains("busy"), "it is named: {run}");
        summary(&run).assert_accounted();
        if let Ok(bytes) = fs::read(copy.join("busy")) {
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{way:?}: a mix was committed");
        }
        let others = fs::read_dir(copy.join("small/0000")).unwrap().count();
        assert_eq!(others, 50, "{way:?}: the others are there");
    }
}

fn a_file_that_grows_is_a_consistent_copy_or_reported() {
    for way in BOTH {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 14, &[12 << 20], 20);
        source.text("log", "line 0000000\n");
        let copy = scene.join("dst");
        let stop = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = OpenOptions::new().append(true).open(source.join("log")).unwrap();
                for number in 1.. {
                    writeln!(log, "line {number:07}").unwrap();
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let plan = slow(&scene);
            let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "2"]).finish();
            stop.store(true, Ordering::Relaxed);
            run
        });
        match run.code() {
            Some(0) => {
                let (whole, part) =
                    (fs::read(source.join("log")).unwrap(), fs::read(copy.join("log")).unwrap());
                assert!(whole.starts_with(&part), "{way:?}: what is there is how it once was");
            }
            Some(1) => assert!(run.said().contains("log"), "{run}"),
            _ => panic!("{way:?}: {run}"),
        }
        assert!(copy.join("big/0.ibd").exists(), "{way:?}: the others are there");
    }
}

fn a_file_that_changed_once_is_copied_again() {
    for way in BOTH {
        let scene = Scene::new();
        let source = scene.tree("src");
        // Longer than the part that may have been read ahead when its first byte arrives.
        source.file("file", 120 << 20);
        let copy = scene.join("dst");
        let run = scene.fault_copy(way, &slow(&scene), source.path(), &copy);
        let mut run = run.args(["--streams", "2", "--max-memory", "32MiB"]).start();
        run.wait_until("some of it has arrived", || allocated(&copy) > 16 << 20);
        let file = OpenOptions::new().write(true).open(source.join("file")).unwrap();
        file.write_all_at(b"changed", 1000).unwrap();
        file.write_all_at(b"changed", 119 << 20).unwrap();
        let run = run.finish().expect_success();
        summary(&run).assert_accounted();
        haul_testkit::assert_same_tree(source.path(), &copy);
    }
}

fn a_file_that_vanishes_is_reported_and_harms_nothing_else() {
    for way in BOTH {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 15, &[20 << 20], 3000);
        let copy = scene.join("dst");
        let plan = FaultPlan::new(scene.join("plan")).slow(8_000_000);
        let mut run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "1"]).start();
        run.wait_until("it has begun", || allocated(&copy) > 0);
        fs::remove_file(source.join("big/0.ibd")).unwrap();
        fs::remove_dir_all(source.join("small/0029")).unwrap();
        let run = run.finish();
        assert!(matches!(run.code(), Some(0 | 1)), "{way:?}: {run}");
        haul_testkit::process::wait_until("agents are gone", Duration::from_secs(20), || {
            haul_testkit::process::agents(scene.tag()).is_empty()
        });
        assert!(copy.join("small/0010").is_dir(), "{way:?}: the others are there");
        let again =
            scene.by(way, "sync", crate::scene::slash(source.path()), crate::scene::slash(&copy)).finish();
        let _ = again.expect_success();
        haul_testkit::assert_same_tree(source.path(), &copy);
    }
}

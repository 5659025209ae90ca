//! `--iops`: each side stays below the limit of file-system operations.

use std::fs;
use std::path::Path;

use haul_slowfs::{MountOptions, Op, SlowMount};
use haul_testkit::process::wait_until;
use haul_testkit::{Need, assert_same_tree};
use rustix::process::Signal;
use std::time::Duration;

use crate::scene::{RunCounts, Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Fuse;
        an_end_is_asked_no_more_often_than_it_may_be,
        an_interrupted_run_waits_for_no_operation,
    ]
}

/// A directory of the scene, seen through a file system that counts, and remembers nothing.
fn mount(scene: &Scene, behind: &Path) -> SlowMount {
    fs::create_dir_all(behind).unwrap();
    let at = scene.join("mnt");
    fs::create_dir_all(&at).unwrap();
    SlowMount::new(behind, &at, MountOptions { xattrs: false, ..MountOptions::default() }).unwrap()
}

const RATE: u64 = 400;

/// Fails if more operations per second were made than were allowed. `least` are requests that each come of one
/// operation; there are others, of which an operation takes at least one.
#[track_caller]
fn assert_rate(what: &str, summary: &RunCounts, slow: &SlowMount, least: &[Op]) {
    let counts = slow.counts();
    let least: u64 = least.iter().map(|op| counts.of(*op)).sum();
    let uncounted = [Op::Flush, Op::Release, Op::Releasedir].map(|op| counts.of(op)).iter().sum::<u64>();
    let most = counts.total() - uncounted;
    let seconds = summary.0["seconds"].as_f64().unwrap();
    let [least, most] = [least, most].map(|count| count as f64 / seconds / RATE as f64);
    eprintln!("iops: {what}: {:.1} to {:.1} % of the limit in {seconds:.2} s", least * 100.0, most * 100.0);
    assert!(least <= 1.05, "{what}: {summary:?} {}", counts.json());
}

fn an_end_is_asked_no_more_often_than_it_may_be() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.many("many", 120, 10..3000);
        let iops = format!("--iops={RATE}");
        if way == Way::Pull {
            let slow = mount(&scene, source.path());
            let run = scene.copy(way, slow.path(), &scene.join("dst")).arg(iops).finish().expect_success();
            assert_rate("source", &summary(&run), &slow, &[Op::Open, Op::Read]);
            assert_same_tree(source.path(), &scene.join("dst"));
        } else {
            let behind = scene.join("behind");
            let slow = mount(&scene, &behind);
            let run = scene.copy(way, source.path(), &slow.join("dst")).arg(iops).finish().expect_success();
            let least = [Op::Create, Op::Write, Op::Setattr, Op::Mkdir];
            assert_rate(&format!("destination, {way:?}"), &summary(&run), &slow, &least);
            assert_same_tree(source.path(), &behind.join("dst"));
        }
    }
}

fn an_interrupted_run_waits_for_no_operation() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 300, 10..3000);
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, source.path(), &copy).arg("--iops=30").start();
    wait_until("it has begun", Duration::from_secs(30), || copy.exists());
    run.signal(Signal::INT);
    // It says so itself: a run that had to be ended by force says nothing more.
    let run = run.finish().expect_code(130);
    assert!(summary(&run).of("copied") < 300);
    let _ = scene.copy(Way::Local, source.path(), &copy).finish().expect_success();
    assert_same_tree(source.path(), &copy);
}

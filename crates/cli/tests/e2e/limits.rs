//! Limits: a rate is kept, from beginning to end and when it is changed.

use haul_testkit::{Run, Tree, assert_same_tree};

use crate::scene::{Scene, Summary, Way, summary};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_rate_is_kept_over_links_and_on_this_machine,
        a_low_rate_with_many_streams_is_no_dead_connection,
        a_rate_that_makes_no_sense_is_exit_2,
    ]
}

const MIB: u64 = 1 << 20;

/// Fails unless so many bytes per second went through as were allowed. The first connection and the end of the run
/// are in its seconds, and take away some.
#[track_caller]
fn assert_rate(what: &str, summary: &Summary, limit: u64) {
    let seconds = summary.0["seconds"].as_f64().unwrap();
    let share = summary.of("sent_bytes") as f64 / seconds / limit as f64;
    eprintln!("limits: {what}: {:.1} % of the limit in {seconds:.2} s", share * 100.0);
    assert!((0.85..=1.05).contains(&share), "{what}: {share:.3} of the limit, {summary:?}");
}

/// Data that no layer makes smaller.
fn random(scene: &Scene, bytes: u64) -> Tree {
    Tree::mixed(scene.join("src"), 77, &[bytes], 0)
}

fn a_rate_is_kept_over_links_and_on_this_machine() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = random(&scene, 60 * MIB);
        let copy = scene.join("dst");
        let run = scene.copy(way, source.path(), &copy).arg("--bwlimit=10M");
        let summary = summary(&run.finish().expect_success());
        assert_rate(&format!("{way:?}"), &summary, 10 * MIB);
        assert_same_tree(source.path(), &copy);
        scene.assert_all_gone();
    }
}

fn a_low_rate_with_many_streams_is_no_dead_connection() {
    for way in [Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.many("many", 40, 30_000..30_001);
        let copy = scene.join("dst");
        let run = scene.copy(way, source.path(), &copy);
        let run = run.args(["--bwlimit", "00:00,100K", "--streams", "8", "--timeout", "2"]);
        let summary = summary(&run.finish().expect_success());
        assert_rate(&format!("{way:?} at 100 KiB/s"), &summary, 100 * 1024);
        assert_eq!(summary.of("resent"), 0, "{summary:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_rate_that_makes_no_sense_is_exit_2() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for text in ["fast", "10Mb", "-5", "8:00", "25:00,1M", "08:00,1M 8:00,2M", "08:00,10M 12M"] {
        let run: Run = scene.copy(Way::Local, source.path(), &scene.join("dst"));
        let run = run.arg(format!("--bwlimit={text}")).finish().expect_code(2);
        assert!(run.err().contains(text.split(' ').next().unwrap()), "it names what it complains of: {run}");
        assert!(!scene.join("dst").exists());
    }
}

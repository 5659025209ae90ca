//! Memory stays below its limit for any tree.

use std::time::Duration;

use haul_testkit::{Finished, TestTree};

use crate::scene::{Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![many_files_and_a_large_one_stay_within_the_memory_that_was_declared, a_small_budget_is_kept_to,]
}

const MIB: u64 = 1 << 20;
/// The memory that a process may take beyond its budget for content.
const BESIDES: u64 = 64 * MIB;

fn assert_within(run: &Finished, budget: u64, what: &str) {
    eprintln!("memory: {what}: local {} MiB, remote {} MiB", run.local_peak / MIB, run.remote_peak / MIB);
    assert!(run.local_peak > 0 && run.remote_peak > 0, "both are measured");
    assert!(run.local_peak <= budget + BESIDES, "{what}: local {} MiB", run.local_peak / MIB);
    assert!(run.remote_peak <= budget + BESIDES, "{what}: remote {} MiB", run.remote_peak / MIB);
}

fn many_files_and_a_large_one_stay_within_the_memory_that_was_declared() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 30, &[1 << 30], 0);
    source.many("many", 100_000, 0..300);
    let limit = Duration::from_secs(600);
    for (way, copy) in [(Way::Push, scene.join("pushed")), (Way::Pull, scene.join("pulled"))] {
        let run = scene.copy(way, source.path(), &copy).limit(limit).watch_memory().finish().expect_success();
        summary(&run).assert_accounted();
        assert_within(&run, 256 * MIB, &format!("{way:?}"));
        let run = scene.copy(way, source.path(), &copy).limit(limit).watch_memory().finish().expect_success();
        assert_eq!(summary(&run).of("sent_bytes"), 0);
        assert_within(&run, 256 * MIB, &format!("{way:?} with nothing to do"));
        std::fs::remove_dir_all(&copy).unwrap();
    }
    let plan = scene.haul("plan").args(["--parts", "4", "--target-kind", "ntfs", "--lists"]);
    let run = plan.arg(scene.join("part")).arg(source.path()).watch_memory().finish().expect_success();
    assert!(run.local_peak > 0 && run.local_peak <= BESIDES, "plan: {} MiB", run.local_peak / MIB);
}

fn a_small_budget_is_kept_to() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 31, &[200 << 20, 60 << 20], 8000);
    for (way, copy) in [(Way::Push, scene.join("pushed")), (Way::Pull, scene.join("pulled"))] {
        let run = scene.copy(way, source.path(), &copy).args(["--max-memory", "48MiB", "--streams", "8"]);
        let run = run.watch_memory().finish().expect_success();
        summary(&run).assert_accounted();
        assert_within(&run, 48 * MIB, &format!("{way:?} with 48 MiB"));
        haul_testkit::assert_same_tree(source.path(), &copy);
    }
}

//! Signals other than those of Ctrl-C and kill: a lost terminal, a status request, a stopped process, closed outputs.

use std::process::Command;
use std::thread;
use std::time::Duration;

use haul_testkit::tree::allocated;
use haul_testkit::{FaultPlan, Running, TestTree, assert_no_half_files, assert_same_tree};
use rustix::process::Signal;

use crate::scene::{HAUL, Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_lost_terminal_ends_the_run_in_order,
        a_lost_terminal_ends_a_local_run_in_order,
        under_nohup_a_lost_terminal_changes_nothing,
        a_run_says_where_it_stands_when_it_is_asked,
        a_stopped_run_goes_on_when_it_is_continued,
        closed_outputs_do_not_lose_the_run,
    ]
}

/// A copy that takes some seconds, of which something has arrived.
fn slow(scene: &Scene, source: &TestTree, more: &[&str]) -> Running {
    let copy = scene.join("dst");
    let plan = FaultPlan::new(scene.join("plan")).slow(6_000_000);
    let run = scene.fault_copy(Way::Push, &plan, source.path(), &copy);
    let mut run = run.args(["--streams", "2"]).args(more).start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 4 << 20);
    run
}

fn a_lost_terminal_ends_the_run_in_order() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[60 << 20], 100);
    let run = slow(&scene, &source, &[]);
    let below = haul_testkit::process::descendants(run.pid());
    run.signal(Signal::HUP);
    // The shell tells every process of the job.
    below.into_iter().for_each(|pid| haul_testkit::process::signal(pid, Signal::HUP));
    let run = run.finish().expect_code(130);
    assert_eq!(summary(&run).0["interrupted"], true, "{run}");
    assert_no_half_files(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
    let again = summary(&scene.copy(Way::Push, source.path(), &scene.join("dst")).finish().expect_success());
    assert!(again.of("resumed_bytes") + again.of("same_bytes") > 0, "{again:?}");
    assert_same_tree(source.path(), &scene.join("dst"));
}

fn a_lost_terminal_ends_a_local_run_in_order() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[60 << 20], 100);
    let copy = scene.join("dst");
    let mut run = scene.copy(Way::Local, source.path(), &copy).args(["--bwlimit", "8M"]).start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 8 << 20);
    run.signal(Signal::HUP);
    let run = run.finish().expect_code(130);
    assert_eq!(summary(&run).0["interrupted"], true, "{run}");
    assert_no_half_files(source.path(), &copy);
    let again = summary(&scene.copy(Way::Local, source.path(), &copy).finish().expect_success());
    assert!(again.of("resumed_bytes") + again.of("same_bytes") > 0, "{again:?}");
    assert_same_tree(source.path(), &copy);
}

fn under_nohup_a_lost_terminal_changes_nothing() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[20 << 20], 10);
    let copy = scene.join("dst");
    let line = "trap '' HUP; exec \"$@\"";
    let run = haul_testkit::CommandRun::new("sh", scene.tag()).args([
        "-c",
        line,
        "sh",
        HAUL,
        "copy",
        "--bwlimit",
        "8M",
    ]);
    let mut run = run.env("HOME", scene.home()).arg(slash(source.path())).arg(slash(&copy)).start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 0);
    run.signal(Signal::HUP);
    let _ = run.finish().expect_success();
    assert_same_tree(source.path(), &copy);
}

fn a_run_says_where_it_stands_when_it_is_asked() {
    for far in [false, true] {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 6, &[30 << 20], 10);
        let copy = scene.join("dst");
        let run = if far { scene.haul_ssh("copy") } else { scene.haul("copy") };
        let target = if far { scene.remote(slash(&copy)) } else { slash(&copy) };
        let mut run = run.args(["-q", "--bwlimit", "8M"]).arg(slash(source.path())).arg(target).start();
        run.wait_until("some of it has arrived", || allocated(&copy) > 12 << 20);
        run.signal(Signal::USR1);
        let run = run.finish().expect_success();
        let err = run.err();
        let lines: Vec<&str> = err.lines().filter(|line| line.contains(" of ")).collect();
        let [line] = lines[..] else { panic!("it is one line: {run}") };
        assert!(line.contains(" left") && line.contains("limit: --bwlimit"), "{run}");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_stopped_run_goes_on_when_it_is_continued() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[40 << 20], 50);
    let run = slow(&scene, &source, &["--timeout", "2"]);
    let below = haul_testkit::process::descendants(run.pid());
    let all = || below.iter().copied().chain([run.pid()]);
    // Ctrl-Z stops every process of the job. An orphaned one would not be stopped by the same signal.
    all().for_each(|pid| haul_testkit::process::signal(pid, Signal::STOP));
    thread::sleep(Duration::from_secs(3));
    all().for_each(|pid| haul_testkit::process::signal(pid, Signal::CONT));
    let _ = run.finish().expect_success();
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn closed_outputs_do_not_lose_the_run() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[6 << 20], 100);
    // A list of entries that cannot be written makes the run incomplete, unless its reader has left.
    let outputs = [
        ("2>&1 | true", "0"),
        (">&- 2>&-", "1"),
        (">/dev/full 2>&-", "1"),
        ("2>/dev/full >/dev/null", "0"),
        ("2>&1 | head -c 1 >/dev/null", "0"),
    ];
    for (number, (outputs, expected)) in outputs.into_iter().enumerate() {
        let copy = scene.join(format!("dst-{number}"));
        let code = scene.join(format!("code-{number}"));
        let line = format!("(\"$@\"; echo $? >{}) {outputs}", code.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, "sh", HAUL, "copy", "-v", "--progress"]).env("HOME", scene.home());
        assert!(shell.arg(slash(source.path())).arg(slash(&copy)).status().is_ok());
        assert_eq!(std::fs::read_to_string(&code).unwrap_or_default().trim(), expected, "{outputs}");
        assert_same_tree(source.path(), &copy);
    }
}

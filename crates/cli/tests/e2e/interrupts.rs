//! Ctrl-C: blocks in flight are completed, and the next run resumes.

use std::time::{Duration, Instant};

use haul_testkit::process::signal;
use haul_testkit::terminal::Terminal;
use haul_testkit::tree::allocated;
use haul_testkit::{
    ByteDirection, FaultPlan, LinkFault, TestTree, Which, assert_no_half_files, assert_same_tree,
};
use rustix::process::Signal;

use crate::scene::{HAUL, Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        an_interrupt_ends_the_run_in_order_and_the_next_one_goes_on,
        a_termination_is_an_interrupt_too,
        a_second_interrupt_ends_the_run_at_once,
        a_run_stops_at_the_time_that_was_set_and_the_next_one_goes_on,
        no_progress_is_left_on_the_terminal_after_an_interrupt,
    ]
}

/// Draining may take five seconds; a machine that is busy with other tests gets some more.
const DRAINED: Duration = Duration::from_secs(15);

fn interrupted_in_order(way: Way, which: Signal) {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[60 << 20], 1500);
    let copy = scene.join("dst");
    let plan = FaultPlan::new(scene.join("plan")).slow(6_000_000);
    let mut run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "2"]).start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 8 << 20);
    let begun = Instant::now();
    run.signal(which);
    let run = run.finish().expect_code(130);
    assert!(begun.elapsed() < DRAINED, "it took {:?}", begun.elapsed());
    assert_eq!(summary(&run).0["interrupted"], true, "{run}");
    assert_no_half_files(source.path(), &copy);
    scene.assert_all_gone();
    let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
    assert!(again.of("resumed_bytes") + again.of("same_bytes") > 0, "{again:?}");
    assert_same_tree(source.path(), &copy);
}

fn an_interrupt_ends_the_run_in_order_and_the_next_one_goes_on() {
    interrupted_in_order(Way::Push, Signal::INT);
    interrupted_in_order(Way::Pull, Signal::INT);
}

fn a_termination_is_an_interrupt_too() {
    interrupted_in_order(Way::Push, Signal::TERM);
}

fn a_run_stops_at_the_time_that_was_set_and_the_next_one_goes_on() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 6, &[30 << 20], 50);
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, source.path(), &copy).args(["--bwlimit", "4M", "--max-duration", "2s"]);
    let run = run.finish().expect_code(130);
    assert!(run.said().contains("the time of --max-duration has come"), "{run}");
    assert_eq!(summary(&run).0["interrupted"], true, "{run}");
    assert_no_half_files(source.path(), &copy);
    let at = |text: &str| scene.copy(Way::Local, source.path(), &copy).args(["--stop-at", text]).finish();
    assert!(at("2020-01-01T00:00").expect_code(2).said().contains("is in the past"));
    let again = summary(&at("2999-01-01T00:00").expect_success());
    assert!(again.of("resumed_bytes") + again.of("same_bytes") > 0, "{again:?}");
    assert_same_tree(source.path(), &copy);
}

fn a_second_interrupt_ends_the_run_at_once() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 7, &[40 << 20], 100);
    let copy = scene.join("dst");
    // Nothing can be drained: no byte moves any more.
    let plan =
        FaultPlan::new(scene.join("plan")).with(Which::All, ByteDirection::Up, LinkFault::Stall(3_000_000));
    let run = scene.fault_copy(Way::Push, &plan, source.path(), &copy);
    let mut run = run.args(["--streams", "2", "--timeout", "600"]).start();
    run.wait_until("it stalls", || allocated(&copy) > 0 || plan.connections() >= 2);
    run.signal(Signal::INT);
    let pid = run.pid();
    // Two signals of a kind that come together are one to the kernel.
    let mut told = false;
    while !told {
        assert!(run.is_running(), "it waits for what is in flight, which is stalled");
        told = run.stdout().contains("press Ctrl-C again");
    }
    signal(pid, Signal::INT);
    let begun = Instant::now();
    let _ = run.finish().expect_code(130);
    assert!(begun.elapsed() < Duration::from_secs(4), "it took {:?}", begun.elapsed());
    scene.assert_all_gone();
}

fn no_progress_is_left_on_the_terminal_after_an_interrupt() {
    for times in [1, 2] {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 6, &[30 << 20], 50);
        let (from, to) = (source.path().display(), scene.join("dst"));
        let line = format!("exec {HAUL} copy --bwlimit 2M {from}/ {}/", to.display());
        let mut terminal = Terminal::run(&line, scene.tag());
        terminal.wait_for_any("MiB");
        // The terminal echoes ^C.
        (0..times).for_each(|_| terminal.type_bytes(b"\x03"));
        let (code, screen) = terminal.finish();
        let left =
            screen.lines().any(|line| line.contains(" of ") && line.contains('…') || line.contains('['));
        assert_eq!((code, left), (Some(130), false), "{times}: {screen}");
        assert!(screen.contains("press Ctrl-C again"), "{times}: {screen}");
    }
}

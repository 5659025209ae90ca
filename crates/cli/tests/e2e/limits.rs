//! Rate limits: they are kept throughout a run, and when they change.

use std::time::Duration;

use haul_testkit::process::{kill, wait_until};
use haul_testkit::tree::allocated;
use haul_testkit::{CommandRun, TestTree, assert_no_half_files, assert_same_tree};
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{RunCounts, Scene, Way, events, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_rate_is_kept_over_links_and_on_this_machine,
        a_limit_is_named_from_the_start_and_tells_the_time_left,
        the_time_left_includes_entries_that_the_scan_has_not_found,
        a_low_rate_with_many_streams_is_no_dead_connection,
        a_rate_that_makes_no_sense_is_exit_2,
        a_limit_is_changed_while_it_runs,
        an_interrupted_run_keeps_to_its_limit_and_goes_on,
        a_job_is_listed_and_tells_how_it_ended,
        a_killed_run_is_listed_as_interrupted,
        records_that_cannot_be_kept_fail_nothing,
        a_nice_run_has_the_lowest_priority_at_both_ends,
    ]
}

const MIB: u64 = 1 << 20;

/// Fails if more bytes per second went through than were allowed, or less than half. The first connection and the end
/// of the run are in its seconds, and take away some, on a busy machine more.
#[track_caller]
pub(crate) fn assert_rate(what: &str, summary: &RunCounts, limit: u64) {
    assert_share(what, summary, limit, 0.50);
}

/// The same, with another least share of the limit.
#[track_caller]
pub(crate) fn assert_share(what: &str, summary: &RunCounts, limit: u64, least: f64) {
    let seconds = summary.0["seconds"].as_f64().unwrap();
    let share = summary.of("sent_bytes") as f64 / seconds / limit as f64;
    eprintln!("limits: {what}: {:.1} % of the limit in {seconds:.2} s", share * 100.0);
    assert!((least..=1.05).contains(&share), "{what}: {share:.3} of the limit, {summary:?}");
}

/// Data that no layer makes smaller.
fn random(scene: &Scene, bytes: u64) -> TestTree {
    TestTree::mixed(scene.join("src"), 77, &[bytes], 0)
}

fn a_rate_is_kept_over_links_and_on_this_machine() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = random(&scene, 80 * MIB);
        let copy = scene.join("dst");
        let run = scene.copy(way, source.path(), &copy).arg("--bwlimit=10M");
        let run = run.finish().expect_success();
        assert_rate(&format!("{way:?}"), &summary(&run), 10 * MIB);
        let told = events(&run).iter().any(|line| line["limit"] == "rate");
        assert!(told, "it says what holds it back: {run}");
        assert_same_tree(source.path(), &copy);
        scene.assert_all_gone();
    }
}

fn a_limit_is_named_from_the_start_and_tells_the_time_left() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = random(&scene, 6 * MIB);
        let run = scene.copy(way, source.path(), &scene.join("dst")).arg("--bwlimit=1M");
        let run = run.finish().expect_success();
        let early = events(&run).into_iter().find(|line| {
            line["type"] == "progress" && line["limit"] == "rate" && line["totals"]["sent_bytes"] == 0
        });
        let early = early.unwrap_or_else(|| panic!("{way:?}: it is named before the first slice: {run}"));
        assert!(early["eta_seconds"].as_f64().is_some_and(|left| left > 0.0), "{way:?}: {early}");
        assert_eq!(early["phase"], "copy");
        assert!(early["in_flight"]["path"].is_string(), "{way:?}: {early}");

        let files = scene.tree("files");
        files.many("many", 2000, 10..20);
        let run = scene.copy(way, files.path(), &scene.join("slow")).arg("--iops=2000");
        let run = run.finish().expect_success();
        let named = events(&run).iter().any(|line| line["limit"] == "iops");
        assert!(named, "{way:?}: {run}");
    }
}

fn the_time_left_includes_entries_that_the_scan_has_not_found() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.many("many", 12_000, 10..20);
        let run = scene.copy(way, source.path(), &scene.join("dst")).arg("--iops=2000").start();
        let is = |line: &Value, name: &str| line[name] == true;
        let extrapolates = |line: &Value| line["type"] == "progress" && is(line, "eta_is_extrapolated");
        let tells = |line: &Value| {
            let left = line["eta_seconds"].as_f64().unwrap_or_default();
            extrapolates(line) && left > 0.0 && !is(line, "eta_is_lower_bound")
        };
        wait_until("the time left is told", Duration::from_secs(60), || {
            run.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).any(|line| tells(&line))
        });
        run.signal(Signal::INT);
        let run = run.finish().expect_code(130);
        let wrong = events(&run).into_iter().find(|line| extrapolates(line) && is(line, "scan_done"));
        assert_eq!(wrong, None, "{way:?}: {run}");
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
        let run: CommandRun = scene.copy(Way::Local, source.path(), &scene.join("dst"));
        let run = run.arg(format!("--bwlimit={text}")).finish().expect_code(2);
        assert!(run.err().contains(text.split(' ').next().unwrap()), "it names what it complains of: {run}");
        assert!(!scene.join("dst").exists());
    }
}

fn jobs(scene: &Scene) -> Vec<Value> {
    events(&scene.haul("jobs").arg("--json").finish().expect_success())
}

fn sockets(scene: &Scene) -> usize {
    let names = std::fs::read_dir(scene.home().join("state/haul/jobs")).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "sock")).count()
}

fn a_limit_is_changed_while_it_runs() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = random(&scene, 80 * MIB);
        let copy = scene.join("dst");
        let run = scene.copy(way, source.path(), &copy).arg("--bwlimit=1M").limit(Duration::from_secs(60));
        let mut run = run.start();
        run.wait_until("some of it has arrived", || allocated(&copy) > 0);
        let id = jobs(&scene)[0]["id"].to_string();
        let limited =
            scene.haul("jobs").args(["limit", &id, "00:00,20M", "12:00,20M"]).finish().expect_success();
        assert_eq!(limited.out(), format!("job {id} is now limited to 00:00,20M 12:00,20M\n"));
        let refused = scene.haul("jobs").args(["limit", &id, "10Mb"]).finish().expect_code(2);
        assert!(refused.err().contains("bits or bytes"), "{refused}");
        let run = run.finish().expect_success();
        // At the first limit it would have taken 80 seconds.
        let progress = events(&run);
        let rates: Vec<f64> = progress.iter().filter_map(|line| line["rate"].as_f64()).collect();
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        assert!(fastest > 5.0 * MIB as f64 && fastest < 22.0 * MIB as f64, "{way:?}: {rates:?}");
        assert_same_tree(source.path(), &copy);
        assert_eq!(sockets(&scene), 0);
    }
}

fn an_interrupted_run_keeps_to_its_limit_and_goes_on() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = random(&scene, 40 * MIB);
        let copy = scene.join("dst");
        let mut run = scene.copy(way, source.path(), &copy).arg("--bwlimit=1M").start();
        run.wait_until("some of it has arrived", || allocated(&copy) > 0);
        run.signal(Signal::INT);
        let _ = run.finish().expect_code(130);
        assert_no_half_files(source.path(), &copy);
        scene.assert_all_gone();
        assert_eq!(jobs(&scene)[0]["state"], "interrupted");
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        assert!(again.of("sent_bytes") > 16 * MIB, "{way:?}: what was not under way was not sent: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_job_is_listed_and_tells_how_it_ended() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 5, &[5 * MIB], 20);
    let run = scene.copy(Way::Local, source.path(), &scene.join("dst")).finish().expect_success();
    let first = summary(&run);
    assert_eq!(first.0["job"], 1, "{first:?}");
    let dry = scene.copy(Way::Local, source.path(), &scene.join("dst")).arg("-n").finish().expect_success();
    assert_eq!(summary(&dry).0["job"], Value::Null, "nothing was done that could be told of");
    let missing = scene.copy(Way::Local, &scene.join("no'where"), &scene.join("dst")).finish().expect_code(1);
    assert_eq!(summary(&missing).0["job"], 2, "{missing}");

    let listed = jobs(&scene);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let told = |name: &str| listed.iter().map(|job| job[name].clone()).collect::<Vec<_>>();
    assert_eq!(told("type"), ["job", "job"]);
    assert_eq!(told("state"), ["finished", "failed"]);
    assert_eq!(told("exit_code"), [0, 1]);
    assert_eq!(listed[0]["totals"], first.0["totals"]);
    assert_eq!(listed[0]["summary"], first.0);

    let list = scene.haul("jobs").finish().expect_success();
    let lines: Vec<String> = list.out().lines().map(str::to_owned).collect();
    assert!(
        lines.len() == 3 && lines[1].contains(" finished ") && lines[2].contains(" failed (1) "),
        "{list}"
    );
    assert!(lines[2].contains(r"no'\''where"), "the command can be typed again: {list}");
    let shown = scene.haul("jobs").args(["show", "1"]).finish().expect_success();
    assert!(shown.out().contains("exit code: 0") && shown.out().contains("copied 21 files"), "{shown}");
    let shown = scene.haul("jobs").args(["show", "1", "--json"]).finish().expect_success();
    assert_eq!(events(&shown), [listed[0].clone()]);

    let ended = scene.haul("jobs").args(["limit", "1", "5M"]).finish().expect_code(1);
    assert!(ended.err().contains("is not running"), "{ended}");
    let unknown = scene.haul("jobs").args(["show", "77"]).finish().expect_code(1);
    assert!(unknown.err().contains("77") && unknown.err().contains("haul jobs"), "{unknown}");

    let told = scene.copy(Way::Local, source.path(), &scene.join("dst")).finish().expect_success();
    assert_eq!(summary(&told).0["job"], 3);
}

fn a_killed_run_is_listed_as_interrupted() {
    let scene = Scene::new();
    let source = random(&scene, 40 * MIB);
    let copy = scene.join("dst");
    let mut run = scene.copy(Way::Local, source.path(), &copy).arg("--bwlimit=2M").start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 0);
    assert_eq!(jobs(&scene)[0]["state"], "running");
    assert_eq!(sockets(&scene), 1);
    kill(run.pid());
    assert!(run.finish().was_killed());
    let listed = jobs(&scene);
    assert_eq!((&listed[0]["state"], &listed[0]["exit_code"]), (&"interrupted".into(), &Value::Null));
    assert_eq!(sockets(&scene), 0, "nobody listens there any more");
    let shown = scene.haul("jobs").args(["show", "1"]).finish().expect_success();
    assert!(shown.out().contains("run the same command again"), "{shown}");
}

fn records_that_cannot_be_kept_fail_nothing() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 5, &[], 3);
    // Not even root can make anything there.
    let nowhere = |run: CommandRun| run.env("XDG_STATE_HOME", "/proc/nowhere");
    let run = nowhere(scene.copy(Way::Local, source.path(), &scene.join("a"))).finish().expect_success();
    assert!(!run.out().contains("haul jobs") && summary(&run).0["job"].is_null(), "{run}");
    let run = nowhere(scene.copy(Way::Local, source.path(), &scene.join("b"))).arg("-v");
    let run = run.finish().expect_success();
    assert_eq!(run.out().matches("haul jobs").count(), 1, "it is told once: {run}");
    assert_same_tree(source.path(), &scene.join("b"));
    let none = nowhere(scene.haul("jobs")).finish().expect_code(1);
    assert!(none.err().contains("records of jobs"), "{none}");
}

/// The priorities of all threads of a process: field 19 of their `stat`, see proc(5).
fn priorities(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nice = |stat: &str| stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok();
    tasks.filter_map(|task| nice(&std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?)).collect()
}

fn a_nice_run_has_the_lowest_priority_at_both_ends() {
    let scene = Scene::new();
    let source = random(&scene, 30 * MIB);
    let copy = scene.join("dst");
    let mut run = scene.copy(Way::Push, source.path(), &copy).args(["--nice", "--bwlimit=8M"]).start();
    run.wait_until("some of it has arrived", || allocated(&copy) > 0);
    let local = priorities(run.pid());
    assert!(local.len() > 3 && local.iter().all(|nice| *nice == 19), "{local:?}");
    let agents = run.agents();
    // The first of them serves all connections.
    assert!(agents.iter().any(|pid| priorities(*pid).iter().all(|nice| *nice == 19)), "{agents:?}");
    let run = run.finish().expect_success();
    summary(&run).assert_accounted();
    assert_same_tree(source.path(), &copy);
    scene.assert_all_gone();
}

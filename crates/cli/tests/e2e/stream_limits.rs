//! Rate limits of streams, and of stores.

use std::fs;
use std::time::Duration;

use haul_testkit::process::wait_until;
use haul_testkit::{CommandRun, Finished, LongLink, Need, TestTree, assert_same_tree, content};
use rustix::process::Signal;

use crate::file_streams::{EVERYWHERE, StreamPlace, file, names, plan};
use crate::limits::{assert_rate, assert_share};
use crate::scene::{HAUL, Scene, events, fault_shell, slash, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

const MIB: u64 = 1 << 20;
/// A run that waits for its limit in vain takes longer than this at 100 KiB/s.
const HANGS: Duration = Duration::from_secs(40);

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_rate_is_kept_with_files,
        a_rate_is_kept_by_an_unpack,
        a_failed_command_ends_a_slow_put_at_once,
        an_interrupt_ends_a_slow_stream_at_once,
        a_reader_that_has_enough_ends_a_slow_get_at_once,
    ];
    all.extend(cases![
        Need::Program("weed");
        a_rate_is_kept_by_streams_of_a_store,
        a_rate_is_kept_by_trees_in_a_store,
        a_rate_is_reached_over_a_long_link_to_a_store,
        a_low_rate_is_no_dead_connection_to_a_store,
        a_slow_stream_of_a_store_ends_at_once,
    ]);
    all
}

/// Fails unless the progress names the limit.
#[track_caller]
fn assert_named(run: &Finished) {
    assert!(events(run).iter().any(|line| line["limit"] == "rate"), "{run}");
}

fn a_rate_is_kept_with_files() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 40 * MIB);
        let to = at.of(&scene.join("copy"));
        let limited = |word| at.haul(&scene, word).args(["--json", "--bwlimit", "8M"]);
        let put =
            limited("put").arg(&to).args(["--", "cat"]).arg(scene.join("src")).finish().expect_success();
        assert_rate(&format!("put {at:?}"), &summary(&put), 8 * MIB);
        let get = limited("get").arg(&to).arg(scene.join("back")).finish().expect_success();
        assert_rate(&format!("get {at:?}"), &summary(&get), 8 * MIB);
        assert!(fs::read(scene.join("back")).unwrap() == bytes, "{at:?}");
    }
}

fn a_rate_is_kept_by_an_unpack() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 79, &[20 * MIB], 300);
    let tar = scene.join("tar");
    let mut make = std::process::Command::new("tar");
    haul_testkit::needs::tool(make.arg("-cf").arg(&tar).arg("-C").arg(source.path()).arg("."));
    let run =
        scene.haul("get").args(["--json", "--bwlimit", "8M", "--unpack"]).arg(scene.join("dst")).arg(&tar);
    let run = run.finish().expect_success();
    let took = summary(&run).0["seconds"].as_f64().unwrap();
    let rate = fs::metadata(&tar).unwrap().len() as f64 / took;
    assert!(rate < 1.1 * (8 * MIB) as f64, "{rate} bytes per second: {run}");
    let input = scene.haul("get").args(["--bwlimit", "8M", "--unpack"]).arg(scene.join("dir")).arg("-");
    let refused = input.input("x").finish().expect_code(2);
    assert!(refused.err().contains("--bwlimit") && refused.err().contains("pv"), "{refused}");
}

fn a_failed_command_ends_a_slow_put_at_once() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let dir = scene.join("dst");
        fs::create_dir(&dir).unwrap();
        let run = at.haul(&scene, "put").args(["--bwlimit", "100K"]).arg(at.of(&dir.join("copy"))).arg("--");
        let run = run.arg("head -c 14000000 /dev/urandom; exit 3").limit(HANGS).finish().expect_code(1);
        assert!(run.err().contains("exited with code 3"), "{at:?}: {run}");
        assert_eq!(names(&dir), [""; 0], "{at:?}");
        scene.assert_all_gone();
    }
}

fn an_interrupt_ends_a_slow_stream_at_once() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let dir = scene.join("dst");
        fs::create_dir(&dir).unwrap();
        let slow = |word| at.haul(&scene, word).args(["--json", "--bwlimit", "100K"]).limit(HANGS);
        let put = slow("put").arg(at.of(&dir.join("copy"))).args(["--", "cat", "/dev/urandom"]);
        assert_interrupted(put);
        assert_eq!(names(&dir), [""; 0], "{at:?}");
        file(&scene, "src", 40 * MIB);
        assert_interrupted(slow("get").arg(at.of(&scene.join("src"))).arg(dir.join("back")));
        assert!(!dir.join("back").exists(), "{at:?}");
        scene.assert_all_gone();
    }
}

/// Interrupts a run while it waits for its limit: it ends by itself, with a summary.
#[track_caller]
fn assert_interrupted(run: CommandRun) {
    let run = run.start();
    wait_until("the limit holds it back", HANGS, || run.stdout().contains("\"limit\":\"rate\""));
    run.signal(Signal::INT);
    let run = run.finish().expect_code(130);
    assert_eq!(summary(&run).0["interrupted"], true, "{run}");
}

fn a_reader_that_has_enough_ends_a_slow_get_at_once() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 40 * MIB);
        let shell = if at == StreamPlace::Local { String::new() } else { fault_shell(&plan(&scene)) };
        let line = "set -o pipefail; if [ -n \"$2\" ]; then set -- \"$1\" \"$2\" \"$3\" -e \"$2\" --remote-haul \"$1\"; \
            else set -- \"$1\" \"\" \"$3\"; fi; h=$1 from=$3; shift 3; \
            \"$h\" get --quiet --bwlimit 1M \"$@\" \"$from\" | head -c 100";
        let run = CommandRun::new("bash", scene.tag()).env("HOME", scene.home()).args(["-c", line, "bash"]);
        let run = run.arg(HAUL).arg(shell).arg(at.of(&scene.join("src"))).limit(HANGS).finish();
        assert_eq!(run.err(), "", "{at:?}: {run}");
        assert!(run.stdout == bytes[..100], "{at:?}");
    }
}

fn a_rate_is_kept_by_streams_of_a_store() {
    let bucket = TestBucket::new();
    content::write_file(&bucket.scene.join("src"), 7, 40 * MIB);
    let limited = |word| bucket.haul(word).args(["--json", "--bwlimit", "8M"]);
    let put = limited("put").arg(bucket.at("a")).args(["--", "cat"]).arg(bucket.scene.join("src"));
    let put = put.finish().expect_success();
    assert_rate("put to a store", &summary(&put), 8 * MIB);
    let get = limited("get").arg(bucket.at("a")).arg(bucket.scene.join("back")).finish().expect_success();
    assert_rate("get from a store", &summary(&get), 8 * MIB);
    for run in [&put, &get] {
        assert_named(run);
    }
    assert!(fs::read(bucket.scene.join("back")).unwrap() == fs::read(bucket.scene.join("src")).unwrap());
}

fn a_rate_is_kept_by_trees_in_a_store() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 78, &[20 * MIB], 500);
    source.many("many", 300, 60_000..90_000);
    let (there, back) = (bucket.at("t/"), bucket.scene.join("back"));
    let limited = || bucket.haul("copy").args(["--json", "--bwlimit", "8M"]);
    let push = limited().arg(slash(source.path())).arg(&there).finish().expect_success();
    assert_rate("to a store", &summary(&push), 8 * MIB);
    let pull = limited().arg(&there).arg(&back).finish().expect_success();
    assert_rate("from a store", &summary(&pull), 8 * MIB);
    for run in [&push, &pull] {
        assert_named(run);
        assert_eq!(requests(&summary(run).0, "retried"), 0, "{run}");
    }
    assert_same_tree(source.path(), &back);
}

/// Each request takes long: two at a time would reach a seventh of the limit.
fn a_rate_is_reached_over_a_long_link_to_a_store() {
    let bucket = TestBucket::new();
    let link = LongLink::new(haul_testkit::store::endpoint(), Duration::from_millis(75), 1 << 20);
    let endpoint = format!("http://127.0.0.1:{}", link.port());
    let source = bucket.scene.tree("src");
    source.many("many", 400, 100_000..100_001);
    let (there, back) = (bucket.at("t/"), bucket.scene.join("back"));
    let limited = || {
        let run = bucket.haul("copy").args(["--json", "--bwlimit", "8M", "--endpoint", &endpoint]);
        run.limit(Duration::from_secs(120))
    };
    let push = limited().arg(slash(source.path())).arg(&there).finish().expect_success();
    assert_share("to a store over a long link", &summary(&push), 8 * MIB, 0.3);
    let pull = limited().arg(&there).arg(&back).finish().expect_success();
    assert_share("from a store over a long link", &summary(&pull), 8 * MIB, 0.3);
}

fn a_low_rate_is_no_dead_connection_to_a_store() {
    let bucket = TestBucket::new();
    content::write_file(&bucket.scene.join("src"), 7, 600_000);
    let limited = |word| bucket.haul(word).args(["--json", "--bwlimit", "100K", "--timeout", "4"]);
    let put = limited("put").arg(bucket.at("a")).args(["--", "cat"]).arg(bucket.scene.join("src"));
    let put = put.finish().expect_success();
    assert_rate("put at 100 KiB/s", &summary(&put), 100 << 10);
    let get = limited("get").arg(bucket.at("a")).arg(bucket.scene.join("back")).finish().expect_success();
    assert_rate("get at 100 KiB/s", &summary(&get), 100 << 10);
    for run in [put, get] {
        assert_eq!(requests(&summary(&run).0, "retried"), 0, "no request fails: {run}");
    }
}

fn a_slow_stream_of_a_store_ends_at_once() {
    let bucket = TestBucket::new();
    let slow = |word| bucket.haul(word).args(["--json", "--bwlimit", "100K"]).limit(HANGS);
    let fails = slow("put").arg(bucket.at("x")).args(["--", "head -c 30000000 /dev/urandom; exit 3"]);
    assert!(fails.finish().expect_code(1).err().contains("exited with code 3"));
    assert_interrupted(slow("put").arg(bucket.at("x")).args(["--", "cat", "/dev/urandom"]));
    assert!(bucket.incomplete().is_empty() && bucket.names().is_empty());
    content::write_file(&bucket.scene.join("src"), 7, 40 * MIB);
    let put = bucket.haul("put").arg(bucket.at("x")).args(["--", "cat"]).arg(bucket.scene.join("src"));
    let _ = put.finish().expect_success();
    assert_interrupted(slow("get").arg(bucket.at("x")).arg(bucket.scene.join("back")));
    let line = format!(
        "set -o pipefail; '{HAUL}' get --quiet --bwlimit 1M '{}' | head -c 100 > '{}'",
        bucket.at("x"),
        bucket.scene.join("head").display()
    );
    let run = bucket.program("bash").args(["-c", &line]).limit(HANGS).finish();
    assert_eq!(run.err(), "", "{run}");
}

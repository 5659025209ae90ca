//! `haul probe`: measurements, and checks for common problems.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use haul_testkit::{CommandRun, FileSystem, Finished, Need, TestMount, TestTree, assert_same_tree};
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{HAUL, Scene, WAYS, Way, events, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_copy_is_measured_whichever_way_it_goes,
        the_command_that_it_names_makes_the_copy,
        people_get_a_table,
        an_interrupted_probe_leaves_nothing,
        ends_that_cannot_be_probed_are_reported,
        the_doctor_looks_at_ends_and_links,
        a_low_limit_on_open_files_is_found_at_either_end,
        an_end_that_cannot_be_reached_is_a_finding_and_exit_4,
        a_low_soft_limit_on_open_files_is_raised,
    ];
    all.extend(cases![Need::Tmpfs; too_little_space_is_found, a_nearly_full_disk_is_not_written]);
    all
}

fn source(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 40, &[9 << 20, 5 << 20], 300)
}

fn probe(scene: &Scene, way: Way, source: &TestTree, to: &Path) -> CommandRun {
    scene.by(way, "probe", slash(source.path()), slash(to))
}

/// Everything in a directory, at any depth.
fn names(dir: &Path) -> BTreeSet<PathBuf> {
    haul_testkit::tree::list(dir).into_iter().collect()
}

/// The one line of a type.
#[track_caller]
fn line(run: &Finished, kind: &str) -> Value {
    let mut found = events(run).into_iter().filter(|line| line["type"] == kind);
    let one = found.next().unwrap_or_else(|| panic!("no line of type {kind}: {run}"));
    assert!(found.next().is_none(), "one line of type {kind}: {run}");
    one
}

/// The level of a finding of the doctor at an end. Each problem must have a fix.
#[track_caller]
fn level(run: &Finished, end: &str, what: &str) -> String {
    let about = |line: &Value| line["type"] == "finding" && line["end"] == end && line["what"] == what;
    let finding = events(run).into_iter().find(about);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {what} at {end}: {run}"));
    let level = finding["level"].as_str().unwrap().to_owned();
    assert_eq!(level == "ok", finding.get("fix").is_none(), "{finding}");
    level
}

fn a_copy_is_measured_whichever_way_it_goes() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        let to = scene.tree("to");
        let before = names(source.path());
        let run = probe(&scene, way, &source, &to.join("new/dst")).finish().expect_success();
        let found = line(&run, "probe");
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {found}"));
        let links: Vec<&str> =
            found["links"].as_array().unwrap().iter().map(|l| l["direction"].as_str().unwrap()).collect();
        let expected: &[&str] = match way {
            Way::Local => &[],
            Way::Push => &["to"],
            Way::Pull => &["from"],
            Way::Relay => &["from", "to"],
        };
        assert_eq!(links, expected, "{way:?}");
        for link in found["links"].as_array().unwrap() {
            for figure in ["round_trip_seconds", "one_stream", "all_streams", "streams"] {
                assert!(number(&link[figure]) > 0.0, "{figure} in {link}");
            }
        }
        for end in ["source", "destination"] {
            for figure in ["bytes_per_second", "files_per_second"] {
                assert!(number(&found[end][figure]) > 0.0, "{figure} in {found}");
            }
            for figure in ["cores", "hash", "aes"] {
                assert!(number(&found[end]["cpu"][figure]) > 0.0, "{figure} in {found}");
            }
        }
        let methods: Vec<&str> = found["source"]["cpu"]["compress"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["method"].as_str().unwrap())
            .collect();
        assert_eq!(methods, ["lz4", "zstd:-3", "zstd:1", "zstd:3"]);
        assert_eq!(found["tree"]["files"], 302);
        assert_eq!(found["tree"]["small_files"], 300);
        assert_eq!(found["tree"]["complete"], true);
        let [low, high] = ["low_seconds", "high_seconds"].map(|name| number(&found["estimate"][name]));
        assert!(0.0 < low && low <= high, "{found}");
        assert!(found["estimate"]["limit"].is_string());
        let summary = line(&run, "summary");
        assert_eq!((&summary["command"], &summary["exit_code"]), (&"probe".into(), &0.into()));
        assert_eq!(names(source.path()), before);
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0, "{way:?}: nothing is left");
        scene.assert_all_gone();
    }
}

fn the_command_that_it_names_makes_the_copy() {
    let scene = Scene::new();
    let source = source(&scene);
    let to = scene.join("a place/it's");
    let run = probe(&scene, Way::Push, &source, &to).args(["--quick", "60", "--exclude", "no such"]).finish();
    let run = run.expect_success();
    let found = line(&run, "probe");
    let command = found["run"].as_str().unwrap();
    let rest = command.strip_prefix("haul copy ").unwrap_or_else(|| panic!("{command}"));
    let copied = CommandRun::new("bash", scene.tag()).args(["-c", &format!("{HAUL} copy {rest}")]);
    let _ = copied.env("HOME", scene.home()).finish().expect_success();
    assert_same_tree(source.path(), &to);
}

fn people_get_a_table() {
    let scene = Scene::new();
    let source = source(&scene);
    let (from, to) = (slash(source.path()), scene.remote(scene.join("dst")));
    let run = scene.haul_ssh("probe").arg(from).arg(to).finish().expect_success();
    for words in [
        "sufficient for",
        "one stream",
        "\nlimit: ",
        "\nhaul would use: ",
        "\nthe tree: ",
        "\nrun: haul copy ",
    ] {
        assert!(run.out().contains(words), "{words:?} in {run}");
    }
}

fn an_interrupted_probe_leaves_nothing() {
    let scene = Scene::new();
    let source = source(&scene);
    let to = scene.tree("to");
    let mut running = probe(&scene, Way::Push, &source, to.path()).start();
    let note = "measuring both ends";
    while !running.stdout().contains(note) {
        running.wait_until("it begins", || true);
    }
    running.signal(Signal::INT);
    let _ = running.finish().expect_code(130);
    scene.assert_all_gone();
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
}

fn ends_that_cannot_be_probed_are_reported() {
    let scene = Scene::new();
    let to = scene.join("dst");
    let missing = scene.by(Way::Local, "probe", scene.join("none"), &to).finish().expect_code(1);
    assert!(missing.err().contains("No such file"), "{missing}");
    let _ = scene.haul("probe").arg(scene.home()).finish().expect_code(2);
    let nowhere =
        scene.haul("probe").args(["--remote-haul", "/nonexistent/haul", "-e", &scene.sshd().shell()]);
    let _ = nowhere.arg(scene.home()).arg(scene.remote(&to)).finish().expect_code(4);
    assert!(!to.exists());
}

fn the_doctor_looks_at_ends_and_links() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        let run = probe(&scene, way, &source, &scene.join("dst")).arg("--doctor").finish();
        let bad = events(&run).iter().any(|line| line["level"] == "bad");
        let run = run.expect_code(i32::from(bad));
        for end in ["source", "destination"] {
            for what in ["open files", "AES", "file system"] {
                level(&run, end, what);
            }
        }
        assert_eq!(level(&run, "destination", "permission"), "ok");
        assert_eq!(level(&run, "destination", "free space"), "ok");
        let link = format!("link to {}", scene.sshd().host());
        let links = events(&run).iter().filter(|line| line["end"] == link.as_str()).count();
        assert_eq!(links > 0, way != Way::Local, "{run}");
        if way != Way::Local {
            assert_eq!(level(&run, &link, "packet size"), "ok");
            assert_eq!(level(&run, &link, "clocks"), "ok");
            assert_eq!(level(&run, &link, "MTU"), "ok");
        }
        assert!(!scene.join("dst").exists());
        let one = scene.remote(source.path());
        let run = scene.haul_ssh("probe").args(["--doctor", "--json"]).arg(one).finish();
        assert!(run.code() == Some(0) || bad, "{run}");
        assert_eq!(level(&run, &link, "packet size"), "ok");
        scene.assert_all_gone();
    }
}

fn a_low_limit_on_open_files_is_found_at_either_end() {
    let scene = Scene::new();
    let source = source(&scene);
    let script = format!("ulimit -n 300; exec {HAUL} probe --doctor --json \"$@\"");
    let here = CommandRun::new("sh", scene.tag())
        .args(["-c", &script, "sh"])
        .arg(source.path())
        .arg(scene.join("dst"));
    let run = here.finish().expect_code(1);
    assert_eq!(level(&run, "source", "open files"), "bad");
    let remote = scene.haul("probe").args(["-e", &scene.sshd().shell(), "--doctor", "--json"]);
    let remote = remote.args(["--remote-haul", &format!("ulimit -n 300; {HAUL}")]);
    let run = remote.arg(source.path()).arg(scene.remote(scene.join("dst"))).finish().expect_code(1);
    assert_eq!(level(&run, "destination", "open files"), "bad");
    let people = scene.haul("probe").args(["-e", &scene.sshd().shell(), "--doctor"]);
    let people = people.args(["--remote-haul", &format!("ulimit -n 300; {HAUL}")]);
    let run = people.arg(scene.remote(scene.join("dst"))).finish().expect_code(1);
    assert!(run.out().contains("fix: raise it: `ulimit -n"), "{run}");
}

fn an_end_that_cannot_be_reached_is_a_finding_and_exit_4() {
    let scene = Scene::new();
    let source = source(&scene);
    let run = scene.haul("probe").args(["--doctor", "--json", "--remote-haul", "/nonexistent/haul"]);
    let run = run.args(["-e", &scene.sshd().shell()]).arg(source.path()).arg(scene.remote(scene.join("dst")));
    let run = run.finish().expect_code(4);
    assert_eq!(level(&run, "haul", "connection"), "bad");
    level(&run, "source", "open files");
}

fn too_little_space_is_found() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = source(&scene);
        let disk = TestMount::new(FileSystem::Tmpfs, 10 << 20);
        let to = disk.join("dst");
        let doctor = || probe(&scene, way, &source, &to).arg("--doctor").finish();
        let run = doctor().expect_code(1);
        assert_eq!(level(&run, "destination", "free space"), "bad");
        assert_eq!(level(&run, "destination", "file system"), "warn");
        // Files that are there already need no more space.
        disk.resize_tmpfs(20 << 20);
        let _ = scene.copy(way, source.path(), &to).finish().expect_success();
        let run = doctor();
        assert_eq!(level(&run, "destination", "free space"), "ok", "{way:?}");
    }
}

fn a_nearly_full_disk_is_not_written() {
    let scene = Scene::new();
    let source = source(&scene);
    let disk = TestMount::new(FileSystem::Tmpfs, 20 << 20);
    std::fs::write(disk.join("ballast"), vec![1; 19 << 20]).unwrap();
    let run = probe(&scene, Way::Push, &source, &disk.join("dst")).finish().expect_success();
    let found = line(&run, "probe");
    assert!(found["destination"]["skipped"].as_str().unwrap().contains("tenth"), "{found}");
    assert!(found["destination"]["bytes_per_second"].is_null(), "{found}");
    let stages = found["estimate"]["stages"].as_array().unwrap();
    assert!(stages.iter().all(|stage| stage["stage"] != "destination_disk"), "{found}");
}

fn a_low_soft_limit_on_open_files_is_raised() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 41, &[], 4000);
    let to = scene.join("dst");
    let script = format!("ulimit -Sn 128; exec {HAUL} copy \"$@\"");
    let run = CommandRun::new("sh", scene.tag())
        .args(["-c", &script, "sh"])
        .arg(slash(source.path()))
        .arg(slash(&to));
    let _ = run.finish().expect_success();
    assert_same_tree(source.path(), &to);
}

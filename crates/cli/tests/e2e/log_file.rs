//! The log of a run: one line for each event, appended to a file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_testkit::tree::set_time;
use haul_testkit::{CommandRun, Finished, Need};

use crate::scene::{Scene, Way, slash, summary};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        the_log_has_each_change_and_the_end,
        runs_append_to_the_log,
        a_log_that_cannot_be_opened_is_refused_before_anything_is_done,
        a_log_that_cannot_be_written_is_no_success,
        failures_and_notes_are_logged_also_if_the_run_is_quiet,
        secrets_are_not_logged,
        a_run_that_cannot_start_says_so_in_the_log,
        verify_logs_differences,
    ];
    all.extend(cases![
        Need::Program("weed");
        streams_are_logged,
    ]);
    all
}

/// The events of a log, without their times and process numbers, which have the right form.
fn events(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'));
    let event = |line: &str| {
        let (head, event) = line.split_once("] ").unwrap_or_else(|| panic!("{line:?}"));
        let (time, process) = head.split_once(" [").unwrap();
        // 2026-01-02T03:04:05.678Z
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert!(shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z'), "{line:?}");
        assert!(process.parse::<u32>().is_ok(), "{line:?}");
        event.to_owned()
    };
    text.lines().map(event).collect()
}

fn logged(run: CommandRun, log: &Path) -> Finished {
    run.arg("--log-file").arg(log).finish()
}

fn the_log_has_each_change_and_the_end() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let (scene, log) = (Scene::new(), "log");
        let (source, copy) = (scene.tree("src"), scene.tree("copy"));
        for name in ["new", "of\x1b[2Jname\nin two lines", "size"] {
            source.text(name, "content");
        }
        copy.text("size", "other content");
        copy.text("gone", "content");
        for tree in [&source, &copy] {
            set_time(&tree.join("size"), 1_600_000_000, 0);
        }
        let log = scene.join(log);
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).arg("--force-delete");
        let run = logged(run, &log).expect_success();
        assert!(!run.out().contains("itemize") && summary(&run).of("removed") == 1);
        let events = events(&log);
        let sent = if way == Way::Push { '<' } else { '>' };
        for line in [
            format!("{sent}f+++++++++ new"),
            format!("{sent}f+++++++++ of\\x1b[2Jname\\x0ain two lines"),
            format!("{sent}f.s....... size"),
            "*deleting   gone".to_owned(),
            "summary:   removed: 1 entry".to_owned(),
        ] {
            assert_eq!(events.iter().filter(|event| **event == line).count(), 1, "{line} {events:#?}");
        }
        assert!(events[0].starts_with(&format!("start: haul {}: ", env!("CARGO_PKG_VERSION"))), "{events:?}");
        assert!(events[0].contains(" sync ") && events[0].contains(" --force-delete "), "{events:?}");
        assert_eq!(events.last().unwrap(), "end: exit code 0");
    }
}

fn runs_append_to_the_log() {
    let scene = Scene::new();
    let (source, log) = (scene.tree("src"), scene.join("log"));
    source.text("a", "content");
    for dry_run in [true, false, false] {
        let run = scene.copy(Way::Local, source.path(), &scene.join("copy"));
        drop(logged(if dry_run { run.arg("-n") } else { run }, &log).expect_success());
    }
    let events = events(&log);
    let count = |start: &str| events.iter().filter(|event| event.starts_with(start)).count();
    assert_eq!((count("start: "), count("end: exit code 0")), (3, 3), "{events:#?}");
    assert_eq!(count(">f+++++++++ a"), 2, "planned and done: {events:#?}");
    assert_eq!(count("summary: up to date"), 1, "{events:#?}");
}

fn a_log_that_cannot_be_opened_is_refused_before_anything_is_done() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a", "content");
    for log in [scene.join("missing/log"), source.path().to_owned(), "/dev/full".into()] {
        let run = scene.haul("copy").arg(slash(source.path())).arg(scene.join("copy"));
        let run = logged(run, &log).expect_code(2);
        assert!(run.err().starts_with("haul: failed to write the log"), "{run}");
        assert!(!scene.join("copy").exists());
    }
}

fn a_log_that_cannot_be_written_is_no_success() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.join("copy"));
    for number in 0..300 {
        source.text(format!("file-{number}"), "content");
    }
    // The log may have 4 KiB, the files are shorter.
    let run = CommandRun::new("sh", scene.tag()).args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]);
    let run = run.arg(crate::scene::HAUL).env("HOME", scene.home()).arg("copy");
    let run = run.arg(slash(source.path())).arg(&copy);
    let run = logged(run, &scene.join("log")).expect_code(1);
    let told = run.err().matches("failed to write the log of --log-file").count();
    assert_eq!(told, 1, "{run}");
    haul_testkit::assert_same_tree(source.path(), &copy);
}

fn failures_and_notes_are_logged_also_if_the_run_is_quiet() {
    let scene = Scene::new();
    let (source, log) = (scene.tree("src"), scene.join("log"));
    source.text("a", "content");
    source.text("full/b", "content");
    let copy = scene.tree("copy");
    copy.text("a/in the way", "content");
    let run = scene.haul("copy").arg("-q").args(["--streams", "2"]);
    let run = run.arg(slash(source.path())).arg(slash(copy.path()));
    let run = logged(run, &log).expect_code(1);
    let events = events(&log);
    assert!(events.iter().any(|event| event.starts_with("failed: a: failed to ")), "{run} {events:#?}");
    assert!(events.iter().any(|event| event.starts_with("note: --streams ")), "{events:#?}");
    assert!(events.iter().any(|event| event.starts_with("summary: copied 1 file")), "{events:#?}");
    assert_eq!(events.last().unwrap(), "end: exit code 1");
}

fn secrets_are_not_logged() {
    let scene = Scene::new();
    let (source, log) = (scene.tree("src"), scene.join("log"));
    source.text("a", "content");
    let run = scene.haul("copy").args(["-ae", "sshpass -p hunter2 ssh", "--rsh=sshpass -p hunter2 ssh"]);
    drop(logged(run.arg(slash(source.path())).arg(scene.join("copy")), &log).expect_success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(
        !text.contains("hunter2") && text.contains("-ae (hidden) '--rsh=(hidden)'")
            || text.contains("-ae (hidden) --rsh=(hidden)"),
        "{text}"
    );
}

fn a_run_that_cannot_start_says_so_in_the_log() {
    let scene = Scene::new();
    let log = scene.join("log");
    let run = scene.haul("copy").arg(scene.join("missing")).arg(scene.join("copy"));
    let run = logged(run, &log).expect_code(1);
    let events = events(&log);
    assert!(events.iter().any(|event| event.contains("missing")), "{events:#?}");
    assert_eq!(events.last().unwrap(), "end: exit code 1", "{run}");
}

fn verify_logs_differences() {
    let scene = Scene::new();
    let (source, copy, log) = (scene.tree("src"), scene.tree("copy"), scene.join("log"));
    for name in ["same", "other", "missing"] {
        source.text(name, name);
    }
    copy.text("same", "same");
    copy.text("other", "OTHER");
    fs::set_permissions(copy.path(), fs::metadata(source.path()).unwrap().permissions()).unwrap();
    assert!(copy.path().metadata().unwrap().permissions().mode() > 0);
    let run = scene.haul("verify").arg(slash(source.path())).arg(slash(copy.path()));
    let run = logged(run, &log).expect_code(3);
    let events = events(&log);
    assert!(events.contains(&"missing  missing".to_owned()), "{run} {events:#?}");
    assert!(events.iter().any(|event| event.starts_with("differs  other: ")), "{events:#?}");
    assert_eq!(events.last().unwrap(), "end: exit code 3");
}

fn streams_are_logged() {
    let bucket = TestBucket::new();
    let log = bucket.scene.join("log");
    let put = bucket.haul("put").arg(bucket.at("object")).input("content");
    drop(logged(put, &log).expect_success());
    let get = bucket.haul("get").arg(bucket.at("object")).arg(bucket.scene.join("file"));
    drop(logged(get, &log).expect_success());
    let events = events(&log);
    let count = |start: &str| events.iter().filter(|event| event.starts_with(start)).count();
    assert_eq!((count("start: "), count("end: exit code 0")), (2, 2), "{events:#?}");
    assert!(count("summary: ") >= 2, "{events:#?}");
}

//! Output as text and JSON.

use std::fs;
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::{on_path, tool};
use haul_testkit::{CommandRun, FaultPlan, TestTree};

use crate::scene::{HAUL, Scene, Way, events, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        every_line_of_json_is_of_a_documented_kind,
        every_entry_is_told_of_once,
        quiet_is_silent,
        a_person_is_told_the_result,
        names_cannot_write_on_the_terminal,
        every_command_has_help,
        completions_and_manual_pages_are_made,
        a_text_that_cannot_be_written_is_an_error,
        a_closed_standard_input_is_no_empty_one,
        an_output_that_nobody_reads_does_not_stop_the_run,
        failures_are_named_in_a_list_that_can_be_used_again,
    ]
}

fn source(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 40, &[9 << 20], 50)
}

fn every_line_of_json_is_of_a_documented_kind() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/JSON.md");
    let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("cannot read {page:?}: {error}"));
    let scene = Scene::new();
    let source = source(&scene);
    let copy = scene.join("dst");
    let plan = FaultPlan::new(scene.join("plan")).slow(8_000_000);
    let first = scene.fault_copy(Way::Push, &plan, source.path(), &copy).arg("-v").finish();
    let mut lines = events(&first.expect_success());
    fs::write(copy.join("big/0.ibd"), "broken").unwrap();
    lines.extend(events(&scene.by(Way::Push, "verify", slash(source.path()), slash(&copy)).finish()));
    lines.extend(events(&scene.by(Way::Push, "copy", scene.join("missing"), &copy).finish()));
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"start"), Some(&"summary")));
    for kind in ["progress", "entry", "difference"] {
        assert!(kinds.contains(&kind), "{kind} is in {kinds:?}");
    }
    for line in &lines {
        for (name, _) in line.as_object().unwrap() {
            assert!(page.contains(&format!("`{name}`")), "{name} of {line} is not in docs/JSON.md");
        }
        let kind = line["type"].as_str().unwrap();
        assert!(page.contains(&format!("`{kind}`")), "{kind} is not in docs/JSON.md");
        for (name, _) in line["totals"].as_object().into_iter().flatten() {
            assert!(page.contains(&format!("`{name}`")), "totals.{name} is not in docs/JSON.md");
        }
    }
}

fn every_entry_is_told_of_once() {
    let scene = Scene::new();
    let source = source(&scene);
    let run = scene.copy(Way::Pull, source.path(), &scene.join("dst")).arg("-v").finish().expect_success();
    let lines = events(&run);
    let told = lines.iter().filter(|line| line["type"] == "entry").count() as u64;
    assert_eq!(told, crate::scene::summary(&run).of("found"), "{run}");
    let start = &lines[0];
    assert_eq!((start["type"].as_str(), start["schema"].as_u64()), (Some("start"), Some(1)), "{start}");
}

fn quiet_is_silent() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        let plain = |word: &str| if way == Way::Local { scene.haul(word) } else { scene.haul_ssh(word) };
        let remote =
            |path: &Path, is_remote: bool| if is_remote { scene.remote(slash(path)) } else { slash(path) };
        for word in ["copy", "sync", "verify", "copy"] {
            let from = remote(source.path(), way == Way::Pull);
            let to = remote(&scene.join("dst"), way == Way::Push);
            let run = plain(word).arg("-q").arg(from).arg(to).finish().expect_success();
            assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{way:?}: {run}");
        }
        let run = scene
            .haul("copy")
            .arg("-q")
            .arg(scene.join("missing"))
            .arg(scene.join("x"))
            .finish()
            .expect_code(1);
        assert!(run.err().contains("missing"), "errors are said all the same: {run}");
    }
}

fn a_person_is_told_the_result() {
    let scene = Scene::new();
    let source = source(&scene);
    let copy = |more: &[&str]| {
        scene
            .haul("copy")
            .args(more)
            .arg(slash(source.path()))
            .arg(scene.join("dst"))
            .finish()
            .expect_success()
    };
    let would = copy(&["-n", "-v"]);
    let said = would.said();
    assert!(said.contains("would copy 51 files") && said.contains("big/0.ibd"), "{would}");
    let did = copy(&["-v"]);
    let said = did.said();
    assert!(said.contains("copied 51 files") && said.contains("big/0.ibd"), "{did}");
    assert!(!said.contains('\r') && !said.contains('\x1b'), "no terminal, no tricks: {did}");
    let again = copy(&[]);
    assert!(again.said().contains("up to date"), "{again}");
}

fn names_cannot_write_on_the_terminal() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("clear\x1b[2Jscreen", 10);
    source.file("two\nlines", 10);
    for more in [&["-v"][..], &["-n", "-v"], &["-v", "--progress"]] {
        let run = scene.haul("copy").args(more).arg(slash(source.path())).arg(scene.join("dst")).finish();
        let run = run.expect_success();
        assert!(!run.said().contains("\x1b[2J"), "{run}");
        assert!(!run.said().contains("two\nlines"), "{run}");
    }
}

fn every_command_has_help() {
    let scene = Scene::new();
    for words in [
        &["--help"][..],
        &["help"],
        &["copy", "--help"],
        &["sync", "-h"],
        &["verify", "--help"],
        &["hash", "--help"],
        &["--version"],
    ] {
        let run = CommandRun::new(HAUL, scene.tag()).args(words).finish().expect_success();
        assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
        assert!(run.out().lines().all(|line| line.chars().count() <= 120), "{run}");
    }
    let help = CommandRun::new(HAUL, scene.tag()).arg("--help").finish().out();
    assert!(!help.contains("agent"), "the remote end is no command for people");
}

fn completions_and_manual_pages_are_made() {
    let scene = Scene::new();
    for (shell, check) in [("bash", &["bash", "-n"][..]), ("zsh", &["zsh", "-n"]), ("fish", &["fish", "-n"])]
    {
        let run = scene.haul("completions").arg(shell).finish().expect_success();
        assert!(run.out().contains("haul") && run.out().contains("remote-haul"), "{shell}: {run}");
        let script = scene.join(shell);
        fs::write(&script, run.stdout).unwrap();
        if on_path(check[0]) {
            tool(Command::new(check[0]).arg(check[1]).arg(&script));
        }
    }
    let dir = scene.join("man");
    fs::create_dir(&dir).unwrap();
    let _ = scene.haul("man").arg(&dir).finish().expect_success();
    let pages: Vec<String> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for page in ["haul.1", "haul-copy.1", "haul-sync.1", "haul-verify.1", "haul-hash.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is in {pages:?}");
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page} is a manual page");
    }
}

fn a_text_that_cannot_be_written_is_an_error() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    // There is a job to list.
    let _ = scene.haul("copy").in_dir(scene.path()).args(["src/", "dst/"]).finish().expect_success();
    for words in [
        "completions bash",
        "help",
        "help units",
        "--help",
        "-h",
        "copy --help",
        "copy -h",
        "--version",
        "config show",
        "jobs",
        "jobs --json",
        "ls src/",
        "hash src/",
        "stat src/",
        "copy -n src/ new/",
    ] {
        cannot_be_written(&scene, words, ">/dev/full", "No space left on device");
        cannot_be_written(&scene, words, ">&-", "it is closed");
    }
    cannot_be_written(&scene, "get src/file", ">&-", "it is closed");
}

fn shell(scene: &Scene, words: &str) -> CommandRun {
    let run = CommandRun::new("sh", scene.tag()).args(["-c", &format!("exec {HAUL} {words}")]);
    run.in_dir(scene.path()).env("XDG_STATE_HOME", scene.home().join("state")).env("HAUL_IOPS", "5")
}

fn cannot_be_written(scene: &Scene, words: &str, output: &str, why: &str) {
    let run = shell(scene, &format!("{words} {output}")).finish().expect_code(1);
    let said = run.err();
    let line = said.trim_end().lines().last().unwrap_or_default();
    assert!(line.starts_with("haul: failed to write ") && line.contains(why), "{words}: {run}");
    assert!(line.contains("standard output"), "{words}: {run}");
    assert!(words.starts_with("copy ") || said.lines().count() == 1, "{words}: {run}");
}

fn a_closed_standard_input_is_no_empty_one() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let copy = scene.tree("dst");
    copy.file("kept", 10);
    for (words, code) in [("put stream", 1), ("sync --delete --files-from - src/ dst/", 2)] {
        let run = shell(&scene, &format!("{words} <&-")).finish().expect_code(code);
        assert!(run.err().contains("failed to read standard input"), "{run}");
        assert!(run.err().contains("it is closed"), "{run}");
    }
    assert!(copy.join("kept").exists() && !scene.join("stream").exists());
    // Output that is not needed may be closed.
    let _ = shell(&scene, "copy src/ new/ >&- <&-").finish().expect_success();
}

fn an_output_that_nobody_reads_does_not_stop_the_run() {
    let scene = Scene::new();
    let source = source(&scene);
    let copy = scene.join("dst");
    let script = r#""$0" copy --json "$1/" "$2/" | true; exit "${PIPESTATUS[0]}""#;
    let run = CommandRun::new("bash", scene.tag()).args(["-c", script, HAUL]).arg(source.path()).arg(&copy);
    let _ = run.finish().expect_success();
    haul_testkit::assert_same_tree(source.path(), &copy);
}

fn failures_are_named_in_a_list_that_can_be_used_again() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("a/good", 10);
    source.file("a/bad", 10);
    source.file("two\nlines", 10);
    // Directories with something in them, where files are to be.
    copy.file("a/bad/in the way", 1);
    copy.file("two\nlines/in the way", 1);
    let list = scene.join("failed");
    let copying = |more: &[&str]| {
        let run = scene.copy(Way::Push, source.path(), copy.path()).arg("-0").args(more);
        run.finish()
    };
    let failed = list.to_str().unwrap();
    let _ = copying(&["--failed", failed]).expect_code(1);
    let text = fs::read(&list).unwrap();
    let mut names: Vec<&[u8]> = text.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    assert_eq!(names, [&b"a/bad"[..], b"two\nlines"]);
    fs::remove_dir_all(copy.join("a/bad")).unwrap();
    fs::remove_dir_all(copy.join("two\nlines")).unwrap();
    let _ = copying(&["--files-from", failed]).expect_success();
    // The directory above is not on the list, and has another time since files were made in it.
    source.time("", 1, 0);
    copy.time("", 1, 0);
    haul_testkit::assert_same_tree(source.path(), copy.path());
}

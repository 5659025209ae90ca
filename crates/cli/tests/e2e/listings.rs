//! `haul ls` and `haul du` of directories and files, on this machine and on hosts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use haul_testkit::tree::list;
use haul_testkit::{CommandRun, Need, TestTree};
use serde_json::Value;

use crate::scene::{HAUL, Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        one_level_is_listed_sorted,
        all_ends_list_their_entries,
        files_and_missing_paths,
        sources_are_listed_as_by_rsync,
        a_listing_of_many_entries_is_complete_and_ends_with_its_reader,
    ];
    all.extend(cases![Need::Root; directories_that_cannot_be_listed_are_named]);
    all
}

fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    tree.file("b", 3000);
    tree.file("a\nx", 10);
    tree.file("sub/deep/c", 200_000);
    symlink("b", tree.join("link")).unwrap();
    tree
}

/// The lines of the entries, by their paths.
fn json(out: &str) -> BTreeMap<Vec<u8>, Value> {
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["type"] == "listed")
        .map(|line| (line["path"].as_str().unwrap().as_bytes().to_vec(), line))
        .collect()
}

fn one_level_is_listed_sorted() {
    let scene = Scene::new();
    let tree = source(&scene);
    let run = scene.haul("ls").arg(tree.path()).finish().expect_success();
    let names: Vec<String> = run.out().lines().map(|line| line[35..].to_owned()).collect();
    assert_eq!(names, ["a\\x0ax", "b", "link -> b", "sub/"], "{run}");
    let run = scene.haul("ls").args(["-r", "--summarize", "--min-size", "1000"]).arg(tree.path());
    let run = run.finish().expect_success();
    assert!(run.out().contains("sub/deep/c") && !run.out().contains("a\\x0ax"), "{run}");
    assert!(run.out().ends_with("total of 2 files\n"), "{run}");
    let du = scene.haul("du").arg(tree.path()).finish().expect_success();
    assert!(du.out().contains("total of 3 files") && du.out().lines().count() == 1, "{du}");
}

fn all_ends_list_their_entries() {
    let scene = Scene::new();
    let tree = source(&scene);
    let sftp = format!("sftp://{}{}", scene.sshd().host(), tree.path().display());
    let shell = scene.sshd().shell();
    let ways = [
        scene.haul("ls").arg(tree.path()),
        scene.haul_ssh("ls").arg(scene.remote(tree.path())),
        scene.haul("ls").args(["-e", &shell]).arg(sftp),
    ];
    for run in ways {
        let run = run.args(["-r", "--json"]).finish().expect_success();
        let found = json(&run.out());
        let expected = list(tree.path());
        assert_eq!(found.len(), expected.len(), "{run}");
        for path in expected {
            let line = &found[path.as_os_str().as_bytes()];
            let about = fs::symlink_metadata(tree.join(&path)).unwrap();
            let len = if about.is_file() { about.len() } else { 0 };
            let kind = if about.is_dir() {
                "dir"
            } else if about.is_file() {
                "file"
            } else {
                "symlink"
            };
            assert_eq!((line["len"].as_u64(), line["kind"].as_str()), (Some(len), Some(kind)), "{line}");
            let modified = line["modified"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            assert_eq!(modified.as_second(), about.mtime(), "{line}");
        }
        assert_eq!(found[&b"link"[..]]["target"], "b");
    }
}

fn sources_are_listed_as_by_rsync() {
    let scene = Scene::new();
    let tree = source(&scene);
    fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o2750)).unwrap();
    fs::set_permissions(tree.join("b"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::remove_file(tree.join("a\nx")).unwrap();
    let filter = ["--exclude", "deep"];
    let (tree_path, b) = (tree.path().as_os_str().to_owned(), tree.join("b").into_os_string());
    // haul has no sizes of directories.
    let lines = |out: String| {
        let of = |line: &str| {
            if line.starts_with('d') { [&line[..10], &line[25..]].concat() } else { line.to_owned() }
        };
        let mut lines: Vec<String> = out.lines().map(of).collect();
        lines.sort_unstable();
        lines
    };
    for (sources, options) in [
        (vec![slash(tree.path())], &[][..]),
        (vec![tree_path.clone()], &[][..]),
        (vec![tree_path.clone()], &filter[..]),
        (vec![b, tree.join("sub").into_os_string()], &[][..]),
    ] {
        let run = |program: CommandRun| {
            program.args(["-a", "--list-only"]).args(options).args(&sources).env("TZ", "Asia/Tokyo")
        };
        let mut theirs = run(CommandRun::new("rsync", scene.tag()));
        let mut ours = run(scene.haul("copy"));
        if sources.len() > 1 {
            theirs = theirs.arg(scene.join("none"));
            ours = ours.arg(scene.join("none"));
        }
        let theirs = lines(theirs.finish().expect_success().out());
        assert!(theirs.len() > 1, "{theirs:?}");
        assert_eq!(lines(ours.finish().expect_success().out()), theirs, "{sources:?}");
    }
    let remote = scene.haul_ssh("sync").arg("--list-only").arg(scene.remote(slash(tree.path()))).finish();
    assert!(remote.expect_success().out().ends_with(" sub/deep/c\n"));
    let run =
        scene.haul("sync").args(["--list-only", "--json"]).arg(slash(tree.path())).arg(scene.join("none"));
    assert_eq!(json(&run.finish().expect_success().out())[&b"b"[..]]["len"], 3000);
    assert!(!scene.join("none").exists());
    let run = scene.haul("copy").arg(tree.path()).finish().expect_code(2);
    assert!(run.err().contains("--list-only lists SRC"), "{run}");
    let run = scene.haul("copy").args(["--list-only", "-R"]).arg(tree.path()).finish().expect_code(2);
    assert!(run.err().contains("omit --relative"), "{run}");
}

fn files_and_missing_paths() {
    let scene = Scene::new();
    let tree = source(&scene);
    let run = scene.haul("ls").arg(tree.join("b")).finish().expect_success();
    assert!(run.out().contains("2.93 KiB") && run.out().ends_with("  b\n"), "{run}");
    let run = scene.haul("ls").arg(tree.join("none")).finish().expect_code(1);
    assert!(run.said().contains("No such file") && run.out().is_empty(), "{run}");
    let run = scene.haul_ssh("ls").arg(scene.remote(tree.join("none"))).finish().expect_code(1);
    assert!(run.said().contains("No such file"), "{run}");
    let run = scene.haul("ls").arg("nohost.invalid:/x").finish().expect_code(4);
    assert!(run.said().contains("nohost.invalid"), "{run}");
    let empty = scene.join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(scene.haul("ls").arg(slash(&empty)).finish().expect_success().out().is_empty());
}

fn directories_that_cannot_be_listed_are_named() {
    let scene = Scene::new();
    let tree = source(&scene);
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o0)).unwrap();
    let run = scene.as_nobody().args(["ls", "-r"]).arg(tree.path()).finish().expect_code(1);
    assert!(run.said().contains("src/sub`") && run.out().contains("  b\n"), "{run}");
    fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn a_listing_of_many_entries_is_complete_and_ends_with_its_reader() {
    let scene = Scene::new();
    let dir = scene.join("many");
    fs::create_dir(&dir).unwrap();
    for n in 0..60_000 {
        fs::write(dir.join(format!("{n:05}-{}", "x".repeat(200))), "").unwrap();
    }
    let run = scene.haul("ls").arg(&dir).watch_memory().finish().expect_success();
    assert_eq!(run.out().lines().count(), 60_000);
    assert!(run.local_peak < 128 << 20, "{} MiB", run.local_peak >> 20);
    let line = format!("{HAUL} ls {} | head -n 1", dir.display());
    let run = CommandRun::new("sh", scene.tag()).args(["-c", &line]).finish().expect_success();
    assert!(run.out().lines().count() == 1 && run.err().is_empty(), "{run}");
}

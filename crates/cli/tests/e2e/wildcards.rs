//! Wildcards in the paths of remote sources and in keys: they match the same paths as in a shell at that end.

use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::store::endpoint;
use haul_testkit::tree::list;
use haul_testkit::{CommandRun, Finished, Need, TestTree, assert_same_tree};
use serde_json::Value;

use crate::scene::{REMOTE, Scene, slash, summary};
use crate::sftp;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("rsync");
        over_ssh_they_match_as_in_a_shell,
        over_sftp_they_match_as_in_a_shell,
        the_files_are_moved,
        several_matches_are_no_source_of_a_sync,
        a_pattern_without_a_match_is_named,
        matches_on_a_host_are_listed_and_analysed,
    ];
    all.extend(cases![
        Need::Program("rsync"), Need::Program("weed"), Need::Program("rclone");
        in_keys_they_match_as_in_a_shell,
        matching_objects_are_removed_as_in_a_shell,
        one_matching_object_is_read,
    ]);
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("s5cmd");
        matching_objects_are_listed,
    ]);
    all
}

const PATTERNS: [&str; 11] = [
    "logs/*.gz",
    "logs/?.gz",
    "logs/[ab].gz",
    "logs/.*.gz",
    "2026-*/data",
    "2026-0[12]/data/",
    "*/data/f*",
    "l*",
    "star*",
    "star\\*",
    "logs/*/",
];

fn tree(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for name in ["logs/a.gz", "logs/b.gz", "logs/cc.gz", "logs/c.txt", "logs/.hidden.gz", "logs/old/d.gz"] {
        tree.text(name, name);
    }
    for name in ["2026-01/data/f1", "2026-02/data/f2", "2026-03/other", "2026-04", "star*", "star-not"] {
        tree.text(name, name);
    }
    // SFTP has times in whole seconds.
    list(tree.path()).iter().for_each(|path| tree.time(path, 1_700_000_000, 0));
    tree
}

/// The copy by rsync of the pattern, which a shell has expanded. `star*` is the name of a file.
fn by_rsync(tree: &TestTree, pattern: &str, to: &Path) -> PathBuf {
    let pattern = if pattern == "star*" { "'star*'" } else { pattern };
    let line = format!("rsync -a {pattern} {}/", to.display());
    let status = Command::new("bash").args(["-c", &line]).current_dir(tree.path()).status().unwrap();
    assert!(status.success(), "{line}");
    to.to_owned()
}

/// Patterns whose matches are also compared and hashed: in one directory, contents of several, in several, a name.
const READ: [&str; 4] = ["logs/?.gz", "2026-0[12]/data/", "*/data/f*", "star*"];

/// Copies each pattern, and compares with rsync. `run` gets the command and the pattern.
fn check(scene: &Scene, run: &dyn Fn(&str, &str) -> CommandRun) {
    let copy = |pattern: &str, to: &Path| run("copy", pattern).arg("--json").arg(slash(to));
    let tree = tree(scene);
    for (at, pattern) in PATTERNS.iter().enumerate() {
        let (expected, found) = (scene.tree(&format!("rsync-{at}")), scene.tree(&format!("haul-{at}")));
        by_rsync(&tree, pattern, expected.path());
        let _ = copy(pattern, found.path()).finish().expect_success();
        for tree in [&expected, &found] {
            tree.time("", 1, 0);
        }
        assert_same_tree(expected.path(), found.path());
        let again = summary(&copy(pattern, found.path()).finish().expect_success());
        assert_eq!(again.of("copied"), 0, "{pattern}");
        if READ.contains(pattern) {
            check_reading(scene, pattern, &found, run);
        }
    }
}

/// Compares the matches with their copies, and hashes both.
fn check_reading(scene: &Scene, pattern: &str, copy: &TestTree, run: &dyn Fn(&str, &str) -> CommandRun) {
    let sorted = |run: CommandRun| {
        let run = run.finish().expect_success();
        let mut lines: Vec<String> = run.out().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(run("hash", pattern)), sorted(scene.haul("hash").arg(slash(copy.path()))), "{pattern}");
    copy.text("other", "is not in the pattern");
    let _ = run("verify", pattern).arg("--content-only").arg(slash(copy.path())).finish().expect_success();
    let file =
        list(copy.path()).into_iter().find(|path| copy.join(path).is_file() && !path.ends_with("other"));
    let file = file.unwrap();
    std::fs::remove_file(copy.join(&file)).unwrap();
    let run = run("verify", pattern).arg("--content-only").arg(slash(copy.path())).finish().expect_code(3);
    assert!(run.out().contains(&file.display().to_string()), "{run}");
}

fn over_ssh_they_match_as_in_a_shell() {
    let scene = Scene::new();
    check(&scene, &|word, pattern| scene.haul_ssh(word).arg(scene.remote(scene.join("src").join(pattern))));
}

fn over_sftp_they_match_as_in_a_shell() {
    let scene = Scene::new();
    check(&scene, &|word, pattern| {
        sftp::haul(&scene, word).arg(format!("sftp://{REMOTE}{}", scene.join("src").join(pattern).display()))
    });
}

fn in_keys_they_match_as_in_a_shell() {
    let (scene, bucket) = (Scene::new(), TestBucket::new());
    let is_there = std::cell::Cell::new(false);
    check(&scene, &|word, pattern| {
        if !is_there.replace(true) {
            let up = bucket.haul("copy").arg(slash(&scene.join("src"))).arg(bucket.at("tree/"));
            let _ = up.finish().expect_success();
        }
        bucket.haul(word).arg(bucket.at(&format!("tree/{pattern}")))
    });
}

fn the_files_are_moved() {
    let scene = Scene::new();
    let (tree, copy) = (tree(&scene), scene.tree("dst"));
    let from = scene.remote(tree.join("logs/*.gz"));
    let _ = scene.haul_ssh("mv").arg(from).arg(slash(copy.path())).finish().expect_success();
    let names = |of: &TestTree, dir: &str| {
        let mut names = list(&of.join(dir));
        names.sort();
        names.into_iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&copy, ""), "a.gz b.gz cc.gz");
    assert_eq!(names(&tree, "logs"), ".hidden.gz c.txt old old/d.gz");
}

/// The line of a run that was refused.
fn refused(run: CommandRun, code: i32) -> Finished {
    let run = run.finish().expect_code(code);
    assert_eq!(run.err().lines().filter(|line| line.starts_with("haul: failed")).count(), 1, "{run}");
    run
}

fn several_matches_are_no_source_of_a_sync() {
    let scene = Scene::new();
    let (tree, copy) = (tree(&scene), scene.tree("dst"));
    copy.text("stays", "here");
    let from = |pattern: &str| scene.remote(tree.join(pattern));
    let run = refused(scene.haul_ssh("sync").arg(from("2026-*/")).arg(slash(copy.path())), 2);
    assert!(run.err().contains("3 entries match"), "{run}");
    assert!(copy.join("stays").exists());
    let _ = scene.haul_ssh("sync").arg(from("2026-0[1]/")).arg(slash(copy.path())).finish().expect_success();
    assert_same_tree(&tree.join("2026-01"), copy.path());
}

fn a_pattern_without_a_match_is_named() {
    let scene = Scene::new();
    let (tree, copy) = (tree(&scene), scene.join("dst"));
    for pattern in ["no*", "logs/*/x", "star-not/*"] {
        let run = refused(scene.haul_ssh("copy").arg(scene.remote(tree.join(pattern))).arg(&copy), 1);
        assert!(run.err().contains("no entry matches the pattern"), "{run}");
        assert!(!copy.exists());
    }
    let [some, none] = ["logs/*.gz", "no*"].map(|pattern| scene.remote(tree.join(pattern)));
    let run = refused(scene.haul_ssh("copy").arg(some).arg(none).arg(&copy), 1);
    assert!(run.err().contains("no*"), "{run}");
    assert!(copy.join("a.gz").exists());
}

/// The paths to which a shell expands a pattern, one in each line.
fn expanded(dir: &Path, pattern: &str) -> Vec<String> {
    let line = format!("printf '%s\\n' {pattern}");
    let output = Command::new("bash").args(["-c", &line]).current_dir(dir).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The paths and keys of a list, sorted.
fn names_of(run: &Finished) -> Vec<String> {
    let lines =
        run.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    let name =
        |line: &Value| ["path", "key", "prefix"].iter().find_map(|key| line[key].as_str().map(str::to_owned));
    let mut names: Vec<String> = lines.iter().filter_map(name).collect();
    names.sort();
    names
}

fn matches_on_a_host_are_listed_and_analysed() {
    let scene = Scene::new();
    let tree = tree(&scene);
    let at = |pattern: &str| scene.remote(tree.join(pattern));
    let (gz, dirs, data) = ("logs/*.gz", "2026-*", "*/data/");
    let run = scene.haul_ssh("ls").arg("--json").args([at(gz), at(dirs)]).finish().expect_success();
    let shell = |pattern: &str| expanded(tree.path(), &format!("{}/{pattern}", tree.path().display()));
    assert_eq!(names_of(&run), [shell(dirs), shell(gz)].concat(), "{run}");
    assert_eq!(run.out().lines().filter(|line| line.contains(r#""type":"location""#)).count(), 2, "{run}");
    let run = scene.haul_ssh("ls").args([at(data), at("no*")]).finish().expect_code(1);
    let [first, second] =
        ["2026-01/data/f1", "2026-02/data/f2"].map(|path| tree.join(path).display().to_string());
    assert!(run.out().contains(&first) && run.out().contains(&second), "{run}");
    assert!(run.err().contains("no entry matches the pattern"), "{run}");
    let plan = scene.haul_ssh("plan").args(["--json", "--parts", "2"]).arg(at(gz)).finish().expect_success();
    assert_eq!(summary(&plan).of("found"), 3, "{plan}");
    let run = refused(scene.haul_ssh("plan").arg(at("*/data/f*")), 2);
    assert!(run.err().contains("in 2 directories"), "{run}");
    for word in ["ls", "hash", "plan"] {
        let run = refused(scene.haul_ssh(word).arg(at("no*")), 1);
        assert!(run.err().contains("no entry matches the pattern"), "{run}");
    }
}

/// A bucket with the tree, and the tree.
fn uploaded() -> (Scene, TestBucket, TestTree) {
    let (scene, bucket) = (Scene::new(), TestBucket::new());
    let tree = tree(&scene);
    bucket.rclone_copy(true, tree.path(), "");
    (scene, bucket, tree)
}

fn matching_objects_are_listed() {
    let (_scene, bucket, tree) = uploaded();
    let ls =
        |pattern: &str| bucket.haul("ls").args(["--json", &bucket.at(pattern)]).finish().expect_success();
    for pattern in ["logs/?.gz", "2026-0[12]/data/f*", "logs/.*.gz", "2026-*/", "l*"] {
        // A shell shows no slash behind a directory.
        let found = names_of(&ls(pattern));
        let mut shell = expanded(tree.path(), pattern);
        if pattern.ends_with('/') {
            shell = shell.iter().flat_map(|dir| expanded(tree.path(), &format!("{dir}*"))).collect();
        }
        let bare: Vec<&str> = found.iter().map(|name| name.trim_end_matches('/')).collect();
        assert_eq!(bare, shell, "{pattern}");
    }
    // The keys of a pattern that has no directory to cross are those of s5cmd.
    let s5cmd = bucket.program("s5cmd").env("S3_ENDPOINT_URL", format!("http://{}", endpoint()));
    let s5cmd = s5cmd.env("AWS_REGION", "us-east-1").args(["ls", "--show-fullpath", &bucket.at("logs/?.gz")]);
    let mut s5cmd = s5cmd.finish().expect_success().out().lines().map(str::to_owned).collect::<Vec<_>>();
    s5cmd.sort();
    let own: Vec<String> = names_of(&ls("logs/?.gz")).iter().map(|key| bucket.at(key)).collect();
    assert_eq!(own, s5cmd);
    let du = bucket.haul("du").arg(bucket.at("2026-*")).finish().expect_success();
    assert!(du.out().contains("total of 4 objects"), "{du}");
    let run = refused(bucket.haul("ls").arg(bucket.at("no*")), 1);
    assert!(run.err().contains("no object matches the pattern"), "{run}");
}

fn matching_objects_are_removed_as_in_a_shell() {
    let (_scene, bucket, tree) = uploaded();
    // A stream of several parts has a sidecar, which goes with it.
    let _ = bucket.put("2026-01/data/f9", &vec![7; 9 << 20]);
    tree.text("2026-01/data/f9", "");
    assert!(bucket.names().contains(&"2026-01/data/f9.haul".to_owned()));
    for (options, pattern, code) in [
        ("", "logs/?.gz", 0),
        ("", "2026-0[12]/data/f?", 0),
        ("", "l*", 1),
        ("-r", "2026-0?", 0),
        ("", "star*", 0),
        ("-r", "l*", 0),
        ("", "no*", 1),
    ] {
        let run = bucket.haul("rm").args(["-n", "-r", &bucket.at(pattern)]).finish();
        let dry: Vec<String> = run.out().lines().map(|line| line["remove   ".len()..].to_owned()).collect();
        let before = bucket.names();
        let _ = bucket
            .haul("rm")
            .args(options.split_whitespace())
            .arg(bucket.at(pattern))
            .finish()
            .expect_code(code);
        let quoted = if pattern == "star*" { "'star*'" } else { pattern };
        let line = format!("rm {options} {quoted}");
        drop(Command::new("bash").args(["-c", &line]).current_dir(tree.path()).output().unwrap());
        let files: Vec<String> = list(tree.path())
            .into_iter()
            .filter(|path| tree.join(path).is_file())
            .map(|path| path.display().to_string())
            .collect();
        let after = bucket.names();
        let (mut names, mut files) = (after.clone(), files);
        let has_stream = names.iter().any(|name| name.ends_with("/f9"));
        names.retain(|name| !(has_stream && name.ends_with("/f9.haul")));
        names.sort();
        files.sort();
        assert_eq!(names, files, "{line}");
        if code == 0 {
            let gone: Vec<String> =
                before.iter().filter(|name| !after.contains(name)).map(|name| bucket.at(name)).collect();
            assert!(gone.iter().all(|name| dry.contains(name)), "{dry:?} {gone:?}");
        }
    }
    for everything in ["*", "*/", ""] {
        let run = bucket.haul("rm").args(["-r", &bucket.at(everything)]).finish().expect_code(2);
        assert!(run.err().contains("would empty the bucket"), "{run}");
    }
}

fn one_matching_object_is_read() {
    let (scene, bucket, _tree) = uploaded();
    let get = |pattern: &str| bucket.haul("get").arg("-q").arg(bucket.at(pattern));
    assert_eq!(get("*/a.gz").finish().expect_success().out(), "logs/a.gz");
    assert_eq!(get("star*").finish().expect_success().out(), "star*");
    let dir = scene.tree("to");
    let _ = get("logs/c.*").arg(slash(dir.path())).finish().expect_success();
    assert_eq!(std::fs::read_to_string(dir.join("c.txt")).unwrap(), "logs/c.txt");
    let run = refused(get("logs/*.gz"), 2);
    assert!(run.err().contains("3 objects match the pattern") && run.stdout.is_empty(), "{run}");
    let run = refused(get("no*"), 1);
    assert!(run.err().contains("no object matches the pattern"), "{run}");
}

//! Wildcards in the paths of remote sources and in keys: they match what a shell makes of them at that end.

use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::tree::list;
use haul_testkit::{Finished, Need, Run, Tree, assert_same_tree};

use crate::scene::{REMOTE, Scene, slash, summary};
use crate::sftp;
use crate::store::Bucket;
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    let mut all = cases![
        Need::Program("rsync");
        over_ssh_they_match_as_in_a_shell,
        over_sftp_they_match_as_in_a_shell,
        the_files_are_moved,
        several_matches_are_no_source_of_a_sync,
        a_pattern_without_a_match_is_named,
    ];
    all.extend(cases![
        Need::Program("rsync"), Need::Program("weed"), Need::Program("rclone");
        in_keys_they_match_as_in_a_shell,
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

fn tree(scene: &Scene) -> Tree {
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

/// What rsync makes of the pattern, which a shell has expanded. `star*` is the name of a file.
fn by_rsync(tree: &Tree, pattern: &str, to: &Path) -> PathBuf {
    let pattern = if pattern == "star*" { "'star*'" } else { pattern };
    let line = format!("rsync -a {pattern} {}/", to.display());
    let status = Command::new("bash").args(["-c", &line]).current_dir(tree.path()).status().unwrap();
    assert!(status.success(), "{line}");
    to.to_owned()
}

/// Copies each pattern by `copy`, and compares with rsync.
fn check(scene: &Scene, copy: &dyn Fn(&str, &Path) -> Run) {
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
    }
}

fn over_ssh_they_match_as_in_a_shell() {
    let scene = Scene::new();
    check(&scene, &|pattern, to| {
        scene.haul_ssh("copy").arg("--json").arg(scene.remote(scene.join("src").join(pattern))).arg(slash(to))
    });
}

fn over_sftp_they_match_as_in_a_shell() {
    let scene = Scene::new();
    check(&scene, &|pattern, to| {
        let from = format!("sftp://{REMOTE}{}", scene.join("src").join(pattern).display());
        sftp::haul(&scene, "copy").arg("--json").arg(from).arg(slash(to))
    });
}

fn in_keys_they_match_as_in_a_shell() {
    let (scene, bucket) = (Scene::new(), Bucket::made());
    let is_there = std::cell::Cell::new(false);
    check(&scene, &|pattern, to| {
        if !is_there.replace(true) {
            let up = bucket.haul("copy").arg(slash(&scene.join("src"))).arg(bucket.at("tree/"));
            let _ = up.finish().expect_success();
        }
        bucket.haul("copy").arg("--json").arg(bucket.at(&format!("tree/{pattern}"))).arg(slash(to))
    });
}

fn the_files_are_moved() {
    let scene = Scene::new();
    let (tree, copy) = (tree(&scene), scene.tree("dst"));
    let from = scene.remote(tree.join("logs/*.gz"));
    let _ = scene.haul_ssh("mv").arg(from).arg(slash(copy.path())).finish().expect_success();
    let names = |of: &Tree, dir: &str| {
        let mut names = list(&of.join(dir));
        names.sort();
        names.into_iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&copy, ""), "a.gz b.gz cc.gz");
    assert_eq!(names(&tree, "logs"), ".hidden.gz c.txt old old/d.gz");
}

/// The line of a run that was refused.
fn refused(run: Run, code: i32) -> Finished {
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

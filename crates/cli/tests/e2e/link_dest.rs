//! `--link-dest`: unchanged files of an earlier copy become hard links, as with rsync.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::list;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{Scene, WAYS, Way, slash, summary};
use crate::sftp;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        unchanged_files_become_links_as_with_rsync,
        unchanged_entries_are_left_out_as_with_rsync,
        a_reference_on_another_file_system_is_copied_from_the_source,
    ];
    all.extend(cases![
        a_missing_reference_is_none,
        one_file_of_the_reference_never_becomes_two_of_the_source,
        references_that_cannot_be_used_are_refused,
    ]);
    all
}

/// The source of the first copy, and the changes before the second.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for (name, len) in
        [("same", 100), ("d/same", 5000), ("large", 6 << 20), ("touched", 60), ("moded", 70), ("content", 80)]
    {
        tree.file(name, len);
    }
    for name in ["owned", "noted", "grown", "gone", "first"] {
        tree.file(name, 90);
    }
    fs::hard_link(tree.join("first"), tree.join("d/second")).unwrap();
    tree.link("link", "same");
    for path in list(tree.path()) {
        tree.time(path, 1_600_000_000, 0);
    }
    tree
}

fn change(tree: &TestTree) {
    tree.time("touched", 1_600_000_500, 0);
    fs::set_permissions(tree.join("moded"), fs::Permissions::from_mode(0o600)).unwrap();
    tree.text("content", vec![b'x'; 80]);
    tree.time("content", 1_600_000_501, 0);
    std::os::unix::fs::chown(tree.join("owned"), Some(7), Some(8)).unwrap();
    tool(Command::new("setfattr").args(["-n", "user.a", "-v", "b"]).arg(tree.join("noted")));
    tree.text("grown", vec![b'y'; 91]);
    fs::remove_file(tree.join("gone")).unwrap();
    tree.file("new", 10);
}

/// The number of names of each file, and whether it is the file of one of the earlier copies.
fn links(dir: &Path, earlier: &[PathBuf]) -> BTreeMap<PathBuf, (u64, Vec<bool>)> {
    let inode = |path: &Path| path.symlink_metadata().ok().map(|m| (m.dev(), m.ino()));
    let files = list(dir).into_iter().filter(|path| dir.join(path).symlink_metadata().unwrap().is_file());
    let describe = |path: &PathBuf| {
        let file = dir.join(path);
        let is_in = earlier.iter().map(|earlier| inode(&earlier.join(path)) == inode(&file)).collect();
        (file.symlink_metadata().unwrap().nlink(), is_in)
    };
    files.map(|path| (path.clone(), describe(&path))).collect()
}

fn unchanged_files_become_links_as_with_rsync() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        let dirs = |tool: &str| ["0", "1", "2", "3"].map(|name| scene.join(tool).join(name));
        for (number, words) in [
            &[][..],
            &["--link-dest=../0"],
            &["--link-dest=../0", "--link-dest", "../1"],
            &["--no-perms", "--no-owner", "--no-group", "--no-xattrs", "--no-acls", "--link-dest=../0"],
        ]
        .into_iter()
        .enumerate()
        {
            if number == 1 {
                change(&source);
            }
            let [expected, copy] = ["rsync", "haul"].map(|tool| dirs(tool)[number].clone());
            fs::create_dir_all(&expected).unwrap();
            let attributes = if number == 3 { "-aH" } else { "-aHAX" };
            let mut rsync = Command::new("rsync");
            tool(rsync.arg(attributes).args(words).arg(slash(source.path())).arg(slash(&expected)));
            for round in 0..2 {
                let run = scene.by(way, "sync", slash(source.path()), slash(&copy)).args(words).arg("--json");
                let run = run.finish().expect_success();
                summary(&run).assert_accounted();
                let [wanted, found] =
                    ["rsync", "haul"].map(|tool| links(&dirs(tool)[number], &dirs(tool)[..number]));
                assert_eq!(wanted, found, "{way:?} {words:?} {round}: {run}");
            }
            if number < 3 {
                assert_same_tree(source.path(), &copy);
            }
        }
    }
}

/// Entries that haul makes differently than rsync: names of one file.
const OWN: [&str; 2] = ["first", "d/second"];

fn unchanged_entries_are_left_out_as_with_rsync() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        tool(Command::new("mkfifo").arg(source.join("pipe")));
        source.link("changed-link", "same");
        source.time("changed-link", 1_600_000_000, 0);
        let earlier = scene.join("0");
        tool(Command::new("cp").arg("-a").arg(source.path()).arg(&earlier));
        change(&source);
        fs::remove_file(source.join("changed-link")).unwrap();
        source.link("changed-link", "moded");
        let [expected, copy] = ["rsync", "haul"].map(|name| {
            // Entries that are there already are updated.
            let there = scene.tree(name);
            there.text("content", "older");
            there.text("grown", "older");
            there.path().to_owned()
        });
        let words = ["--compare-dest=../none", "--compare-dest=../0"];
        tool(Command::new("rsync").arg("-aHAX").args(words).arg(slash(source.path())).arg(slash(&expected)));
        let run = |words: &[&str]| {
            let run = scene.by(way, "sync", slash(source.path()), slash(&copy)).args(words);
            summary(&run.finish().expect_success())
        };
        let dry = run(&[words[0], words[1], "-n"]);
        let done = run(&words);
        done.assert_accounted();
        assert_eq!(dry.of("left"), done.of("left"), "{way:?} {dry:?} {done:?}");
        let own = OWN.iter().map(PathBuf::from);
        let mut wanted: Vec<PathBuf> = list(&expected).into_iter().chain(own).collect();
        wanted.sort();
        assert_eq!(wanted, list(&copy), "{way:?}");
        for name in wanted.iter().filter(|name| !expected.join(name).is_dir()) {
            let facts = |dir: &Path| {
                let at = dir.join(name).symlink_metadata().unwrap();
                (at.len(), at.mode(), at.uid(), at.gid(), at.mtime())
            };
            assert_eq!(facts(source.path()), facts(&copy), "{way:?} {name:?}");
        }
        let again = run(&words);
        let unchanged = again.of("same") + again.of("left") + again.of("linked");
        assert_eq!((again.of("left"), unchanged), (done.of("left"), again.of("found")), "{again:?}");
    }
}

fn a_missing_reference_is_none() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        for option in ["--link-dest", "--compare-dest"] {
            let _ = fs::remove_dir_all(scene.join("dst"));
            let words = format!("{option}=../none");
            let run = scene.copy(way, source.path(), &scene.join("dst")).arg(words).finish().expect_success();
            summary(&run).assert_accounted();
            let warning = format!(r#""what":"{option}""#);
            assert!(run.said().contains(&warning) && run.said().contains("/none does not exist"), "{run}");
        }
        assert_same_tree(source.path(), &scene.join("dst"));
        assert!(!scene.join("none").exists());
    }
}

fn one_file_of_the_reference_never_becomes_two_of_the_source() {
    let scene = Scene::new();
    let (source, earlier) = (scene.tree("src"), scene.tree("0"));
    for name in ["a", "b"] {
        source.text(name, b"content");
        source.time(name, 1_600_000_000, 0);
    }
    earlier.text("a", b"content");
    earlier.time("a", 1_600_000_000, 0);
    fs::hard_link(earlier.join("a"), earlier.join("b")).unwrap();
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, source.path(), &copy).arg("--link-dest=../0").finish();
    summary(&run.expect_success()).assert_accounted();
    assert_same_tree(source.path(), &copy);
    let inode = |name: &str| copy.join(name).metadata().unwrap().ino();
    assert_ne!(inode("a"), inode("b"));
}

fn a_reference_on_another_file_system_is_copied_from_the_source() {
    let scene = Scene::new();
    let source = source(&scene);
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    let _ = scene.copy(Way::Local, source.path(), other.path()).finish().expect_success();
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, source.path(), &copy).arg("--link-dest").arg(other.path()).finish();
    let run = run.expect_success();
    summary(&run).assert_accounted();
    assert_same_tree(source.path(), &copy);
    assert!(run.said().contains("--link-dest"), "a warning says so: {run}");
    let run =
        scene.haul("copy").arg(slash(source.path())).arg(scene.join("second")).arg("--link-dest=../none");
    let run = run.finish().expect_success();
    assert!(run.said().contains("--link-dest had no effect on 11 entries: "), "{run}");
}

fn references_that_cannot_be_used_are_refused() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("f", 10);
    let copy = scene.join("dst");
    let link = "--link-dest=../0";
    for (options, why) in [
        (&[link, "--checksum"][..], "--checksum"),
        (&[link, "--compare-dest=../0"], "--compare-dest"),
        (&["--compare-dest=../0", "--checksum"], "--checksum"),
        (&["--compare-dest="], "the name of the directory is empty"),
        (&["--compare-dest=../0", "--remove-source-files"], "omit --compare-dest"),
        (&[link, "--inplace"], "--inplace"),
        (&[link, "-I"], "--ignore-times"),
        (&[link, "--remove-source-files"], "omit --link-dest"),
        (&["--link-dest="], "the name of the directory is empty"),
        (&[link; 21], "more than 20 times"),
    ] {
        let run = scene.copy(Way::Local, source.path(), &copy).args(options).finish().expect_code(2);
        assert!(run.said().contains(why), "{run}");
    }
    let run = scene.haul("mv").arg(link).arg(slash(source.path())).arg(slash(&copy)).finish().expect_code(2);
    assert!(run.said().contains("--link-dest"), "{run}");
    let run = sftp::push(&scene, source.path(), &copy).arg(link).finish().expect_code(2);
    assert!(run.said().contains("link to earlier copies"), "{run}");
    assert!(!copy.join("f").exists() && source.join("f").exists());
}

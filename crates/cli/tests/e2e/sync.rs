//! `haul sync`: the same tree as the source, and entries that it must never delete.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use haul_testkit::compare::fingerprint;
use haul_testkit::tree::list;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        sync_removes_entries_that_the_source_lacks,
        a_dry_run_says_all_and_changes_nothing,
        more_than_max_delete_removes_nothing,
        excluded_entries_are_not_removed,
        copy_never_removes,
        sync_from_a_missing_source_removes_nothing,
    ];
    all.extend(cases![
        Need::Root, Need::Program("setpriv");
        a_scan_with_errors_removes_nothing_unless_told_to,
        an_unreadable_file_is_named_and_fails,
    ]);
    all
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

/// A source, and a destination with some more in it.
fn trees(scene: &Scene) -> (TestTree, TestTree) {
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.many("kept", 120, 0..2000);
    source.file("file", 100);
    copy.many("extra/directory", 40, 0..2000);
    copy.many("kept", 10, 0..100);
    copy.text("kept/0000/extra", "x");
    copy.link("extra/link", "/etc");
    copy.dir("extra/empty/in/empty");
    copy.text("odd\nname", "x");
    // The clock of a file system is coarse: directories made one after the other may have the same time.
    for name in ["kept/0000", "kept", "."] {
        source.time(name, 1_700_000_000, 0);
    }
    (source, copy)
}

fn sync_removes_entries_that_the_source_lacks() {
    for way in WAYS {
        let scene = Scene::new();
        let (source, copy) = trees(&scene);
        let surplus = list(copy.path()).iter().filter(|path| !source.join(path).exists()).count() as u64;
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).finish();
        let summary = summary(&run.expect_success());
        assert_eq!(summary.of("removed"), surplus, "{way:?}: {summary:?}");
        assert_same_tree(source.path(), copy.path());
        // The directory itself, with rsync's rule.
        copy.text("src/extra", "x");
        copy.text("beside", "x");
        let run = scene.by(way, "sync", source.path(), slash(copy.path())).finish();
        let _ = run.expect_success();
        assert!(copy.join("beside").exists(), "{way:?}: only below the directory");
        assert!(!copy.join("src/extra").exists(), "{way:?}");
        scene.assert_all_gone();
    }
}

fn a_dry_run_says_all_and_changes_nothing() {
    for way in WAYS {
        for word in ["copy", "sync"] {
            let scene = Scene::new();
            let (source, copy) = trees(&scene);
            let before = fingerprint(copy.path());
            let (from, to) = (slash(source.path()), slash(copy.path()));
            let would = summary(&scene.by(way, word, &from, &to).arg("-n").finish().expect_success());
            would.assert_accounted();
            assert!(fingerprint(copy.path()) == before, "{way:?} {word}: nothing is changed");
            let did = summary(&scene.by(way, word, &from, &to).finish().expect_success());
            for name in ["found", "copied", "copied_bytes", "made", "linked", "removed", "same"] {
                assert_eq!(would.of(name), did.of(name), "{way:?} {word}: {name} of\n{would:?}\n{did:?}");
            }
            // Into nothing at all.
            let new = scene.join("not/there/yet");
            let _ = scene.by(way, word, &from, slash(&new)).arg("-n").finish().expect_success();
            assert!(!scene.join("not").exists(), "{way:?} {word}");
        }
    }
}

fn more_than_max_delete_removes_nothing() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let sync = |max: &str| {
        scene
            .by(Way::Push, "sync", slash(source.path()), slash(copy.path()))
            .args(["--max-delete", max])
            .finish()
    };
    let run = sync("5").expect_code(1);
    assert_eq!(summary(&run).of("removed"), 0, "{run}");
    assert!(copy.join("extra/link").symlink_metadata().is_ok(), "nothing is removed");
    assert!(copy.join("file").exists(), "the rest is done");
    let _ = sync("0").expect_code(1);
    let _ = sync("1000").expect_success();
    assert_same_tree(source.path(), copy.path());
    let _ = sync("0").expect_success();
}

fn excluded_entries_are_not_removed() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("a/file", 10);
    source.text("a/x.tmp", "source");
    copy.text("a/x.tmp", "destination");
    copy.text("a/y.tmp", "destination");
    copy.text("cache/inside", "destination");
    copy.text("gone", "x");
    let run = scene.by(Way::Push, "sync", slash(source.path()), slash(copy.path()));
    let _ = run.args(["--exclude", "*.tmp", "--exclude", "/cache/"]).finish().expect_success();
    let left: Vec<_> = list(copy.path()).iter().map(|path| path.display().to_string()).collect();
    assert_eq!(left, ["a", "a/file", "a/x.tmp", "a/y.tmp", "cache", "cache/inside"]);
    assert_eq!(fs::read_to_string(copy.join("a/x.tmp")).unwrap(), "destination");
}

fn copy_never_removes() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let before = list(copy.path());
    let _ = scene.copy(Way::Push, source.path(), copy.path()).finish().expect_success();
    let after = list(copy.path());
    assert!(before.iter().all(|path| after.contains(path)));
    let run = scene.copy(Way::Push, source.path(), copy.path()).arg("--delete").finish().expect_code(2);
    assert!(run.said().contains("sync"), "the way out is told: {run}");
}

fn sync_from_a_missing_source_removes_nothing() {
    for way in WAYS {
        let scene = Scene::new();
        let (_, copy) = trees(&scene);
        let before = fingerprint(copy.path());
        for source in ["missing", "missing/"] {
            let run = scene.by(way, "sync", scene.join(source), slash(copy.path())).finish();
            assert!(matches!(run.code(), Some(1 | 2)), "{way:?}: {run}");
        }
        assert!(fingerprint(copy.path()) == before, "{way:?}: nothing is changed");
    }
}

fn unreadable(scene: &Scene) -> (TestTree, TestTree) {
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("open/file", 1000);
    source.file("closed/file", 1000);
    source.file("secret", 1000);
    copy.file("closed/file", 500);
    copy.file("extra", 1);
    Command::new("chown").args(["-R", "65534:65534"]).arg(source.path()).arg(copy.path()).status().unwrap();
    let owned_by_root = |name: &str| {
        std::os::unix::fs::lchown(source.join(name), Some(0), Some(0)).unwrap();
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    };
    owned_by_root("closed");
    owned_by_root("secret");
    (source, copy)
}

fn a_scan_with_errors_removes_nothing_unless_told_to() {
    let scene = Scene::new();
    let (source, copy) = unreadable(&scene);
    let sync = |more: &[&str]| {
        let run = scene.as_nobody().arg("sync").arg("--json").args(more);
        run.arg(slash(source.path())).arg(slash(copy.path())).finish()
    };
    let run = sync(&[]).expect_code(1);
    assert!(copy.join("extra").exists() && copy.join("closed/file").exists(), "nothing is removed: {run}");
    assert_eq!(summary(&run).of("removed"), 0, "{run}");
    assert!(copy.join("open/file").exists(), "the rest is copied");
    let run = sync(&["--ignore-errors"]).expect_code(1);
    assert!(!copy.join("extra").exists(), "told to remove: {run}");
}

fn an_unreadable_file_is_named_and_fails() {
    let scene = Scene::new();
    let (source, copy) = unreadable(&scene);
    let failed = copy.join("failed-list");
    let copying = |more: &[&str]| {
        let run = scene.as_nobody().arg("copy").args(more);
        run.arg(slash(source.path())).arg(slash(copy.path())).finish()
    };
    let run = copying(&["--failed", failed.to_str().unwrap()]).expect_code(1);
    for name in ["closed", "secret"] {
        assert!(run.said().contains(name), "{name} is named: {run}");
    }
    // Once the cause is mended, the list has the rest of the work.
    for name in ["closed", "secret"] {
        std::os::unix::fs::lchown(source.join(name), Some(65534), Some(65534)).unwrap();
    }
    fs::write(source.join("later"), "not on the list").unwrap();
    let _ = copying(&["--files-from", failed.to_str().unwrap()]).expect_success();
    assert_eq!(fs::read(copy.join("secret")).unwrap(), fs::read(source.join("secret")).unwrap());
    assert_eq!(fs::read(copy.join("closed/file")).unwrap().len(), 1000);
    assert!(!copy.join("later").exists(), "only what is on the list");
}

//! `haul sync` with a source that is empty or unmounted by mistake.

use haul_testkit::compare::fingerprint;
use haul_testkit::tree::list;
use haul_testkit::{Finished, Need, TestMount, assert_same_tree};

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        an_empty_source_changes_nothing_unless_that_is_said,
        a_source_that_is_empty_by_rules_or_new_is_no_empty_source,
        more_than_half_is_removed_only_if_that_is_said,
        new_files_do_not_hide_how_much_would_go,
        a_home_directory_is_not_synced_into_by_mistake,
    ];
    all.extend(cases![
        Need::Root;
        an_unmounted_source_is_recognised,
    ]);
    all
}

/// Fails unless the run was refused with one line, which is given back.
fn refused(run: Finished) -> String {
    let run = run.expect_code(2);
    let lines: Vec<String> = run
        .err()
        .lines()
        .filter(|line| line.starts_with("haul: ") && !line.contains("goes directly"))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 1, "{run}");
    lines.concat()
}

fn a_home_directory_is_not_synced_into_by_mistake() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("photo", 1000);
    // Only a dry run: the home directory is that of the user who runs this test.
    let sync = |end: &str, more: &[&str]| {
        let run = scene.haul_ssh("sync").arg("-n").args(more).arg(slash(source.path()));
        run.arg(scene.remote(end)).finish()
    };
    for end in ["", "~/"] {
        let line = refused(sync(end, &[]));
        assert!(line.contains("home directory, such as .ssh"), "{line}");
    }
    for (end, more) in [("", &["--max-delete", "1"][..]), ("./", &[])] {
        let run = sync(end, more);
        assert!(!run.err().contains("such as .ssh"), "{run}");
    }
}

fn an_empty_source_changes_nothing_unless_that_is_said() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        copy.many("files", 10, 0..100);
        copy.file("one", 5);
        source.time("", 1, 0);
        let before = fingerprint(copy.path());
        let count = list(copy.path()).len();
        let sync = |more: &[&str]| {
            let (from, to) = (slash(source.path()), slash(copy.path()));
            let run = if way == Way::Local { scene.haul("sync") } else { scene.haul_ssh("sync") };
            let from = if way == Way::Pull { scene.remote(&from) } else { from };
            run.args(more).arg(from).arg(if way == Way::Push { scene.remote(&to) } else { to }).finish()
        };
        for more in [&["-n"][..], &[], &["-q"], &["--ignore-errors"]] {
            let line = refused(sync(more));
            assert!(line.contains(&format!("{count} entries")) && line.contains("--force-delete"), "{line}");
            assert!(fingerprint(copy.path()) == before, "{way:?} {more:?}: nothing is changed");
        }
        let _ = sync(&["-n", "--force-delete"]).expect_success();
        assert!(fingerprint(copy.path()) == before, "{way:?}");
        let _ = sync(&["--max-delete", "3"]).expect_code(1);
        assert_eq!(list(copy.path()).len(), count, "{way:?}");
        let _ = sync(&["--max-delete", "100"]).expect_success();
        assert!(list(copy.path()).is_empty(), "{way:?}");
        copy.file("again", 5);
        let _ = sync(&["--force-delete"]).expect_success();
        assert!(list(copy.path()).is_empty(), "{way:?}");
        // Nothing on both sides is no mistake.
        let _ = sync(&[]).expect_success();
        scene.assert_all_gone();
    }
}

fn a_source_that_is_empty_by_rules_or_new_is_no_empty_source() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("large", 5000);
    copy.file("x.txt", 5);
    let sync = |more: &[&str]| {
        scene.haul("sync").args(more).arg(slash(source.path())).arg(slash(copy.path())).finish()
    };
    let _ = sync(&["--exclude", "*"]).expect_success();
    let _ = sync(&["--max-size", "100"]).expect_success();
    assert!(!copy.join("x.txt").exists() && !copy.join("large").exists());
    let new = scene.join("new");
    let empty = scene.tree("empty");
    let _ = scene.haul("sync").arg(slash(empty.path())).arg(slash(&new)).finish().expect_success();
    assert!(new.is_dir());
}

fn more_than_half_is_removed_only_if_that_is_said() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for number in 0..60 {
        source.file(format!("kept-{number}"), 10);
        copy.file(format!("extra-{number}"), 10);
    }
    let sync = |more: &[&str]| {
        scene.haul("sync").args(more).arg(slash(source.path())).arg(slash(copy.path())).finish()
    };
    // All of 60 entries go: so few may.
    let _ = sync(&[]).expect_success();
    assert_same_tree(source.path(), copy.path());
    // 61 of 121 are more than half.
    for number in 0..61 {
        copy.file(format!("extra-{number}"), 10);
    }
    let before = fingerprint(copy.path());
    source.file("new", 10);
    let line = refused(sync(&["-n"]));
    assert!(fingerprint(copy.path()) == before);
    assert!(line.contains("61 of 121 entries") && line.contains("--max-delete 61"), "{line}");
    assert_eq!(refused(sync(&[])), line, "the run says what -n says");
    assert!(
        copy.join("new").exists() && copy.join("extra-0").exists(),
        "it is copied, and nothing is removed"
    );
    // Again: now the copied entries are there, and 61 of 122 are half.
    let _ = sync(&["-n"]).expect_success();
    copy.file("extra", 10);
    copy.file("extra-too", 10);
    let _ = refused(sync(&[]));
    let _ = sync(&["--max-delete", "63"]).expect_success();
    assert_same_tree(source.path(), copy.path());
    for number in 0..200 {
        copy.file(format!("extra-{number}"), 10);
    }
    let _ = refused(sync(&[]));
    let _ = sync(&["--force-delete"]).expect_success();
    assert_same_tree(source.path(), copy.path());
}

fn new_files_do_not_hide_how_much_would_go() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    // A wrong source: none of it is at the destination, of which all would go.
    source.many("other", 400, 0..50);
    source.link("link", "x");
    std::fs::hard_link(list_first(source.path()), source.join("hard")).unwrap();
    for number in 0..150 {
        copy.file(format!("mine-{number}"), 10);
    }
    let sync = |more: &[&str]| {
        scene.haul("sync").args(more).arg(slash(source.path())).arg(slash(copy.path())).finish()
    };
    let line = refused(sync(&["-n"]));
    assert!(line.contains("150 of 150 entries"), "{line}");
    assert_eq!(refused(sync(&[])), line);
    assert!(copy.join("mine-149").exists());
}

/// The first file in the tree at `root`.
fn list_first(root: &std::path::Path) -> std::path::PathBuf {
    list(root).into_iter().map(|path| root.join(path)).find(|path| path.is_file()).unwrap()
}

fn an_unmounted_source_is_recognised() {
    let scene = Scene::new();
    let (source, copy) = (scene.join("disk"), scene.tree("dst"));
    std::fs::create_dir(&source).unwrap();
    // The directory below the mount point is not empty, so only the mount shows it.
    std::fs::write(source.join("not mounted"), "x").unwrap();
    let sync =
        |more: &[&str]| scene.haul("sync").args(more).arg(slash(&source)).arg(slash(copy.path())).finish();
    {
        let _mount = TestMount::tmpfs_at(&source, 8 << 20);
        std::fs::write(source.join("file"), "content").unwrap();
        let _ = sync(&[]).expect_success();
        let _ = sync(&[]).expect_success();
    }
    let before = fingerprint(copy.path());
    for more in [&["-n"][..], &[], &["--max-delete", "100"]] {
        let line = refused(sync(more));
        assert!(line.contains("mounted at") && line.contains("--force-delete"), "{line}");
        assert!(fingerprint(copy.path()) == before, "nothing is changed");
    }
    {
        let _mount = TestMount::tmpfs_at(&source, 8 << 20);
        std::fs::write(source.join("file"), "content, again").unwrap();
        let _ = sync(&[]).expect_success();
    }
    let _ = sync(&["--force-delete"]).expect_success();
    assert!(copy.join("not mounted").exists() && !copy.join("file").exists());
    let _ = sync(&[]).expect_success();
}

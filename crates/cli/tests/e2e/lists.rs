//! `--files-from` for `sync` and `verify`: `sync` deletes the same entries as `rsync -r --delete --files-from`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::{list as names, set_time};
use haul_testkit::{CommandRun, Finished, TestTree, assert_same_tree};

use crate::scene::{Scene, Way, slash, summary};
use crate::sftp;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        sync_deletes_in_listed_directories_only,
        a_listed_path_in_an_excluded_directory_of_a_listed_one_deletes_nothing,
        a_missing_path_of_the_list_deletes_nothing,
        an_empty_source_and_an_empty_list_are_two_things,
        relative_paths_are_those_of_rsync,
        verify_compares_listed_paths_only,
    ]
}

/// The source, and a destination that has more.
fn trees(scene: &Scene) -> (TestTree, TestTree) {
    let [source, old] = ["src", "old"].map(|name| scene.tree(name));
    for tree in [&source, &old] {
        for name in ["a/f", "a/b/f", "c/f", "c/g", "d/e/f", "top", "two\nlines"] {
            tree.file(name, 20);
            tree.time(name, 1_600_000_000, 0);
        }
    }
    for name in ["a/x", "a/b/x", "a-x", "c/x", "d/x", "d/e/x", "y/x", "x", "a/z/x"] {
        old.file(name, 5);
    }
    // A file takes the place of a directory with entries.
    fs::remove_file(old.join("top")).unwrap();
    old.file("top/sub/x", 5);
    // One that the list names in vain.
    fs::remove_file(source.join("c/g")).unwrap();
    for path in ["d/e", "d", "c", "a/b", "a", ""] {
        source.time(path, 1_600_000_000, 0);
    }
    (source, old)
}

fn duplicate(tree: &TestTree, to: &Path) {
    tool(Command::new("cp").arg("-a").arg(tree.path()).arg(to));
}

/// Writes a list, with NUL at the end of each line.
fn list(scene: &Scene, lines: &[&str]) -> PathBuf {
    let file = scene.join("list");
    let text: Vec<String> = lines.iter().map(|line| format!("{line}\0")).collect();
    fs::write(&file, text.concat()).unwrap();
    file
}

fn rsync(scene: &Scene, source: &TestTree, to: &Path, options: &[&str]) {
    let list = scene.join("list");
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXr", "--delete", "-0", "--modify-window=-1", "--files-from"]).arg(list).args(options);
    tool(rsync.arg(slash(source.path())).arg(slash(to)));
}

fn sync(scene: &Scene, way: Way, source: &TestTree, to: &Path) -> CommandRun {
    scene
        .by(way, "sync", slash(source.path()), slash(to))
        .arg("-0")
        .arg("--files-from")
        .arg(scene.join("list"))
}

/// The two trees are the same, but for the times of their roots, which are those of the run unless the list names them.
fn assert_same(expected: &Path, copy: &Path) {
    for root in [expected, copy] {
        set_time(root, 1_600_000_000, 0);
    }
    assert_same_tree(expected, copy);
}

fn sync_deletes_in_listed_directories_only() {
    let scene = Scene::new();
    let (source, old) = trees(&scene);
    let everything = ["d/e", "a/b", "top", "a", "a/f", "c/f", "./two\nlines"];
    let more: [(&[&str], &[&str]); 10] = [
        (&["a/b"], &[]),
        (&["/a/", "c/f"], &[]),
        (&["d", "top"], &["--exclude", "/d/e/x"]),
        (&["a"], &["--exclude", "/a/z/"]),
        (&["."], &[]),
        (&[], &[]),
        // Filters and lists: only entries that both allow are deleted.
        (&["a/b", "d"], &["--exclude", "/a/"]),
        (&["a", "d"], &["--filter", "P b/", "--filter", "P e/x"]),
        (&["a", "d/e"], &["--exclude", "/a/b/", "--delete-excluded"]),
        (&["a", "d/e"], &["--filter", "H /a/"]),
    ];
    let ways = [Way::Local, Way::Push, Way::Pull].map(|way| (&everything[..], &[][..], way));
    let more = more.map(|(lines, options)| (lines, options, Way::Local));
    for (number, (lines, options, way)) in ways.into_iter().chain(more).enumerate() {
        let _ = list(&scene, lines);
        let [expected, copy] = ["rsync", "haul"].map(|name| scene.join(format!("{name}-{number}")));
        duplicate(&old, &expected);
        duplicate(&old, &copy);
        rsync(&scene, &source, &expected, options);
        let dry = sync(&scene, way, &source, &copy).arg("-n").args(options).finish().expect_success();
        let run = sync(&scene, way, &source, &copy).args(options).finish().expect_success();
        summary(&run).assert_accounted();
        assert_eq!(summary(&dry).of("removed"), summary(&run).of("removed"), "{lines:?} {dry} {run}");
        assert_same(&expected, &copy);
        let again = sync(&scene, way, &source, &copy).args(options).finish().expect_success();
        assert_eq!(summary(&again).of("same"), summary(&again).of("found"), "{lines:?}: {again}");
    }
    let file = list(&scene, &everything);
    let (expected, copy) = (scene.join("rsync-0"), scene.join("sftp"));
    duplicate(&old, &copy);
    let run = sftp::haul(&scene, "sync").arg("-0").arg("--files-from").arg(file);
    let _ = run.arg(slash(source.path())).arg(sftp::sftp(&copy)).finish().expect_success();
    assert_same(&expected, &copy);
}

fn a_listed_path_in_an_excluded_directory_of_a_listed_one_deletes_nothing() {
    let scene = Scene::new();
    let (source, old) = trees(&scene);
    let _ = list(&scene, &["a", "a/b/f"]);
    let copy = scene.join("dst");
    duplicate(&old, &copy);
    let run = sync(&scene, Way::Local, &source, &copy).args(["--exclude", "/a/b/", "--delete-excluded"]);
    let run = run.finish().expect_code(1);
    assert_eq!((summary(&run).of("removed"), names(old.path())), (0, names(&copy)), "{run}");
    assert!(run.out().contains("the listed path a/b/f"), "{run}");
}

fn a_missing_path_of_the_list_deletes_nothing() {
    let scene = Scene::new();
    let (source, old) = trees(&scene);
    let _ = list(&scene, &["a", "c/g", "y", "../x"]);
    let copy = scene.join("dst");
    duplicate(&old, &copy);
    let names_all = |run: &Finished| {
        for name in ["c/g", "y", "../x"] {
            assert!(run.out().contains(&format!("\"{name}\"")), "{name}: {run}");
        }
        assert_eq!(summary(run).of("failed"), 3, "{run}");
    };
    let run = sync(&scene, Way::Local, &source, &copy).finish().expect_code(1);
    names_all(&run);
    assert_eq!(names(old.path()), names(&copy), "{run}");
    let run = sync(&scene, Way::Local, &source, &copy).arg("--ignore-errors").finish().expect_code(1);
    names_all(&run);
    // Nothing is deleted because its name is listed.
    for (name, stays) in [("c/g", true), ("y/x", true), ("c/x", true), ("a/x", false), ("a/b/x", false)] {
        assert_eq!(copy.join(name).exists(), stays, "{name}: {run}");
    }
}

fn an_empty_source_and_an_empty_list_are_two_things() {
    let scene = Scene::new();
    let (source, old) = (scene.tree("src"), scene.tree("old"));
    for number in 0..101 {
        old.file(format!("d/{number}"), 1);
    }
    source.dir("d");
    for (lines, code) in [(&[][..], 0), (&["none"], 1), (&["d/none"], 1), (&["d"], 2), (&["d", "none"], 2)] {
        let _ = list(&scene, lines);
        let run = sync(&scene, Way::Local, &source, old.path()).finish().expect_code(code);
        assert!(old.join("d/100").exists(), "{lines:?}: {run}");
    }
    fs::remove_dir(source.join("d")).unwrap();
    let _ = list(&scene, &["."]);
    let run = sync(&scene, Way::Local, &source, old.path()).finish().expect_code(2);
    assert!(run.said().contains("the source is empty"), "{run}");
    // A list that cannot be read is one failure.
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(old.path())).arg("--files-from");
    // The address 0 is not mapped.
    let run = run.arg("/proc/self/mem").finish().expect_code(1);
    assert_eq!((summary(&run).of("failed"), old.join("d/100").exists()), (1, true), "{run}");
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(old.path())).arg("--files-from");
    let run = run.arg(scene.path()).finish().expect_code(2);
    assert!(run.err().contains("is a directory") && old.join("d/100").exists(), "{run}");
}

fn relative_paths_are_those_of_rsync() {
    let scene = Scene::new();
    let (source, old) = trees(&scene);
    fs::remove_dir_all(old.join("top")).unwrap();
    std::os::unix::fs::symlink("a", source.join("link")).unwrap();
    let other = scene.tree("other");
    for name in ["a/f", "a/only", "d/z/f"] {
        other.file(name, 33);
    }
    for name in ["a", "d/z", "d", ""] {
        other.time(name, 1_500_000_000, 0);
    }
    let at = |name: &str| scene.join(name).into_os_string();
    let ways = [Some(Way::Local), Some(Way::Push), Some(Way::Pull), None];
    let one = ["src/a/../../src/./a/b/", "src/./top", "src/./d/e"];
    let several = ["other/./d", "src/./a/b", "src/./c", "other/./a/only"];
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("copy", &one, &[]),
        ("copy", &several, &["--exclude=/a/b/x"]),
        ("sync", &["src/./a"], &["--exclude=/a/b/x"]),
        ("copy", &["src/./."], &[]),
        // With a slash at its end, the directory behind a link is meant.
        ("copy", &["src/./link/", "src/./c"], &["--exclude=/link/b"]),
    ];
    for (number, (word, names, options)) in cases.into_iter().enumerate() {
        let expected = scene.join(format!("rsync{number}"));
        duplicate(&old, &expected);
        let mut rsync = Command::new("rsync");
        rsync.args(["-aHAXR", "--modify-window=-1"]).args(options);
        rsync.args((word == "sync").then_some("--delete"));
        tool(rsync.args(names.iter().map(|name| at(name))).arg(slash(&expected)));
        for way in if number != 3 { &ways[..] } else { &ways[..1] } {
            let copy = scene.join(format!("{way:?}{number}"));
            duplicate(&old, &copy);
            let run = match way {
                Some(Way::Local) => scene.haul(word),
                Some(_) => scene.haul_ssh(word),
                None => sftp::haul(&scene, word),
            };
            let from = names.iter().map(|name| match way {
                Some(Way::Pull) => scene.remote(at(name)),
                _ => at(name),
            });
            let to = match way {
                Some(Way::Push) => scene.remote(slash(&copy)),
                Some(_) => slash(&copy),
                None => sftp::sftp(&copy),
            };
            let run = run.args(["-R", "--json"]).args(options).args(from).arg(to).finish().expect_success();
            summary(&run).assert_accounted();
            set_time(&expected, 1_600_000_000, 0);
            set_time(&copy, 1_600_000_000, 0);
            let differences = match way {
                // SFTP carries whole seconds.
                None => sftp::differences(&expected, &copy, &[]),
                Some(_) => haul_testkit::differences(&expected, &copy).join("\n"),
            };
            assert_eq!(differences, "", "{way:?} {word} {names:?}");
        }
    }
    // Without `/./` the whole path is kept, and a path that leads up is refused.
    let copy = scene.join("whole");
    let run = scene.haul("copy").arg("-R").arg(source.join("c/f")).arg(&copy).finish();
    let _ = run.expect_success();
    assert!(copy.join(source.join("c/f").strip_prefix("/").unwrap()).exists());
    let run = scene.haul("copy").arg("-R").arg(source.join("a/../c/f")).arg(&copy).finish().expect_code(2);
    assert!(run.said().contains("/./"), "{run}");
    let run = scene.haul("copy").args(["-R", "--json"]).arg(at("src/./c/none")).arg(at("src/./a/f"));
    let run = run.arg(&copy).finish().expect_code(1);
    assert!(run.out().contains("\"c/none\"") && copy.join("a/f").exists(), "{run}");
}

fn verify_compares_listed_paths_only() {
    let scene = Scene::new();
    let (source, old) = trees(&scene);
    fs::remove_dir_all(old.join("top")).unwrap();
    let verify = |way: Way, lines: &[&str], code: i32| {
        let file = list(&scene, lines);
        // Extra entries have changed the times of the directories.
        let run = scene.by(way, "verify", source.path(), old.path()).args(["-O", "-0", "--files-from"]);
        run.arg(file).finish().expect_code(code)
    };
    for way in [Way::Local, Way::Push, Way::Pull] {
        let run = verify(way, &["a", "a/f", "c/f", "a/f"], 0);
        // The directories above and the entries beside a listed file do not count; the extra entries are in `a`.
        assert_eq!((summary(&run).of("found"), summary(&run).of("same")), (5, 5), "{run}");
        let out = run.out();
        let extra: Vec<&str> = out.lines().filter(|line| line.contains("\"difference\":\"extra\"")).collect();
        assert_eq!(extra.len(), 4, "{run}");
        assert!(extra.iter().all(|line| line.contains("\"a/")), "{run}");
    }
    let run = verify(Way::Local, &["top", "c/f", "c/g", "y"], 3);
    assert!(run.out().contains("\"missing\"") && summary(&run).of("failed") == 2, "{run}");
    let run = verify(Way::Local, &["c/f", "c/g"], 1);
    assert!(run.out().contains("c/g"), "{run}");
    let file = list(&scene, &["c/f"]);
    let run = sftp::haul(&scene, "verify").arg("-0").arg("--files-from").arg(file).arg("--json");
    let run = run.arg(source.path()).arg(sftp::sftp(old.path())).finish().expect_success();
    assert_eq!(summary(&run).of("found"), 1, "{run}");
}

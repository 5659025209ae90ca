//! Filters, compared with rsync where it has the option.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::tree::list;
use haul_testkit::{Need, TestMount, TestTree, assert_same_tree, differences, needs};

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        filters_choose_as_in_rsync,
        only_the_files_of_a_list_are_copied,
        existing_and_newer_files_are_left_when_told_to,
        existing_replaces_a_directory_that_has_the_name_of_a_file,
        no_name_becomes_a_link_to_a_file_that_was_left,
        size_alone_may_tell,
    ];
    all.extend(cases![Need::Tmpfs; other_file_systems_are_left_out_when_told_to]);
    all
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for name in [
        "a.txt",
        "b.tmp",
        "build/a.o",
        "build/keep/b.o",
        "src/main.c",
        "src/build/x",
        "src/deep/er/a.txt",
        "src/deep/er/b.tmp",
        "docs/a.txt",
        "docs/[x]/y",
        "docs/star*/z",
        "docs/q?",
        ".hidden/a.txt",
        "foo/bar/baz",
        "foo/barbaz",
        "x/foo/bar/qux",
        "UPPER.TXT",
        "back\\slash",
        "sp ace/a b.txt",
        "empty",
    ] {
        tree.file(name, 200 + name.len() as u64);
    }
    fs::write(tree.join("empty"), "").unwrap();
    tree.dir("empty-directory");
    tree.link("link.tmp", "a.txt");
    tree.file("big", 3_000_000);
    tree.file("mebibyte", 1 << 20);
    tree.file("megabyte", 1_000_000);
    tree
}

/// Options that rsync has, too.
const FILTERS: [&[&str]; 24] = [
    &["--exclude", "*.tmp"],
    &["--exclude", "/build"],
    &["--exclude", "build/"],
    &["--exclude", "build"],
    &["--exclude", "a.txt/"],
    &["--exclude", "src/deep"],
    &["--exclude", "/src/**/a.txt"],
    &["--exclude", "foo/bar"],
    &["--exclude", "foo/bar/**"],
    &["--exclude", "foo/bar/***"],
    &["--exclude", "**/er/*"],
    &["--exclude", "?.txt"],
    &["--exclude", "[ab].t*"],
    &["--exclude", "[!a].txt"],
    &["--exclude", "docs/\\[x\\]"],
    &["--exclude", "star\\*"],
    &["--exclude", ".*"],
    &["--include", "*.txt", "--exclude", "*.*"],
    &["--include", "*/", "--include", "*.txt", "--exclude", "*"],
    &["--exclude", "*", "--include", "*.txt"],
    &["--include", "/src/", "--include", "/src/**", "--exclude", "*"],
    &["--exclude", "*.o", "--include", "build/keep/b.o", "--exclude", "sp ace"],
    &["--min-size", "1K", "--max-size", "2000000"],
    &["--max-size", "1M"],
];

/// The same copy by rsync, with times to the nanosecond.
fn rsync(options: &[&str], source: &TestTree, copy: &Path) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-a", "--modify-window=-1"]).args(options).arg(slash(source.path())).arg(copy);
    needs::tool(&mut rsync);
}

fn filters_choose_as_in_rsync() {
    let scene = Scene::new();
    let source = source(&scene);
    let mut wrong = Vec::new();
    for (number, options) in FILTERS.iter().enumerate() {
        let wanted = scene.join(format!("rsync-{number}"));
        rsync(options, &source, &wanted);
        // Rules are the source's business: here, or far.
        for way in [Way::Local, Way::Pull] {
            let copy = scene.join(format!("{way:?}-{number}"));
            let run = scene.copy(way, source.path(), &copy).args(*options).finish().expect_success();
            summary(&run).assert_accounted();
            let found = differences(&wanted, &copy);
            if !found.is_empty() {
                wrong.push(format!("{way:?} with {options:?}: {found:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // From a file, with comments.
    let rules = scene.join("rules");
    fs::write(&rules, "# comment\n\n; comment\n*.tmp\n- build/\n+ a.txt\n").unwrap();
    let rules = rules.to_str().unwrap();
    let wanted = scene.join("rsync-from");
    rsync(&["--exclude-from", rules], &source, &wanted);
    let copy = scene.join("from");
    let _ =
        scene.copy(Way::Pull, source.path(), &copy).args(["--exclude-from", rules]).finish().expect_success();
    assert_same_tree(&wanted, &copy);
}

fn only_the_files_of_a_list_are_copied() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        let expected = [
            "docs",
            "docs/a.txt",
            "src",
            "src/deep",
            "src/deep/er",
            "src/deep/er/a.txt",
            "src/deep/er/b.tmp",
            "two\nlines",
        ];
        source.file("two\nlines", 10);
        let lines = "docs/a.txt\0src/deep\0./two\nlines\0";
        let copy = scene.join("dst");
        let run =
            scene.copy(way, source.path(), &copy).args(["-0", "--files-from", "-"]).input(lines).finish();
        summary(&run.expect_success()).assert_accounted();
        let found: Vec<String> = list(&copy).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, expected, "{way:?}");
        // A name that is not there is named, fails, and harms nothing else.
        let names = scene.join("names");
        fs::write(&names, "a.txt\nno such file\n# comment\nfoo/bar/baz\n").unwrap();
        let run =
            scene.copy(way, source.path(), &copy).args(["--files-from", names.to_str().unwrap()]).finish();
        let run = run.expect_code(1);
        assert!(run.said().contains("no such file"), "{run}");
        assert!(copy.join("a.txt").exists() && copy.join("foo/bar/baz").exists(), "{way:?}");
        assert!(!copy.join("foo/barbaz").exists(), "{way:?}");
    }
}

/// The file may be offered more than once, and the directory is removed at the first offer.
fn existing_replaces_a_directory_that_has_the_name_of_a_file() {
    for way in WAYS {
        for options in [&["-c"][..], &["--manifest", "list"], &[]] {
            for (command, content) in [("copy", None), ("sync", None), ("sync", Some("deep/f"))] {
                let scene = Scene::new();
                let (source, copy) = (scene.tree("src"), scene.tree("dst"));
                source.text("name", "content");
                source.text("new", "x");
                fs::create_dir(copy.join("name")).unwrap();
                content.iter().for_each(|name| drop(copy.text(format!("name/{name}"), "y")));
                let run = scene.by(way, command, slash(source.path()), slash(copy.path()));
                let run = run.arg("--existing").args(options).in_dir(scene.path()).finish().expect_success();
                let read = fs::read_to_string(copy.join("name"));
                assert_eq!(read.ok().as_deref(), Some("content"), "{way:?} {command} {options:?}: {run}");
                assert!(!copy.join("new").exists(), "{way:?} {command} {options:?}: {run}");
            }
        }
    }
}

fn existing_and_newer_files_are_left_when_told_to() {
    for way in WAYS {
        let scene = Scene::new();
        let source = scene.tree("src");
        for name in ["older", "newer", "absent"] {
            source.text(name, "source");
            source.time(name, 1_600_000_000, 0);
        }
        let states = |option: &str| {
            let copy = TestTree::new(scene.join(format!("dst{option}")), 1);
            for (name, time) in [("older", 1_500_000_000), ("newer", 1_700_000_000)] {
                copy.text(name, "there");
                copy.time(name, time, 0);
            }
            let run = scene.copy(way, source.path(), copy.path()).arg(option).finish().expect_success();
            summary(&run).assert_accounted();
            ["older", "newer", "absent"].map(|name| fs::read_to_string(copy.join(name)).unwrap_or_default())
        };
        assert_eq!(states("--ignore-existing"), ["there", "there", "source"], "{way:?}");
        assert_eq!(states("--existing"), ["source", "source", ""], "{way:?}");
        assert_eq!(states("--update"), ["source", "there", "source"], "{way:?}");
        assert_eq!(states("-a"), ["source", "source", "source"], "{way:?}");
    }
}

fn size_alone_may_tell() {
    for way in WAYS {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        source.text("same size", "one");
        copy.text("same size", "two");
        source.text("other size", "three");
        copy.text("other size", "four");
        let _ = scene.copy(way, source.path(), copy.path()).arg("--size-only").finish().expect_success();
        assert_eq!(fs::read_to_string(copy.join("same size")).unwrap(), "two", "{way:?}");
        assert_eq!(fs::read_to_string(copy.join("other size")).unwrap(), "three", "{way:?}");
    }
}

fn other_file_systems_are_left_out_when_told_to() {
    for way in WAYS {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("here", 10);
        let mount = TestMount::tmpfs_at(&source.dir("mounted"), 1 << 20);
        fs::write(mount.join("there"), "x").unwrap();
        let copy = scene.join("one");
        let _ = scene.copy(way, source.path(), &copy).arg("-x").finish().expect_success();
        assert!(copy.join("here").exists() && !copy.join("mounted/there").exists(), "{way:?}");
        assert!(copy.join("mounted").is_dir(), "{way:?}: the directory itself is there, as in rsync");
        let copy = scene.join("all");
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert!(copy.join("mounted/there").exists(), "{way:?}");
    }
}

/// Three names of one file, and each state that each of them can have at the destination.
fn no_name_becomes_a_link_to_a_file_that_was_left() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let scene = Scene::new();
    let (source, before) = (scene.tree("src"), scene.tree("before"));
    let file = |tree: &TestTree, name: &str, text: &str, time: i64| {
        tree.text(name, text);
        tree.time(name, time, 0);
    };
    for number in 0..64 {
        let dir = format!("{number:02}");
        file(&source, &format!("{dir}/a"), "original", 1_000_000);
        before.dir(&dir);
        for (at, name) in NAMES.iter().enumerate() {
            let name = format!("{dir}/{name}");
            if at > 0 {
                fs::hard_link(source.join(format!("{dir}/a")), source.join(&name)).unwrap();
            }
            match number >> (2 * at) & 3 {
                0 => {}
                1 => file(&before, &name, "original", 1_000_000),
                2 => file(&before, &name, "newer", 2_000_000),
                _ => file(&before, &name, "older text", 500_000),
            }
        }
    }
    let texts = |root: &Path| -> Vec<(String, PathBuf)> {
        let files = list(root).into_iter().filter(|name| root.join(name).is_file());
        let mut texts: Vec<_> =
            files.map(|name| (fs::read_to_string(root.join(&name)).unwrap(), name)).collect();
        texts.sort_by(|one: &(String, PathBuf), other| one.1.cmp(&other.1));
        texts
    };
    for option in ["--update", "--ignore-existing", "--checksum"] {
        let start = |name: &str| {
            let to = scene.join(name);
            let made = Command::new("cp").arg("-a").arg(before.path()).arg(&to).status().unwrap();
            assert!(made.success());
            to
        };
        // rsync makes a newer file a link, too, if the first name is up to date.
        let mut expected = texts(before.path());
        let stays = |text: &str| option == "--ignore-existing" || option == "--update" && text == "newer";
        expected.retain(|(text, _)| stays(text));
        let others = list(source.path()).into_iter().filter(|name| source.join(name).is_file());
        let others: Vec<_> = others.filter(|name| !expected.iter().any(|(_, left)| left == name)).collect();
        expected.extend(others.into_iter().map(|name| ("original".to_owned(), name)));
        expected.sort_by(|one, other| one.1.cmp(&other.1));
        for way in WAYS {
            let copy = start(&format!("copy{option}{way:?}"));
            let run = scene.copy(way, source.path(), &copy).arg(option).finish().expect_success();
            assert_eq!(texts(&copy), expected, "{option} {way:?}: {run}");
        }
        let copy = start(&format!("copy{option}-sftp"));
        let shell = scene.sshd().shell();
        let to = format!("sftp://{}{}/", scene.sshd().host(), copy.display());
        let run = scene.haul("copy").args(["-e", &shell, option]).arg(slash(source.path())).arg(to);
        let run = run.finish().expect_success();
        assert_eq!(texts(&copy), expected, "{option} over SFTP: {run}");
    }
}

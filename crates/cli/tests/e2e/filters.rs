//! The rules of `--filter`, and the entries that they protect from deletion, compared with rsync on random rules and
//! trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use haul_testkit::content::Random;
use haul_testkit::tree::{list, set_time};
use haul_testkit::{TestTree, needs};

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        sync_with_random_rules_leaves_the_tree_of_rsync,
        files_of_rules_above_the_source_count,
        a_text_that_is_no_rule_is_refused,
        an_unreadable_file_of_rules_deletes_nothing,
        verify_and_hash_read_the_rules_of_directories,
        files_that_cvs_ignores_are_excluded,
        tagged_directories_are_excluded_and_protected,
    ]
}

const DIRS: &[&str] = &["", "d", "e", "d/e", "d/d", "e/f", "d/e/f", "g", "g/d"];
const NAMES: &[&str] = &["a", "b", "c", "a.o", "b.o", "x.tmp", "keep", "d", "f"];
const PATTERNS: &[&str] = &[
    "a", "b", "*.o", "/d", "d/", "/d/a", "d/**", "e/***", "*", "*/", "b*", "/*/a", "**/c", ".f", "keep",
    "/e/", "d/e", "f/", "[ab]", "*.tmp", "/g/d/", "?",
];
const PREFIXES: &[&str] = &[
    "- ",
    "- ",
    "- ",
    "+ ",
    "+ ",
    "H ",
    "H ",
    "S ",
    "P ",
    "P ",
    "R ",
    "-! ",
    "-p ",
    "P,p ",
    "exclude,sr ",
    "protect ",
];

fn rule(random: &mut Random) -> String {
    format!("{}{}", random.pick(PREFIXES), random.pick(PATTERNS))
}

fn rules_file(random: &mut Random) -> String {
    (0..=random.between(0, 3)).map(|_| format!("{}\n", rule(random))).collect()
}

/// Puts random entries into a tree. `label` is the content of its files.
fn fill(random: &mut Random, tree: &Path, label: &str, time: i64) {
    for _ in 0..36 {
        let path = tree.join(random.pick(DIRS)).join(random.pick(NAMES));
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match random.between(0, 8) {
            0 => fs::create_dir(&path).unwrap(),
            1 => symlink(label, &path).unwrap(),
            _ => {
                fs::write(&path, label).unwrap();
                set_time(&path, time, 0);
            }
        }
    }
    for dir in DIRS {
        let path = tree.join(dir).join(".f");
        if random.between(0, 3) == 0 && tree.join(dir).is_dir() && path.symlink_metadata().is_err() {
            fs::write(&path, rules_file(random)).unwrap();
            set_time(&path, time, 0);
        }
    }
}

/// Each path with its kind.
fn state(root: &Path) -> Vec<(String, String)> {
    let describe = |path: &Path| {
        let full = root.join(path);
        let meta = full.symlink_metadata().unwrap();
        if meta.is_dir() {
            "directory".to_owned()
        } else if meta.is_symlink() {
            format!("-> {}", fs::read_link(&full).unwrap().display())
        } else {
            String::from_utf8_lossy(&fs::read(&full).unwrap()).into_owned()
        }
    };
    list(root).iter().map(|path| (path.display().to_string(), describe(path))).collect()
}

fn rsync(options: &[String], source: &Path, copy: &Path) -> std::process::Output {
    let mut rsync = Command::new("rsync");
    // As haul, it deletes when all files of rules have arrived.
    rsync.args(["-aHAX", "--delete-after"]).args(options).arg(slash(source)).arg(slash(copy));
    rsync.env("HOME", "/nonexistent").output().unwrap()
}

fn duplicate(from: &Path, to: &Path) {
    needs::tool(Command::new("cp").arg("-a").arg(from).arg(to));
}

fn sync_with_random_rules_leaves_the_tree_of_rsync() {
    const MERGES: &[&str] =
        &[": .f", ": .f", ":n .f", ":e .f", ":s .f", ":r .f", "dir-merge,p .f", "-C", ". more"];
    let scene = Scene::new();
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut wrong = Vec::new();
    for number in 0..cases_to_run() {
        let at = |name: &str| scene.join(format!("{name}-{number}"));
        let (source, copy, wanted) = (at("src"), at("dst"), at("rsync"));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&copy).unwrap();
        fill(&mut random, &source, "source", 1_600_000_000);
        fill(&mut random, &copy, "copy", 1_500_000_000);
        duplicate(&copy, &wanted);
        // rsync makes room for a file before it has read the rules of the directories above.
        let is_replaced = |path: &Path| {
            copy.join(path).is_dir() && source.join(path).exists() && !source.join(path).is_dir()
        };
        let has_replaced = list(&copy).iter().any(|path| is_replaced(path));
        let more = at("more");
        fs::write(&more, rules_file(&mut random)).unwrap();
        let mut rules: Vec<String> = (0..=random.between(0, 3)).map(|_| rule(&mut random)).collect();
        if !has_replaced && random.between(0, 3) > 0 {
            let merge = random.pick(MERGES).replace("more", more.to_str().unwrap());
            rules.insert(random.between(0, rules.len() as u64 + 1) as usize, merge);
        }
        let mut options: Vec<String> =
            rules.iter().flat_map(|rule| ["-f".to_owned(), rule.clone()]).collect();
        if random.between(0, 4) == 0 {
            options.push("--delete-excluded".to_owned());
        }
        let way = [Way::Local, Way::Local, Way::Local, Way::Pull, Way::Local, Way::Push][number % 6];
        let run = scene.by(way, "sync", slash(&source), slash(&copy)).env("HOME", "/nonexistent");
        let run = run.args(&options).arg("--force-delete").finish();
        let made = rsync(&options, &source, &wanted);
        if made.status.code() == Some(1) {
            // A file names sides, and so does the rule that merges it. haul does not read it where it does not count.
            continue;
        }
        let (found, wanted) = (state(&copy), state(&wanted));
        if found != wanted {
            let only = |some: &[(String, String)], others: &[(String, String)]| -> Vec<_> {
                some.iter().filter(|one| !others.contains(one)).cloned().collect()
            };
            wrong.push(format!(
                "{number} {way:?} {options:?}: haul {:?}, rsync {:?}\n{run}\n{}",
                only(&found, &wanted),
                only(&wanted, &found),
                String::from_utf8_lossy(&made.stderr),
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// How many random trees: `FILTER_CASES=1000` for a longer search.
fn cases_to_run() -> usize {
    std::env::var("FILTER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

fn files_of_rules_above_the_source_count() {
    for way in [Way::Local, Way::Pull, Way::Push] {
        let scene = Scene::new();
        let source = scene.tree("up/src");
        for name in ["a.o", "b", "c", "sub/b", "sub/a.o", "sub/deep/c"] {
            source.file(name, 10);
        }
        fs::write(scene.join("up/.rsync-filter"), "- *.o\n- /src/b\n- /b\n").unwrap();
        source.text("sub/.rsync-filter", "- /deep/c\n");
        let copy = TestTree::new(scene.join("dst"), 1);
        copy.text("old.o", "kept by no rule there");
        copy.text("sub/gone", "x");
        let wanted = scene.join("rsync");
        duplicate(copy.path(), &wanted);
        let options = ["-F".to_owned(), format!("--filter=-/ {}/c", source.path().display())];
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).args(&options);
        let _ = run.arg("--force-delete").finish().expect_success();
        assert!(rsync(&options, source.path(), &wanted).status.success());
        assert_eq!(state(copy.path()), state(&wanted), "{way:?}");
        assert!(!copy.join("b").exists() && copy.join("sub/b").exists() && !copy.join("sub/a.o").exists());
    }
}

fn a_text_that_is_no_rule_is_refused() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("sub/a", 1);
    copy.file("old", 1);
    for (rule, said) in [
        ("foo", "begins with"),
        ("-x user.*", "--no-xattrs"),
        ("-foo", "takes no modifier `f`"),
        ("- ", "pattern is missing"),
        ("merge /no/such/file", "/no/such/file"),
    ] {
        let run = scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path())).args(["-f", rule]);
        let run = run.finish().expect_code(2);
        assert!(run.said().contains(said), "{rule}: {run}");
    }
    // In a file of the tree, here and at the remote end.
    source.text("sub/.f", "- a\nnonsense\n");
    for way in [Way::Local, Way::Pull, Way::Push] {
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).args(["-f", ": .f"]);
        let run = run.finish().expect_code(2);
        assert!(run.said().contains("nonsense") && run.said().contains("sub/.f"), "{way:?}: {run}");
        assert!(copy.join("old").exists());
    }
}

fn an_unreadable_file_of_rules_deletes_nothing() {
    for way in [Way::Local, Way::Pull] {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        source.file("sub/a", 1);
        source.file("b", 1);
        source.link("sub/.f", "../rules");
        copy.file("old", 1);
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).args(["-f", ": .f"]);
        let run = run.finish().expect_code(1);
        assert!(run.said().contains("symbolic link"), "{run}");
        assert!(copy.join("old").exists() && copy.join("b").exists() && !copy.join("sub/a").exists());
    }
}

fn verify_and_hash_read_the_rules_of_directories() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for name in ["a", "sub/a", "sub/b.o"] {
        source.text(name, "x");
    }
    source.text("sub/.f", "- *.o\n");
    copy.text("sub/extra.o", "x");
    for way in [Way::Local, Way::Pull] {
        let run = scene.by(way, "copy", slash(source.path()), slash(copy.path())).args(["-f", ": .f"]);
        let _ = run.finish().expect_success();
        let run = scene.by(way, "verify", slash(source.path()), slash(copy.path())).args(["-f", ": .f"]);
        let run = run.finish().expect_success();
        assert!(!run.said().contains("extra.o") && !run.said().contains("b.o"), "{run}");
        fs::remove_file(copy.join("a")).unwrap();
    }
    let run = scene.haul("hash").args(["-f", ": .f"]).arg(slash(source.path())).finish().expect_success();
    assert!(run.out().contains("sub/a") && !run.out().contains("b.o"), "{run}");
}

fn files_that_cvs_ignores_are_excluded() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for name in ["a.c", "a.o", "a~", ".git/config", "sub/a.o", "sub/log", "sub/deep/log", "core"] {
        source.text(name, "source");
    }
    source.text("sub/.cvsignore", "log  *.c\n");
    for name in ["b.o", "gone/c.o", "gone/x", "sub/log"] {
        copy.text(name, "copy");
    }
    let wanted = scene.join("rsync");
    duplicate(copy.path(), &wanted);
    let run =
        scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path())).env("HOME", "/nonexistent");
    let _ = run.args(["--cvs-exclude", "--force-delete"]).finish().expect_success();
    assert!(rsync(&["-C".to_owned()], source.path(), &wanted).status.success());
    assert_eq!(state(copy.path()), state(&wanted));
    assert!(copy.join("b.o").exists() && !copy.join("gone").exists() && copy.join("sub/deep/log").exists());
}

fn tagged_directories_are_excluded_and_protected() {
    const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";
    for way in [Way::Local, Way::Pull, Way::Push] {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        for name in ["a", "no/a", "no/sub/b", "cache/c", "not/c", "sub/no/d"] {
            source.text(name, "source");
        }
        for (name, text) in
            [("no/.no", ""), ("sub/no/.no", ""), ("cache/CACHEDIR.TAG", SIGNATURE), ("not/CACHEDIR.TAG", "x")]
        {
            source.text(name, text);
        }
        for name in ["no/old", "cache/old", "not/old", "gone"] {
            copy.text(name, "copy");
        }
        let sync = || {
            let run = scene.by(way, "sync", slash(source.path()), slash(copy.path()));
            run.args(["--exclude-if-present", ".no", "--exclude-caches", "--include=*", "--force-delete"])
        };
        let names = || list(copy.path()).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let _ = sync().finish().expect_success();
        let kept = [
            "a",
            "cache",
            "cache/CACHEDIR.TAG",
            "no",
            "no/.no",
            "not",
            "not/CACHEDIR.TAG",
            "not/c",
            "sub",
            "sub/no",
            "sub/no/.no",
        ];
        let mut all = [&kept[..], &["cache/old", "no/old"]].concat();
        all.sort_unstable();
        assert_eq!(names(), all, "{way:?}");
        let _ = sync().arg("--delete-excluded").finish().expect_success();
        assert_eq!(names(), kept, "{way:?}");
    }
}

//! `--backup`, `--backup-dir` and `--suffix`, compared with rsync, and the state after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{joined, kill};
use haul_testkit::tree::list;
use haul_testkit::{FaultPlan, Need, Random, TestTree};

use crate::scene::{REMOTE, Scene, WAYS, Way, slash};
use crate::sftp;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        old_versions_are_kept_as_by_rsync,
        backups_on_another_file_system_are_refused_by_name,
    ];
    all.extend(cases![
        a_single_file_is_kept_as_by_rsync,
        sync_deletes_no_backups,
        names_of_backups_are_refused_at_the_source,
        a_killed_run_loses_no_old_version,
        backups_that_cannot_be_made_are_refused,
    ]);
    all
}

/// The tree that the second run finds: replaced files, links and kinds, and entries that the source no longer has.
fn older(scene: &Scene, name: &str) -> TestTree {
    let tree = scene.tree(name);
    for name in ["same", "d/changed", "d/e/changed", "large", "gone", "d/gone", "to-link", "first", "hidden"]
    {
        tree.text(name, format!("older {name}"));
        tree.time(name, 1_500_000_000, 0);
    }
    fs::hard_link(tree.join("first"), tree.join("second")).unwrap();
    symlink("older", tree.join("link")).unwrap();
    symlink("gone", tree.join("d/gone-link")).unwrap();
    tool(Command::new("mkfifo").arg(tree.join("pipe")));
    fs::create_dir_all(tree.join("gone-dir/sub")).unwrap();
    tree.text("gone-dir/sub/f", b"older");
    tree.text("to-dir", b"a file in the place of a directory");
    for (dir, mode) in [("d", 0o755), ("d/e", 0o750), ("gone-dir", 0o711), ("gone-dir/sub", 0o700)] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(tree.join(dir), fs::Permissions::from_mode(mode)).unwrap();
    }
    tree
}

fn newer(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    tree.text("same", b"older same");
    tree.time("same", 1_500_000_000, 0);
    for (name, len) in
        [("d/changed", 500), ("d/e/changed", 6), ("large", 9 << 20), ("new", 10), ("first", 30)]
    {
        tree.file(name, len);
    }
    fs::hard_link(tree.join("first"), tree.join("second")).unwrap();
    symlink("newer", tree.join("link")).unwrap();
    symlink("newer", tree.join("to-link")).unwrap();
    tree.file("pipe", 40);
    tree.file("to-dir/f", 50);
    tree.file("hidden", 60);
    for path in list(tree.path()) {
        tree.time(path, 1_600_000_000, 0);
    }
    tree.time("same", 1_500_000_000, 0);
    tree
}

/// Each entry with its kind and content.
fn found(root: &Path) -> BTreeMap<PathBuf, String> {
    let describe = |path: &Path| {
        let metadata = path.symlink_metadata().unwrap();
        let kind = metadata.file_type();
        if kind.is_file() {
            return format!("file {}", blake3::hash(&fs::read(path).unwrap()));
        }
        if kind.is_symlink() {
            return format!("link {}", fs::read_link(path).unwrap().display());
        }
        if kind.is_dir() { "dir".to_owned() } else { format!("{kind:?}") }
    };
    list(root).into_iter().map(|path| (path.clone(), describe(&root.join(path)))).collect()
}

fn old_versions_are_kept_as_by_rsync() {
    for (number, (command, options, rsync)) in [
        ("copy", &["--backup"][..], &[][..]),
        ("sync", &["-b", "--suffix=.old"], &["--delete"]),
        // rsync would delete the backups, unless told otherwise.
        ("sync", &["--backup-dir=d/old", "--force-delete"], &["--delete", "-b", "--filter=P /d/old"]),
        ("sync", &["--backup-dir=../old"], &["--delete", "-b"]),
        ("sync", &["--backup-dir=../old/deep", "--suffix=.1", "--exclude=hidden"], &["--delete", "-b"]),
    ]
    .into_iter()
    .enumerate()
    {
        let ways: &[Way] = if number % 2 == 1 { &WAYS } else { &[Way::Local] };
        for way in ways {
            let scene = Scene::new();
            let source = newer(&scene);
            let [expected, copy] = ["rsync", "haul"].map(|name| older(&scene, &format!("{name}/dst")));
            let rsync_words = options.iter().filter(|word| **word != "--force-delete").chain(rsync);
            tool(
                Command::new("rsync")
                    .arg("-aH")
                    .args(rsync_words)
                    .arg(slash(source.path()))
                    .arg(slash(expected.path())),
            );
            for _ in 0..2 {
                let run = scene.by(*way, command, slash(source.path()), slash(copy.path()));
                let _ = run.args(options).finish().expect_success();
                let (wanted, found) = (found(&scene.join("rsync")), found(&scene.join("haul")));
                assert!(wanted == found, "{options:?} {way:?}\nrsync: {wanted:#?}\nhaul: {found:#?}");
            }
        }
    }
}

fn a_single_file_is_kept_as_by_rsync() {
    for options in [&["--backup"][..], &["-b", "--backup-dir=old"]] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("f", 100);
        for (tool_name, to) in [("rsync", "f"), ("haul", "f"), ("rsync", "other"), ("haul", "other")] {
            let dir = scene.tree(tool_name);
            dir.text(to, b"older");
            let to = if to == "f" { slash(dir.path()) } else { dir.join(to).into_os_string() };
            if tool_name == "rsync" {
                tool(Command::new("rsync").arg("-a").args(options).arg(source.join("f")).arg(to));
            } else {
                let run = scene.haul("copy").args(options).arg(source.join("f")).arg(to);
                let _ = run.finish().expect_success();
            }
        }
        assert_eq!(found(&scene.join("rsync")), found(&scene.join("haul")), "{options:?}");
    }
}

fn sync_deletes_no_backups() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("f", 10);
    copy.text("f", b"older");
    for round in 0..3 {
        let run = scene.haul("sync").args(["-b", "--force-delete"]).arg(slash(source.path()));
        let _ = run.arg(slash(copy.path())).finish().expect_success();
        assert_eq!(fs::read(copy.join("f~")).unwrap(), b"older", "{round}");
    }
    fs::remove_file(source.join("f")).unwrap();
    source.file("g", 10);
    let run = scene.haul("sync").args(["-b", "--force-delete"]).arg(slash(source.path()));
    let _ = run.arg(slash(copy.path())).finish().expect_success();
    assert!(!copy.join("f").exists());
    assert_eq!(fs::read(copy.join("f~")).unwrap().len(), 10, "the last version before the deletion");
}

fn names_of_backups_are_refused_at_the_source() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for name in ["f", "f~", "d~/g", "old/h"] {
        source.file(name, 10);
    }
    copy.text("f", b"older");
    for (option, refused) in [("--backup", &["f~", "d~"][..]), ("--backup-dir=old", &["old"])] {
        let run = scene.haul("copy").arg(option).arg(slash(source.path())).arg(slash(copy.path()));
        let run = run.finish().expect_code(1);
        assert!(run.said().contains("belongs to the backups of the destination"), "{run}");
        for name in refused {
            let is_there = copy.join(name).exists() && *name != "f~" && *name != "old";
            assert!(run.said().contains(name) && !is_there, "{name} {run}");
        }
        if option == "--backup" {
            assert_eq!(fs::read(copy.join("f~")).unwrap(), b"older");
        }
    }
}

fn a_killed_run_loses_no_old_version() {
    let seed = Random::any_seed();
    eprintln!("kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let mut kills = 0;
    for tour in 0..6 {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), seed, &[(6 << 20) + 5], 600);
        let old = TestTree::mixed(scene.join("dst"), seed + 1, &[(6 << 20) + 7], 600);
        let copy = scene.join("dst");
        let before = found(old.path());
        let plan = FaultPlan::new(scene.join("plan"));
        let option = ["--backup", "--backup-dir=../old"][tour % 2];
        for round in 0.. {
            assert!(round < 60, "each run brings it further");
            plan.restart();
            let local = tour < 3;
            let run = if local { scene.haul("copy") } else { scene.haul_fault("copy", &plan) };
            let to = slash(&copy);
            let to = if local { to } else { joined(&[REMOTE.as_bytes(), b":", to.as_bytes()]) };
            // The limit keeps a fast machine from finishing before the kill.
            let mut run = run.args([option, "--bwlimit=8M"]).arg(slash(source.path())).arg(to).start();
            std::thread::sleep(Duration::from_millis(random.between(5, 600 + 60 * round)));
            kills += u32::from(run.is_running());
            if local || round % 2 == 0 {
                kill(run.pid());
            } else {
                run.agents().into_iter().for_each(kill);
            }
            let end = run.finish();
            scene.assert_all_gone();
            let (new, now) = (found(source.path()), found(&copy));
            let kept = if tour % 2 == 0 { BTreeMap::new() } else { found(&scene.join("old")) };
            for (path, old) in before.iter().filter(|(_, old)| old.starts_with("file")) {
                let backup = if tour % 2 == 0 {
                    now.get(&PathBuf::from(format!("{}~", path.display())))
                } else {
                    kept.get(path)
                };
                let is_here = now.get(path) == Some(old);
                assert!(is_here || backup == Some(old), "{} is lost: {end}", path.display());
                assert!(is_here || now.get(path) == new.get(path), "{} is neither: {end}", path.display());
            }
            if end.code() == Some(0) {
                assert!(new.iter().all(|(path, new)| now.get(path) == Some(new)));
                break;
            }
        }
    }
    eprintln!("kill loop: {kills} kills");
    assert!(kills > 2);
}

fn backups_on_another_file_system_are_refused_by_name() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    for name in ["f", "g"] {
        source.file(name, 10);
        copy.text(name, b"older");
    }
    for way in WAYS {
        let run = scene.copy(way, source.path(), copy.path()).arg("--backup-dir");
        let run = run.arg(other.path().join("not/made/yet")).finish().expect_code(1);
        assert!(run.said().contains("--backup-dir on the file system of the destination"), "{run}");
        assert_eq!(run.err().matches("on another file system").count(), 1, "{run}");
        assert!(!run.said().contains("again"), "{run}");
        assert_eq!(fs::read(copy.join("f")).unwrap(), b"older");
    }
    assert!(fs::read_dir(other.path()).unwrap().next().is_none(), "no directory is made");
}

fn backups_that_cannot_be_made_are_refused() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("f", 10);
    copy.text("f", b"older");
    for (options, why) in [
        (&["--suffix=.old"][..], "--backup is missing"),
        (&["-b", "--suffix="], "has the name of the entry itself"),
        (&["-b", "--suffix=a/b"], "cannot contain a slash"),
        (&["--backup-dir="], "the name of the directory is empty"),
        (&["-b", "--inplace"], "--inplace"),
    ] {
        let run = scene.copy(Way::Local, source.path(), copy.path()).args(options).finish().expect_code(2);
        assert!(run.said().contains(why), "{run}");
    }
    let run = sftp::push(&scene, source.path(), copy.path()).arg("--backup").finish().expect_code(2);
    assert!(run.said().contains("files can only be replaced"), "{run}");
    // The tree itself under another name.
    symlink(copy.path(), scene.join("alias")).unwrap();
    let run = scene.copy(Way::Local, source.path(), copy.path()).arg("--backup-dir");
    let run = run.arg(scene.join("alias/x")).finish().expect_code(1);
    assert!(run.said().contains("in the destination under another name"), "{run}");
    assert_eq!(fs::read(copy.join("f")).unwrap(), b"older");
}

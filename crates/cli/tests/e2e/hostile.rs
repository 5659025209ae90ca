//! A destination that is not trusted: nothing outside of it is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_testkit::compare::fingerprint;
use haul_testkit::{FaultPlan, TestTree, assert_same_tree};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_planted_link_to_a_directory_is_not_followed,
        a_planted_link_at_the_name_of_a_file_is_not_followed,
        planted_staging_names_are_not_followed,
        a_directory_swapped_for_a_link_during_the_run_is_not_followed,
        a_source_directory_swapped_for_a_link_during_the_run_is_not_followed,
        deletion_does_not_follow_a_planted_link,
        a_list_of_names_cannot_lead_outside,
        a_file_that_is_linked_elsewhere_is_replaced_not_overwritten,
        a_host_that_looks_like_an_option_is_refused,
    ]
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

/// A directory outside of everything that is copied, and how it looked.
struct Outside {
    tree: TestTree,
    before: std::collections::BTreeMap<PathBuf, [i64; 5]>,
}

impl Outside {
    fn new(scene: &Scene) -> Self {
        let tree = scene.tree("outside");
        tree.text("precious", "untouched");
        tree.text("directory/precious", "untouched, too");
        tree.text("file", "untouched as well");
        let before = fingerprint(tree.path());
        Self { tree, before }
    }

    fn assert_untouched(&self) {
        let after = fingerprint(self.tree.path());
        assert!(after == self.before, "before {:?}\nafter {after:?}", self.before);
    }
}

/// Directories and files of the names that [`Outside`] has.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for name in ["directory/precious", "directory/new", "directory/below/new", "file", "precious", "last"] {
        tree.file(name, 3000);
    }
    tree.file("directory/big", 9 << 20);
    tree
}

fn a_planted_link_to_a_directory_is_not_followed() {
    for way in WAYS {
        let scene = Scene::new();
        let outside = Outside::new(&scene);
        let (source, copy) = (source(&scene), scene.tree("dst"));
        copy.link("directory", "../outside/directory");
        let run = scene.copy(way, source.path(), copy.path()).finish();
        outside.assert_untouched();
        // rsync puts a directory in the place of the link, and so may haul.
        match run.code() {
            Some(0) => assert_same_tree(source.path(), copy.path()),
            Some(1) => assert!(run.said().contains("directory"), "{run}"),
            _ => panic!("{way:?}: {run}"),
        }
        assert!(copy.join("last").exists(), "{way:?}: the rest is copied");
    }
}

fn a_planted_link_at_the_name_of_a_file_is_not_followed() {
    for way in WAYS {
        for more in [&[][..], &["--checksum"], &["--size-only"], &["--update"], &["--verify", "disk"]] {
            let scene = Scene::new();
            let outside = Outside::new(&scene);
            let (source, copy) = (source(&scene), scene.tree("dst"));
            copy.link("file", "../outside/file");
            copy.link("precious", outside.tree.join("precious"));
            copy.link("last", "../outside/does-not-exist-yet");
            let run = scene.copy(way, source.path(), copy.path()).args(more).finish();
            outside.assert_untouched();
            if !more.contains(&"--update") {
                summary(&run.expect_success()).assert_accounted();
                assert_same_tree(source.path(), copy.path());
            }
        }
    }
}

/// The names under which the content of `name` may be staged.
pub(crate) fn staging_names(name: &str) -> [String; 2] {
    let digest = blake3::hash(name.as_bytes()).to_hex();
    [".part", ".journal"].map(|suffix| format!(".haul-{}{suffix}", &digest[..16]))
}

fn planted_staging_names_are_not_followed() {
    for way in WAYS {
        let scene = Scene::new();
        let outside = Outside::new(&scene);
        let (source, copy) = (source(&scene), scene.tree("dst"));
        for staged in staging_names("file") {
            copy.link(staged, "../outside/file");
        }
        for staged in staging_names("big") {
            copy.link(Path::new("directory").join(staged), "../../outside/precious");
        }
        // Hard links, fifos and directories are no better.
        let [part, journal] = staging_names("precious");
        fs::hard_link(outside.tree.join("precious"), copy.join(part)).unwrap();
        copy.dir(journal);
        let [part, _] = staging_names("last");
        haul_testkit::needs::tool(std::process::Command::new("mkfifo").arg(copy.join(part)));
        let before = fs::read(outside.tree.join("precious")).unwrap();
        let run = scene.copy(way, source.path(), copy.path()).finish();
        assert!(matches!(run.code(), Some(0 | 1)), "{way:?}: {run}");
        for name in ["file", "directory/precious"] {
            let text = fs::read(outside.tree.join(name)).unwrap();
            assert!(text.starts_with(b"untouched"), "{way:?}: {name} outside was written");
        }
        assert!(
            fs::read(outside.tree.join("precious")).unwrap() == before,
            "{way:?}: a hard link was written"
        );
        assert!(copy.join("directory/new").exists(), "{way:?}: the rest is copied: {run}");
    }
}

/// Swaps two names for each other until told to stop. Gives how often.
fn swap(one: &Path, other: &Path, stop: &AtomicBool) -> u64 {
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        // One of them may not be there yet, or not any more.
        if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
            swaps += 1;
        }
    }
    swaps
}

fn a_directory_swapped_for_a_link_during_the_run_is_not_followed() {
    for way in WAYS {
        let scene = Scene::new();
        let outside = scene.tree("outside");
        let source = scene.tree("src");
        source.many("directory", 3000, 0..3000);
        source.file("directory/big", 20 << 20);
        let copy = scene.tree("dst");
        copy.dir("directory");
        copy.link("decoy", "../outside");
        let stop = AtomicBool::new(false);
        let (swaps, run) = std::thread::scope(|scope| {
            let swapper = scope.spawn(|| swap(&copy.join("directory"), &copy.join("decoy"), &stop));
            let run = scene.copy(way, source.path(), copy.path()).finish();
            stop.store(true, Ordering::Relaxed);
            (swapper.join().unwrap(), run)
        });
        assert!(swaps > 0, "the swapper has swapped");
        assert!(matches!(run.code(), Some(0 | 1)), "{way:?}: {run}");
        let found = haul_testkit::tree::list(outside.path());
        assert!(found.is_empty(), "{way:?} after {swaps} swaps: {found:?}");
    }
}

fn a_source_directory_swapped_for_a_link_during_the_run_is_not_followed() {
    for way in WAYS {
        let scene = Scene::new();
        let outside = scene.tree("outside");
        outside.many("", 300, 40..50);
        outside.text("secret", "not for you");
        let source = scene.tree("src");
        source.many("directory", 2000, 0..3000);
        source.text("directory/secret", "public");
        source.link("decoy", "../outside");
        let copy = scene.join("dst");
        let stop = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| swap(&source.join("directory"), &source.join("decoy"), &stop));
            let run = scene.copy(way, source.path(), &copy).finish();
            stop.store(true, Ordering::Relaxed);
            run
        });
        assert!(matches!(run.code(), Some(0 | 1)), "{way:?}: {run}");
        for path in haul_testkit::tree::list(&copy) {
            if path.ends_with("secret") {
                assert_eq!(fs::read_to_string(copy.join(&path)).unwrap(), "public", "{way:?}: {path:?}");
            }
        }
    }
}

fn deletion_does_not_follow_a_planted_link() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let outside = Outside::new(&scene);
        let (source, copy) = (source(&scene), scene.tree("dst"));
        copy.link("extra-link", "../outside");
        copy.link("extra/below", "../../outside/directory");
        let _ = scene.by(way, "sync", slash(source.path()), slash(copy.path())).finish().expect_success();
        outside.assert_untouched();
        assert_same_tree(source.path(), copy.path());
    }
}

fn a_list_of_names_cannot_lead_outside() {
    for name in ["../outside/precious", "/etc/passwd", "directory/../../outside/precious"] {
        for way in [Way::Local, Way::Pull] {
            let scene = Scene::new();
            let outside = Outside::new(&scene);
            let source = source(&scene);
            let copy = scene.join("dst");
            let run =
                scene.copy(way, source.path(), &copy).args(["--files-from", "-"]).input(format!("{name}\n"));
            let run = run.finish();
            outside.assert_untouched();
            if name.starts_with('/') {
                // rsync drops the slash; refusing it is as good.
                assert!(matches!(run.code(), Some(1 | 2)), "{run}");
            } else {
                assert!(matches!(run.code(), Some(1 | 2)), "{run}");
            }
            let found = if copy.exists() { haul_testkit::tree::list(&copy) } else { Vec::new() };
            assert!(
                !found.iter().any(|path| path.ends_with("precious") || path.ends_with("passwd")),
                "{found:?}"
            );
        }
    }
}

fn a_file_that_is_linked_elsewhere_is_replaced_not_overwritten() {
    for way in WAYS {
        let scene = Scene::new();
        let outside = scene.tree("outside");
        outside.text("snapshot", "as it was");
        let (source, copy) = (source(&scene), scene.tree("dst"));
        fs::hard_link(outside.join("snapshot"), copy.join("file")).unwrap();
        let _ = scene.copy(way, source.path(), copy.path()).finish().expect_success();
        assert_eq!(fs::read_to_string(outside.join("snapshot")).unwrap(), "as it was", "{way:?}");
        assert_same_tree(source.path(), copy.path());
    }
}

fn a_host_that_looks_like_an_option_is_refused() {
    let scene = Scene::new();
    let source = source(&scene);
    let plan = FaultPlan::new(scene.join("plan"));
    for host in ["-oProxyCommand=touch pwned:/x", "ssh://-oProxyCommand=x/y", "-x@host:/y"] {
        let run =
            scene.haul_fault("copy", &plan).arg("--").arg(source.path()).arg(host).finish().expect_code(2);
        assert_eq!(plan.connections(), 0, "{run}");
    }
}

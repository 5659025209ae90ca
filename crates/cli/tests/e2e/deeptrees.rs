//! Trees deeper than the longest path of a system call, and files longer than any disk.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::process::Signal;

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_deep_tree_is_copied_verified_and_removed,
        a_file_longer_than_can_be_proved_is_named,
        a_length_alone_takes_no_memory,
    ]
}

/// More than any path of one system call has, more than a stack of 2 MiB holds calls, and enough that quadratic work
/// for each level is noticed. `DEEP_TREE_LEVELS` replaces it: the paths of 100,000 levels have 10 GB
/// together, which takes minutes.
fn levels() -> u32 {
    std::env::var("DEEP_TREE_LEVELS").map_or(8000, |levels| levels.parse().unwrap())
}

fn below(dir: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    openat(dir, "a", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Makes the tree, with a file in every hundredth directory.
fn deep(root: &Path) {
    std::fs::create_dir(root).unwrap();
    let mut dir: OwnedFd = File::open(root).unwrap().into();
    for level in 0..levels() {
        mkdirat(&dir, "a", Mode::RWXU).unwrap();
        dir = below(&dir).unwrap();
        if level % 100 == 99 {
            let made = openat(&dir, "f", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
            rustix::io::write(made, &level.to_le_bytes()).unwrap();
        }
    }
}

/// How deep it is, and how many files are in it.
fn depth(root: &Path) -> (u32, u32) {
    let mut dir: OwnedFd = File::open(root).unwrap().into();
    let (mut levels, mut files) = (0, 0);
    while let Ok(next) = below(&dir) {
        dir = next;
        levels += 1;
        files += u32::from(openat(&dir, "f", OFlags::RDONLY, Mode::empty()).is_ok());
    }
    (levels, files)
}

/// Most programs cannot remove such a tree; `rm` can.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = Command::new("rm").arg("-rf").arg(self.0).status();
    }
}

fn a_deep_tree_is_copied_verified_and_removed() {
    let scene = Scene::new();
    let (source, empty) = (scene.join("src"), scene.tree("empty"));
    let _removed = Removed(&source);
    deep(&source);
    let all = (levels(), levels() / 100);
    let limit = Duration::from_secs(u64::from(levels() / 50).max(120));
    for way in [Way::Local, Way::Push, Way::Pull] {
        let copy = scene.join("dst");
        let _removed = Removed(&copy);
        let run = scene.copy(way, &source, &copy).limit(limit).finish().expect_success();
        summary(&run).assert_accounted();
        assert_eq!(depth(&copy), all, "{way:?}");
        if way == Way::Local {
            let verify = scene.by(way, "verify", slash(&source), slash(&copy));
            let _ = verify.limit(limit).finish().expect_success();
        }
        if way == Way::Pull {
            continue;
        }
        let sync = scene.by(way, "sync", slash(empty.path()), slash(&copy)).arg("--max-delete=1000000");
        let run = sync.limit(limit).finish().expect_success();
        assert_eq!(summary(&run).of("removed"), u64::from(all.0 + all.1), "{way:?}");
        assert_eq!(depth(&copy), (0, 0), "{way:?}");
    }
}

/// A directory on a file system in memory, where a file may have any length.
struct InMemory(tempfile::TempDir);

impl InMemory {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn sparse(&self, name: &str, len: &str) {
        tool(Command::new("truncate").args(["-s", len]).arg(self.0.path().join(name)));
    }
}

fn a_file_longer_than_can_be_proved_is_named() {
    let scene = Scene::new();
    let source = InMemory::new();
    source.sparse("huge", "1E");
    std::fs::write(source.0.path().join("small"), "small").unwrap();
    for way in [Way::Local, Way::Push, Way::Pull] {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, source.0.path(), &copy).finish().expect_code(1);
        assert!(run.said().contains("16 PiB") && run.said().contains("huge"), "{run}");
        assert_eq!(std::fs::read(copy.join("small")).unwrap(), b"small");
        assert!(!copy.join("huge").exists());
    }
    let run = scene.haul("hash").arg(slash(source.0.path())).finish().expect_code(1);
    assert!(run.said().contains("16 PiB"), "{run}");
}

fn a_length_alone_takes_no_memory() {
    let scene = Scene::new();
    let (source, copy) = (InMemory::new(), InMemory::new());
    source.sparse("sparse", "1P");
    let run = scene.haul("copy").args(["--max-memory", "64M"]).arg(slash(source.0.path()));
    let mut run = run.arg(slash(copy.0.path())).watch_memory().start();
    run.wait_until("it is staged with its length", || {
        let mut staged = std::fs::read_dir(copy.0.path()).unwrap();
        staged.any(|found| found.unwrap().metadata().is_ok_and(|there| there.len() == 1 << 50))
    });
    run.signal(Signal::INT);
    let run = run.finish().expect_code(130);
    assert!(run.local_peak < 128 << 20, "{} bytes: {run}", run.local_peak);
}

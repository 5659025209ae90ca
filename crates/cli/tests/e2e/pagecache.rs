//! The page cache after a copy.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::list;
use haul_testkit::{FileSystem, Need, TestMount, TestTree, assert_same_tree};
use rustix::fs::Advice;

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::LoopMounts, Need::Program("fincore");
        pages_of_copied_files_leave_the_cache_and_earlier_ones_stay
    ]
}

/// Bytes of the files below `dir` that are in memory.
fn in_memory(dir: &Path) -> u64 {
    let files: Vec<_> =
        list(dir).into_iter().map(|path| dir.join(path)).filter(|path| path.is_file()).collect();
    let said =
        tool(Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).args(&files));
    said.split_whitespace().map(|bytes| bytes.parse::<u64>().unwrap()).sum()
}

/// Takes the files below `dir` out of memory.
fn forget(dir: &Path) {
    tool(Command::new("sync").arg("-f").arg(dir));
    for path in list(dir).into_iter().map(|path| dir.join(path)).filter(|path| path.is_file()) {
        rustix::fs::fadvise(File::open(path).unwrap(), 0, None, Advice::DontNeed).unwrap();
    }
}

fn pages_of_copied_files_leave_the_cache_and_earlier_ones_stay() {
    const MIB: u64 = 1 << 20;
    let scene = Scene::new();
    let disk = TestMount::new(FileSystem::Ext4, 400 * MIB);
    let source = TestTree::mixed(disk.join("src"), 70, &[40 * MIB + 5, 9 * MIB], 300);
    source.file("in use/huge", 12 * MIB);
    source.file("in use/small", 100_000);
    for way in [Way::Local, Way::Push] {
        forget(source.path());
        let cold = in_memory(source.path());
        assert!(cold < MIB / 4, "the test has emptied the cache: {cold}");
        for name in ["in use/huge", "in use/small"] {
            // Read twice, so that the kernel evicts other pages first if it needs memory.
            for _ in 0..2 {
                let _ = fs::read(source.join(name)).unwrap();
            }
        }
        let used = in_memory(&source.join("in use"));
        assert!(used >= 12 * MIB + 100_000, "{used}");
        let copy = disk.join(format!("{way:?}"));
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        // Pages that the kernel read ahead for another reader, into a slice that was done already, may be left.
        let still = in_memory(&source.join("in use"));
        // The kernel may evict pages at any time. haul drops no ranges below 1 MiB.
        assert!(still + MIB > used, "{way:?}: what others use stays: {still} of {used} bytes");
        let left = in_memory(source.path()).saturating_sub(used);
        assert!(left < 8 * MIB, "{way:?}: {left} bytes of the source are left in memory");
        let left = in_memory(&copy);
        assert!(left < 4 * MIB, "{way:?}: {left} bytes of the copy are left in memory");
        let _ = scene.haul("hash").arg("-q").arg(slash(&copy)).finish().expect_success();
        let left = in_memory(&copy);
        assert!(left < 8 * MIB, "{left} bytes of what was hashed are left in memory");
        forget(&copy);
        assert_same_tree(source.path(), &copy);
        fs::remove_dir_all(&copy).unwrap();
    }
}

//! Other file systems than that of this host, and copies that share blocks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::tree::allocated;
use haul_testkit::{CrashDisk, DiskFault, DiskOp, FileSystem, Need, TestMount, TestTree, assert_same_tree};

use crate::scene::{Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::LoopMounts;
        a_hard_tree_arrives_whole_on_ext4,
        a_hard_tree_arrives_whole_on_xfs,
        a_hard_tree_arrives_whole_on_btrfs,
        a_hard_tree_arrives_whole_from_xfs_to_another,
        a_hard_tree_arrives_whole_from_btrfs_to_xfs_on_this_machine,
        a_copy_on_one_xfs_shares_its_blocks,
        a_copy_on_one_btrfs_shares_its_blocks,
        a_clone_that_cannot_be_read_fails_unless_no_verify_is_given,
        a_slice_that_cannot_be_read_while_it_is_sent_does_not_count,
        a_disk_that_stalls_while_a_slice_is_sent_costs_no_connection,
    ]
}

const DISK: u64 = 600 << 20;

fn arrives_on(kind: FileSystem) {
    for way in [Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = TestTree::hard(scene.join("src"), 1);
        let disk = TestMount::new(kind, DISK);
        let copy = disk.join("dst");
        let run = scene.copy(way, source.path(), &copy).finish().expect_success();
        summary(&run).assert_accounted();
        assert_same_tree(source.path(), &copy);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        assert_eq!(again.of("same"), again.of("found"), "{way:?}: {again:?}");
    }
}

fn a_hard_tree_arrives_whole_on_ext4() {
    arrives_on(FileSystem::Ext4);
}

fn a_hard_tree_arrives_whole_on_xfs() {
    arrives_on(FileSystem::Xfs);
}

fn a_hard_tree_arrives_whole_on_btrfs() {
    arrives_on(FileSystem::Btrfs);
}

fn a_hard_tree_arrives_whole_from_xfs_to_another() {
    let scene = Scene::new();
    let (from, to) = (TestMount::new(FileSystem::Xfs, DISK), TestMount::new(FileSystem::Ext4, DISK));
    let source = TestTree::hard(from.join("src"), 1);
    let copy = to.join("dst");
    let _ = scene.copy(Way::Push, source.path(), &copy).finish().expect_success();
    assert_same_tree(source.path(), &copy);
    // XFS lists its ACLs as attributes, too: they are not for others.
    for path in haul_testkit::tree::list(&copy) {
        let mut names = [0; 4096];
        let len = rustix::fs::llistxattr(copy.join(&path), &mut names[..]).unwrap();
        assert!(!String::from_utf8_lossy(&names[..len]).contains("SGI_ACL"), "{path:?}");
    }
}

fn a_hard_tree_arrives_whole_from_btrfs_to_xfs_on_this_machine() {
    let scene = Scene::new();
    let (from, to) = (TestMount::new(FileSystem::Btrfs, DISK), TestMount::new(FileSystem::Xfs, DISK));
    let source = TestTree::hard(from.join("src"), 1);
    let _ = scene.copy(Way::Local, source.path(), &to.join("dst")).finish().expect_success();
    assert_same_tree(source.path(), &to.join("dst"));
}

fn shares(kind: FileSystem) {
    let scene = Scene::new();
    let disk = TestMount::new(kind, DISK);
    let source = TestTree::hard(disk.join("src"), 1);
    source.file("huge", 150 << 20);
    let before = disk.used();
    let run = scene.copy(Way::Local, source.path(), &disk.join("dst")).finish().expect_success();
    let summary = summary(&run);
    summary.assert_accounted();
    assert!(summary.of("cloned_bytes") >= 150 << 20, "{summary:?}");
    assert_same_tree(source.path(), &disk.join("dst"));
    // Clones are read, so the manifest of another copy has their digests.
    let manifest = scene.join("m");
    let second = scene.copy(Way::Local, source.path(), &disk.join("second")).arg("--manifest").arg(&manifest);
    let second = crate::scene::summary(&second.finish().expect_success());
    assert!(second.of("cloned_bytes") >= 150 << 20, "{second:?}");
    let digest = tool(Command::new("b3sum").arg("--no-names").arg(source.join("huge")));
    let lines = fs::read(&manifest).unwrap();
    assert!(String::from_utf8_lossy(&lines).contains(&format!("{}  huge", digest.trim())));
    let more = disk.used().saturating_sub(before);
    assert!(more < 60 << 20, "the copy takes {more} bytes of its own: {summary:?}");
    // Shared until written to: the original stays as it is.
    let original = fs::read(source.join("sizes/1048576")).unwrap();
    fs::write(disk.join("dst/sizes/1048576"), "changed").unwrap();
    assert!(fs::read(source.join("sizes/1048576")).unwrap() == original);
}

fn a_copy_on_one_xfs_shares_its_blocks() {
    shares(FileSystem::Xfs);
}

fn a_copy_on_one_btrfs_shares_its_blocks() {
    shares(FileSystem::Btrfs);
}

/// The first byte of a file on its disk.
fn place_on_disk(file: &Path) -> u64 {
    let list = tool(Command::new("filefrag").args(["-v", "-b4096"]).arg(file));
    let first = list.lines().find_map(|line| line.trim_start().strip_prefix("0:")).unwrap();
    let block = first.split(':').nth(1).and_then(|blocks| blocks.split("..").next()).unwrap();
    block.trim().parse::<u64>().unwrap() * 4096
}

/// A disk with the files `src/bad` and `src/good`, and the place of `bad` on it.
fn disk_with_files(kind: FileSystem, len: u64) -> (CrashDisk, u64) {
    let disk = CrashDisk::new(kind, DISK);
    let source = TestTree::new(disk.join("src"), 1);
    source.file("bad", len);
    source.file("good", len);
    rustix::fs::sync();
    let bad = place_on_disk(&source.join("bad"));
    (disk, bad)
}

fn a_clone_that_cannot_be_read_fails_unless_no_verify_is_given() {
    let scene = Scene::new();
    let (mut disk, bad) = disk_with_files(FileSystem::Xfs, 20 << 20);
    disk.remount();
    disk.fail(DiskFault::of(DiskOp::Read).bytes(bad + (5 << 20)..bad + (6 << 20)));
    let copy = disk.join("dst");
    let run = || scene.copy(Way::Local, &disk.join("src"), &copy);
    let failed = run().finish();
    assert_eq!(failed.code(), Some(1), "{failed}");
    let names: Vec<_> = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["good"], "{failed}");
    assert!(failed.to_string().contains("read back"), "{failed}");
    let trusted = run().arg("--no-verify").finish().expect_success();
    assert_eq!(summary(&trusted).of("cloned_bytes"), 20 << 20);
    disk.heal();
    assert_same_tree(&disk.join("src"), &copy);
}

fn a_slice_that_cannot_be_read_while_it_is_sent_does_not_count() {
    let (mut disk, bad) = disk_with_files(FileSystem::Ext4, 30 << 20);
    for way in [Way::Push, Way::Pull, Way::Local] {
        let scene = Scene::new();
        let copy = scene.join("dst");
        let from = disk.join("src");
        let run = || scene.copy(way, &from, &copy).arg("--compress").arg("none");
        disk.remount();
        // Some pieces of the second slice can be read.
        disk.fail(DiskFault::of(DiskOp::Read).bytes(bad + (6 << 20)..bad + (7 << 20)));
        let failed = run().finish();
        assert_eq!(failed.code(), Some(1), "{way:?}: {failed}");
        assert!(failed.to_string().contains("Input/output error"), "{way:?}: {failed}");
        assert!(!copy.join("bad").exists() && copy.join("good").exists(), "{way:?}: {failed}");
        disk.heal();
        disk.remount();
        let again = run().finish().expect_success();
        assert_eq!(summary(&again).of("copied"), 1, "{way:?}: {again}");
        assert_same_tree(&from, &copy);
    }
}

fn a_disk_that_stalls_while_a_slice_is_sent_costs_no_connection() {
    const LEN: u64 = 80 << 20;
    let mut disk = CrashDisk::new(FileSystem::Ext4, DISK);
    TestTree::new(disk.join("src"), 1).file("large", LEN);
    for way in [Way::Push, Way::Pull] {
        let scene = Scene::new();
        let (from, copy) = (disk.join("src"), scene.join("dst"));
        disk.remount();
        let mut run = scene
            .copy(way, &from, &copy)
            .args(["--compress", "none", "--bwlimit", "20M", "--streams", "2"])
            .start();
        run.wait_until("some of it has arrived", || allocated(&copy) > LEN / 5);
        // A connection that is silent for six seconds is lost.
        disk.stall(Duration::from_secs(9));
        let run = run.finish().expect_success();
        assert_eq!(summary(&run).of("wire_bytes"), LEN, "{way:?}: nothing was sent twice: {run}");
        assert_same_tree(&from, &copy);
    }
}

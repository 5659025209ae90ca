//! Other file systems than that of this host, and copies that share blocks.

use std::fs;

use haul_testkit::{FileSystem, Need, TestMount, TestTree, assert_same_tree};

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
    assert_same_tree(source.path(), &disk.join("dst"));
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

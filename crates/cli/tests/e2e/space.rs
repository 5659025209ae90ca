//! A destination that is full.

use std::path::Path;

use haul_testkit::{FileSystem, Mount, Need, Tree, assert_no_half_files, assert_same_tree};

use crate::scene::{Scene, Way, summary};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    let mut all =
        cases![Need::Tmpfs; a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room];
    all.extend(cases![Need::LoopMounts; a_full_disk_is_exit_5_and_nothing_is_half_there]);
    all.extend(cases![Need::Tmpfs; a_full_destination_with_small_files_only_is_exit_5]);
    all
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

fn runs_full(scene: &Scene, way: Way, source: &Tree, copy: &Path) {
    let run = scene.copy(way, source.path(), copy).finish().expect_code(5);
    assert_no_half_files(source.path(), copy);
    assert!(run.err().contains("No space left"), "it is said: {run}");
    scene.assert_all_gone();
}

fn a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room() {
    for way in WAYS {
        let scene = Scene::new();
        let source = Tree::mixed(scene.join("src"), 10, &[14 << 20, 13 << 20, 12 << 20], 500);
        let disk = Mount::new(FileSystem::Tmpfs, 24 << 20);
        let copy = disk.join("dst");
        runs_full(&scene, way, &source, &copy);
        disk.resize_tmpfs(120 << 20);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        again.assert_accounted();
        assert!(again.of("same_bytes") + again.of("resumed_bytes") > 0, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_full_disk_is_exit_5_and_nothing_is_half_there() {
    for way in WAYS {
        let scene = Scene::new();
        let source = Tree::mixed(scene.join("src"), 11, &[19 << 20, 17 << 20], 500);
        let disk = Mount::new(FileSystem::Ext4, 64 << 20);
        let copy = disk.join("dst");
        std::fs::write(disk.join("ballast"), vec![1; 30 << 20]).unwrap();
        runs_full(&scene, way, &source, &copy);
        std::fs::remove_file(disk.join("ballast")).unwrap();
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert_same_tree(source.path(), &copy);
    }
}

fn a_full_destination_with_small_files_only_is_exit_5() {
    for way in WAYS {
        let scene = Scene::new();
        let source = Tree::mixed(scene.join("src"), 12, &[], 4000);
        let disk = Mount::new(FileSystem::Tmpfs, 8 << 20);
        let copy = disk.join("dst");
        runs_full(&scene, way, &source, &copy);
        disk.resize_tmpfs(80 << 20);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        again.assert_accounted();
        assert!(again.of("same") > 0, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

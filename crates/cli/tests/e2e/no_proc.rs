//! Without `/proc`, as in an empty root: elsewhere haul reaches held inodes by their paths there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use haul_slowfs::{MountOptions, SlowMount};
use haul_testkit::needs::tool;
use haul_testkit::tree::set_time;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{Scene, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("setfattr"), Need::Program("setfacl");
        metadata_is_the_same,
        targets_of_links_keep_their_attributes,
        metadata_that_cannot_be_set_gets_a_warning,
    ];
    all.extend(cases![
        Need::Root, Need::Fuse, Need::Program("setfattr"), Need::Program("setfacl");
        attributes_on_a_network_file_system_are_kept,
    ]);
    all
}

/// Files, directories and a link, with modes, ACLs, attributes and times of their own.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for (name, mode, owner) in [("a/file", 0o640, 5), ("b/file", 0o600, 6), ("big", 0o444, 7)] {
        tree.file(name, if name == "big" { 5 << 20 } else { 300 });
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(tree.join(name), Some(owner), Some(owner)).unwrap();
    }
    // It comes first, and has no attributes that could be read.
    tree.link("a/alias", "file");
    for name in ["a", "a/file", "b", "b/file", "big"] {
        tool(Command::new("setfattr").args(["-n", "user.x", "-v", name]).arg(tree.join(name)));
        tool(Command::new("setfacl").args(["-m", "u:daemon:rx"]).arg(tree.join(name)));
    }
    fs::set_permissions(tree.join("b"), fs::Permissions::from_mode(0o500)).unwrap();
    for (number, name) in ["a/alias", "a/file", "b/file", "big", "a", "b"].into_iter().enumerate() {
        set_time(&tree.join(name), 1_000_000_000 + number as i64, 0);
    }
    tree
}

/// Copies twice, the second time without a change, and without warnings.
fn copy_twice(scene: &Scene, options: &[&str], from: &std::path::Path, to: &std::path::Path) {
    for is_second in [false, true] {
        let run = scene.without_proc().args(["copy", "--json"]).args(options);
        let run = run.arg(slash(from)).arg(slash(to)).finish().expect_success();
        let told = summary(&run);
        assert_eq!(told.of("found") == told.of("same"), is_second, "{run}");
        assert_eq!(told.0["metadata"].as_array().unwrap().len(), 0, "{run}");
    }
}

fn metadata_is_the_same() {
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.tree("dst"));
    copy_twice(&scene, &[], source.path(), copy.path());
    assert_same_tree(source.path(), copy.path());
    // Existing files and directories whose metadata alone differs.
    for name in ["a/file", "b/file", "big", "b"] {
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o711)).unwrap();
        tool(Command::new("setfattr").args(["-n", "user.x", "-v", "other"]).arg(source.join(name)));
        tool(Command::new("setfacl").args(["-m", "u:daemon:r"]).arg(source.join(name)));
    }
    copy_twice(&scene, &[], source.path(), copy.path());
    assert_same_tree(source.path(), copy.path());
}

fn targets_of_links_keep_their_attributes() {
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.tree("dst"));
    copy_twice(&scene, &["-L"], source.path(), copy.path());
    fs::remove_file(source.join("a/alias")).unwrap();
    tool(Command::new("cp").args(["-a", "--"]).arg(source.join("a/file")).arg(source.join("a/alias")));
    set_time(&source.join("a"), 1_000_000_004, 0);
    assert_same_tree(source.path(), copy.path());
}

fn attributes_on_a_network_file_system_are_kept() {
    let scene = Scene::new();
    let (source, copy, back) = (source(&scene), scene.tree("dst"), scene.tree("back"));
    let mount = |behind: &TestTree, at: &str| {
        fs::create_dir_all(scene.join(at)).unwrap();
        SlowMount::new(behind.path(), &scene.join(at), MountOptions::default()).unwrap()
    };
    let (from, to) = (mount(&source, "from"), mount(&back, "to"));
    copy_twice(&scene, &[], &from.join(""), copy.path());
    copy_twice(&scene, &[], copy.path(), &to.join(""));
    drop((from, to));
    assert_same_tree(source.path(), copy.path());
    assert_same_tree(source.path(), back.path());
}

fn metadata_that_cannot_be_set_gets_a_warning() {
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.tree("dst"));
    tool(Command::new("mkfifo").args(["-m", "622"]).arg(source.join("pipe")));
    let run = scene.without_proc().arg("copy").arg(slash(source.path())).arg(slash(copy.path())).finish();
    let run = run.expect_success();
    assert!(
        run.said().contains("mode could not be set on 1 entry") && run.said().contains("`pipe`"),
        "{run}"
    );
}

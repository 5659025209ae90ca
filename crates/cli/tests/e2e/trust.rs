//! Metadata that gives rights: devices, set-ID bits, attributes and links that lead outside of the tree.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{Scene, Way, summary};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        options_leave_out_devices_rights_and_links_that_lead_outside,
    ];
    all.extend(cases![
        Need::Root, Need::Program("weed");
        a_store_gives_no_rights_unless_asked_to,
    ]);
    all
}

fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for name in ["suid", "capable", "plain"] {
        tree.file(name, 1000);
    }
    fs::set_permissions(tree.join("suid"), fs::Permissions::from_mode(0o4755)).unwrap();
    tool(Command::new("setfattr").args(["-n", "trusted.x", "-v", "y"]).arg(tree.join("capable")));
    tool(Command::new("mknod").arg(tree.join("null")).args(["c", "1", "3"]));
    tree.link("in", "plain");
    tree.link("out", "../secret");
    tree
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn options_leave_out_devices_rights_and_links_that_lead_outside() {
    let scene = Scene::new();
    let source = source(&scene);
    for way in [Way::Local, Way::Push, Way::Pull] {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, source.path(), &copy).args(["--no-devices", "--no-suid", "--safe-links"]);
        let run = run.finish().expect_success();
        let summary = summary(&run);
        summary.assert_accounted();
        assert_eq!((summary.of("left"), mode(&copy.join("suid"))), (2, 0o755), "{way:?}: {run}");
        let left_out = summary.0["left_out"].as_array().unwrap();
        assert_eq!(left_out.len(), 4, "{way:?}: {run}");
        assert!(copy.join("in").exists() && fs::symlink_metadata(copy.join("out")).is_err());
        assert!(fs::symlink_metadata(copy.join("null")).is_err());
        let strict = scene.copy(way, source.path(), &copy).args(["--no-devices", "--strict"]);
        let _ = strict.finish().expect_code(1);
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert_same_tree(source.path(), &copy);
    }
}

fn a_store_gives_no_rights_unless_asked_to() {
    let scene = Scene::new();
    let source = source(&scene);
    let bucket = TestBucket::new();
    let _ =
        crate::objtrees::copy(bucket.haul("copy"), source.path(), bucket.at("")).finish().expect_success();
    let copy = scene.tree("dst");
    let run = bucket.haul("copy").arg("--json").arg(bucket.at("src")).arg(copy.path());
    let run = run.finish().expect_success();
    assert_eq!(mode(&copy.join("src/suid")), 0o755, "{run}");
    assert!(fs::symlink_metadata(copy.join("src/null")).is_err(), "{run}");
    assert!(run.out().contains("--devices") && run.out().contains("--suid"), "the way out is told: {run}");
    let all = crate::objtrees::copy(bucket.haul("copy"), bucket.at("src"), copy.path());
    let _ = all.finish().expect_success();
    let null = fs::symlink_metadata(copy.join("src/null")).unwrap();
    assert!(null.file_type().is_char_device() && mode(&copy.join("src/suid")) == 0o4755);
    assert_same_tree(source.path(), &copy.join("src"));
}

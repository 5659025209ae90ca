//! `--all-destinations`: one read of the source, and each destination has it all.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use haul_testkit::process::kill;
use haul_testkit::tree::list;
use haul_testkit::{
    CommandRun, FileSystem, Need, TestMount, TestTree, assert_no_half_files, assert_same_tree,
};

use crate::scene::HAUL;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![Need::Program("weed"); all_destinations_get_everything];
    all.extend(cases![
        Need::Root;
        a_destination_that_fails_is_named_and_the_others_get_everything,
    ]);
    all.extend(cases![a_killed_run_goes_on_at_each_destination, options_of_one_destination_are_refused,]);
    all
}

fn source(scene: &crate::scene::Scene) -> (TestTree, PathBuf) {
    let source = scene.tree("source");
    source.many("small", 300, 0..40_000);
    source.file("large", 21 << 20);
    source.file("sparse-like", 9 << 20);
    source.link("link", "large");
    fs::hard_link(source.path().join("large"), source.path().join("other name")).unwrap();
    source.dir("empty");
    let dir = source.path().to_owned();
    (source, dir)
}

fn all_destinations_get_everything() {
    let bucket = TestBucket::new();
    let (source, from) = source(&bucket.scene);
    let shell = bucket.scene.sshd().shell();
    let from_slash = format!("{}/", from.display());
    let (here, there) = (bucket.scene.join("here"), bucket.scene.join("there"));
    let copy = || -> CommandRun {
        let run = bucket.haul("copy").args(["-e", &shell, "--remote-haul", HAUL, "--all-destinations"]);
        run.arg(&from_slash).arg(bucket.scene.remote(&there)).arg(&here).arg(bucket.at("tree/"))
    };
    let run = copy().arg("--max-memory").arg("64M").finish().expect_success();
    assert_same_tree(&from, &here);
    assert_same_tree(&from, &there);
    let verified = || bucket.haul("verify").arg(&from_slash).arg(bucket.at("tree/")).finish();
    let _ = verified().expect_success();
    assert!(run.err().contains("copied"), "{run}");
    // A second run sends nothing but an entry that one of them lacks.
    let is_small = |name: &PathBuf| name.starts_with("small") && here.join(name).is_file();
    fs::remove_file(here.join(list(&here).into_iter().find(is_small).unwrap())).unwrap();
    let run = copy().finish().expect_success();
    assert!(run.err().contains("copied 1 file"), "{run}");
    source.file("small/new", 77);
    let _ = copy().finish().expect_success();
    assert_same_tree(&from, &here);
    assert_same_tree(&from, &there);
    let _ = verified().expect_success();
}

fn a_destination_that_fails_is_named_and_the_others_get_everything() {
    let scene = crate::scene::Scene::new();
    let (_source, from) = source(&scene);
    let from_slash = format!("{}/", from.display());
    let full = TestMount::new(FileSystem::Tmpfs, 8 << 20);
    let (one, two) = (scene.join("one"), scene.join("two"));
    let run = scene.haul("copy").args(["--all-destinations", &from_slash]);
    let run = run.arg(full.path().join("x")).arg(&one).arg(&two).finish().expect_code(5);
    assert_same_tree(&from, &one);
    assert_same_tree(&from, &two);
    assert!(run.err().contains("the other destinations go on"), "{run}");
    let named = full.path().join("x").display().to_string();
    assert!(run.err().contains(&named), "{run}");
    // A host that is not known, from the beginning.
    let (one, two) = (scene.join("three"), scene.join("four"));
    let run = scene.haul("copy").args(["--all-destinations", &from_slash]).arg(&one);
    let run = run.arg("no-such-host.invalid:/x").arg(&two).finish().expect_code(4);
    assert_same_tree(&from, &one);
    assert_same_tree(&from, &two);
    assert!(run.err().contains("no-such-host.invalid") && run.err().contains("go on"), "{run}");
    // A directory that cannot be created.
    let five = scene.join("five");
    let run = scene.haul("copy").args(["--all-destinations", &from_slash, "/proc/x"]).arg(&five);
    let run = run.finish().expect_code(1);
    assert_same_tree(&from, &five);
    assert!(run.err().contains("`/proc/x`") && run.err().contains("go on"), "{run}");
    // None is left.
    let run = scene.haul("copy").args(["--all-destinations", &from_slash, "no-such-host.invalid:/x"]);
    let run = run.arg("no-such-host.invalid:/y").finish().expect_code(4);
    assert!(!run.err().contains("go on") && run.err().contains("no-such-host.invalid:/y"), "{run}");
}

fn a_killed_run_goes_on_at_each_destination() {
    let scene = crate::scene::Scene::new();
    let (_source, from) = source(&scene);
    let from_slash = format!("{}/", from.display());
    let (one, two) = (scene.join("one"), scene.join("two"));
    let copy = || scene.haul("copy").args(["--all-destinations", &from_slash]).arg(&one).arg(&two);
    for pause in [200, 500, 900] {
        let run = copy().args(["--bwlimit", "12M"]).start();
        std::thread::sleep(Duration::from_millis(pause));
        kill(run.pid());
        let _ = run.finish();
    }
    let _ = copy().finish().expect_success();
    for copy in [one, two] {
        assert_same_tree(&from, &copy);
        assert_no_half_files(&from, &copy);
    }
}

fn options_of_one_destination_are_refused() {
    let scene = crate::scene::Scene::new();
    let (_source, from) = source(&scene);
    for option in ["--remove-source-files", "--relative", "--index=i", "--inplace", "--delta=on", "--backup"]
    {
        let run = scene.haul("copy").args(["--all-destinations", option]).arg(&from);
        let run = run.arg(scene.join("a")).arg(scene.join("b")).finish().expect_code(2);
        assert!(run.err().contains("takes one destination"), "{run}");
        assert!(run.err().contains(option.split('=').next().unwrap()), "{run}");
    }
    let run = scene.haul("copy").arg("--all-destinations").arg(&from).arg(scene.join("a"));
    let run = run.arg(scene.join("b")).arg(scene.join("a/")).finish().expect_code(2);
    assert!(run.err().contains("given twice"), "{run}");
    let run = scene.haul("copy").arg("--all-destinations").arg(&from).finish().expect_code(2);
    assert!(run.err().contains("the destination is missing"), "{run}");
    assert!(!scene.join("a").exists() && !scene.join("b").exists());
}

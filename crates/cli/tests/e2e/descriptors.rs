//! A low limit of file descriptors delays a run, but does not fail it.

use haul_testkit::{CommandRun, assert_same_tree, write_program};

use crate::scene::{HAUL, Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![few_descriptors_are_enough, a_remote_end_with_few_descriptors_takes_all]
}

fn few_descriptors_are_enough() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("a/b", 3000, 1..3000);
    (0..40).for_each(|directory| source.many(format!("c{directory}/d"), 25, 1..3000));
    (0..3).for_each(|number| drop(source.file(format!("big{number}"), 9 << 20)));
    for limit in ["256", "128"] {
        let copy = scene.join(limit);
        let run = CommandRun::new("prlimit", scene.tag()).env("HOME", scene.home());
        let run = run.args([&format!("--nofile={limit}:{limit}"), HAUL, "copy", "--json"]);
        let run = run.arg(slash(source.path())).arg(slash(&copy)).finish().expect_success();
        summary(&run).assert_accounted();
        assert_same_tree(source.path(), &copy);
    }
}

fn a_remote_end_with_few_descriptors_takes_all() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("a", 3000, 1..3000);
    (0..3).for_each(|number| drop(source.file(format!("big{number}"), 9 << 20)));
    let limited = scene.join("limited");
    write_program(&limited, format!("#!/bin/sh\nulimit -n 256\nexec {HAUL} \"$@\"\n"));
    for way in [Way::Push, Way::Pull] {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, source.path(), &copy).arg("--remote-haul").arg(&limited);
        let run = run.finish().expect_success();
        summary(&run).assert_accounted();
        assert_same_tree(source.path(), &copy);
    }
}

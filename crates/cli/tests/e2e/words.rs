//! Options of rsync and other tools: accepted, or answered with advice.

use haul_testkit::assert_same_tree;

use crate::scene::{Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        rsync_s_bundles_with_h_copy_and_delete,
        help_is_printed_only_for_a_lone_h,
        words_of_other_tools_end_with_2_and_one_line,
    ]
}

fn rsync_s_bundles_with_h_copy_and_delete() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.many("files", 12, 0..2000);
    let run = |words: &[&str]| {
        scene
            .haul(words[0])
            .args(&words[1..])
            .arg(slash(source.path()))
            .arg(slash(copy.path()))
            .finish()
            .expect_success()
    };
    let said = run(&["copy", "-avh"]);
    assert!(said.out().contains("copied"), "each file is listed: {said}");
    assert_same_tree(source.path(), copy.path());
    copy.text("extra", "x");
    let _ = run(&["sync", "-achv", "--delete"]);
    assert!(!copy.join("extra").exists());
    source.file("files/more", 100);
    let said = run(&["sync", "-rlptgoDHAXS", "--numeric-ids", "--partial", "--delete-after", "-P"]);
    assert!(!said.out().contains("Usage"), "{said}");
    assert_same_tree(source.path(), copy.path());
    let said = run(&["verify", "-ahn"]);
    assert!(said.err().contains("equal"), "{said}");
}

fn help_is_printed_only_for_a_lone_h() {
    let scene = Scene::new();
    for word in ["copy", "sync", "verify", "ls", "rm"] {
        let run = scene.haul(word).arg("-h").finish().expect_success();
        assert!(run.out().contains("Usage"), "{run}");
    }
    for words in [["copy", "-avh"], ["sync", "-hn"], ["verify", "-hh"]] {
        let run = scene.haul(words[0]).arg(words[1]).finish().expect_code(2);
        assert!(run.out().is_empty(), "{run}");
    }
    let run = scene.haul("-h").args(["src", "dst"]).finish().expect_code(2);
    assert!(run.out().is_empty(), "{run}");
}

fn words_of_other_tools_end_with_2_and_one_line() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    for (command, word, advice) in [
        ("copy", "--copy-dest=old", "earlier copy"),
        ("copy", "--delete", "haul sync"),
        ("sync", "--numeric-ids-please", "is not an option"),
        ("sync", "-k", "symbolic links"),
        ("copy", "--trust-sender", "omit it"),
        ("cp", "--flatten", "keeps paths"),
        ("moveto", "-r", "haul mv"),
    ] {
        let run = scene.haul(command).arg(word).arg(slash(source.path())).arg(scene.join("dst")).finish();
        let run = run.expect_code(2);
        assert!(run.err().contains(advice) && !run.err().contains("similar"), "{run}");
        assert_eq!(run.err().lines().count(), 1, "{run}");
        assert!(run.out().is_empty() && !scene.join("dst").exists(), "nothing is done: {run}");
    }
}

//! `haul plan`: the analysis of a tree, and its parts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_testkit::tree::list;
use haul_testkit::{Finished, Need, TestTree, assert_same_tree};
use serde_json::Value;

use crate::scene::{Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![Need::Root; the_parts_together_are_the_whole_tree_once];
    all.extend(cases![
        the_figures_of_a_tree_are_those_of_the_disk_at_both_ends,
        names_that_a_target_cannot_hold_are_found,
        parts_have_the_size_that_was_asked_for,
        names_that_no_list_can_hold_and_bad_requests_are_refused,
        every_figure_in_json_is_documented,
    ]);
    all
}

/// The line `plan` of a run with `--json`.
fn planned(run: &Finished) -> Value {
    let found = events(run).into_iter().find(|line| line["type"] == "plan");
    found.unwrap_or_else(|| panic!("there is a plan in {run}"))
}

fn the_figures_of_a_tree_are_those_of_the_disk_at_both_ends() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 60, &[5 << 20, 3 << 20], 250);
    source.sparse("sparse", 40 << 20, &[0..1 << 19, 1 << 19..1 << 20]);
    source.dir("deep/er/and/deeper");
    source.link("link", "sparse");
    fs::hard_link(source.join("big/0.ibd"), source.join("again")).unwrap();
    let here = scene.haul("plan").arg("--json").arg(slash(source.path())).finish().expect_success();
    let there = scene.haul_ssh("plan").arg("--json").arg(scene.remote(slash(source.path()))).finish();
    let [mut here, mut there] = [here, there.expect_success()].map(|run| planned(&run));
    for plan in [&mut here, &mut there] {
        plan.as_object_mut().unwrap().remove("scan_seconds").unwrap();
    }
    assert_eq!(here, there, "it does not matter where the tree is");
    let tally = &here["tally"];
    let entries = list(source.path()).len() as u64 + 1;
    assert_eq!((tally["entries"].as_u64(), tally["files"].as_u64()), (Some(entries), Some(253)), "{here}");
    let bytes = haul_testkit::tree::content_len(source.path()) - (5 << 20);
    assert_eq!(tally["bytes"].as_u64(), Some(bytes), "a file of two names counts once: {here}");
    assert_eq!(tally["hole_bytes"].as_u64(), Some(39 << 20), "{here}");
    assert_eq!(here["largest_files"][1]["path"], "again", "{here}");
    assert_eq!(here["hard_links"]["saved_bytes"].as_u64(), Some(5 << 20), "{here}");
    assert_eq!(here["largest_folders"][0]["path"], "big", "{here}");
    assert_eq!(here["widest_folders"][0]["entries"].as_u64(), Some(100), "{here}");
    assert_eq!(here["deepest_folders"][0]["path"], "deep/er/and/deeper", "{here}");
    let text = scene.haul("plan").arg(source.path()).finish().expect_success().out();
    for words in ["253 files", "sparse", "largest files", "deep/er/and/deeper", "5.00 MiB more"] {
        assert!(text.contains(words), "{words} is in {text}");
    }
}

/// The lists of a prefix in their order.
fn lists(prefix: &Path) -> Vec<PathBuf> {
    let name = |number: usize| PathBuf::from(format!("{}.{number:04}", prefix.display()));
    (1..).map(name).take_while(|path| path.exists()).collect()
}

/// The names in a list that ends them with NUL.
fn names(path: &Path) -> Vec<PathBuf> {
    let text = fs::read(path).unwrap();
    let names = text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

fn the_parts_together_are_the_whole_tree_once() {
    let scene = Scene::new();
    let source = TestTree::hard(scene.join("src"), 61);
    source.many("many", 1500, 0..3000);
    let prefix = scene.join("part");
    let run = scene.haul("plan").args(["--json", "-0", "--parts", "4", "--lists"]).arg(&prefix);
    let plan = planned(&run.arg(slash(source.path())).finish().expect_success());
    let lists = lists(&prefix);
    assert_eq!((lists.len(), plan["parts"].as_array().unwrap().len()), (4, 4));
    // The expected list: all entries but directories that are not empty.
    let is_full = |path: &PathBuf| fs::read_dir(source.join(path)).is_ok_and(|mut dir| dir.next().is_some());
    let is_dir = |path: &PathBuf| fs::symlink_metadata(source.join(path)).unwrap().is_dir();
    let expected: BTreeSet<PathBuf> =
        list(source.path()).into_iter().filter(|path| !(is_dir(path) && is_full(path))).collect();
    let listed: Vec<PathBuf> = lists.iter().flat_map(|list| names(list)).collect();
    assert_eq!(listed.len(), expected.len(), "each once");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
    // One file is a good third of all content: no part is fuller than the one that it is in.
    let of = |value: &Value, name: &str| value[name].as_f64().unwrap();
    let bytes = of(&plan["tally"], "bytes") - of(&plan["tally"], "hole_bytes");
    let big = fs::metadata(source.join("sizes/big")).unwrap().len() as f64 / bytes;
    for part in plan["parts"].as_array().unwrap() {
        let fill = (of(part, "entries") / expected.len() as f64).max(of(part, "bytes") / bytes);
        assert!(fill < big * 1.02, "{fill} of {big}: {}", plan["parts"]);
    }
    let copy = scene.join("dst");
    let mut copied = 0;
    for list in &lists {
        let run = scene.copy(Way::Local, source.path(), &copy).arg("-0").arg("--files-from").arg(list);
        let done = summary(&run.finish().expect_success());
        copied += done.of("copied") + done.of("linked");
    }
    let files = |path: &&PathBuf| fs::symlink_metadata(source.join(path)).unwrap().is_file();
    assert_eq!(copied, expected.iter().filter(files).count() as u64, "no part copies what another one has");
    let rest = summary(&scene.copy(Way::Local, source.path(), &copy).finish().expect_success());
    assert_eq!([rest.of("copied"), rest.of("made"), rest.of("linked")], [0, 0, 0], "{rest:?}");
    assert_same_tree(source.path(), &copy);
}

fn names_that_a_target_cannot_hold_are_found() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for name in ["fine", "Readme", "README", "a:b", "con.txt", "dot.", "ok/ÄÖ", "ok/äö"] {
        source.file(name, 10);
    }
    fs::write(source.join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    let unfit = scene.join("unfit");
    let plan = |kind: &str| {
        let run = scene.haul("plan").args(["--json", "--target-kind", kind, "--unfit"]).arg(&unfit);
        run.arg(slash(source.path())).finish()
    };
    let found = planned(&plan("smb").expect_code(1));
    let mut names: Vec<Vec<u8>> =
        fs::read(&unfit).unwrap().split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    let expected: [&[u8]; 8] =
        [b"README", b"Readme", b"a:b", b"con.txt", b"dot.", "ok/ÄÖ".as_bytes(), "ok/äö".as_bytes(), b"\xff"];
    assert_eq!(names, expected, "{found}");
    assert_eq!(found["unfit"][0]["reason"], "clash", "{found}");
    assert_eq!(found["unfit"][0]["count"].as_u64(), Some(4), "{found}");
    let found = planned(&plan("posix").expect_success());
    assert!(found["unfit"].as_array().unwrap().is_empty() && fs::read(&unfit).unwrap().is_empty());
    let found = planned(&plan("s3").expect_code(1));
    assert_eq!(found["unfit"][0]["first"][0]["path_bytes"], serde_json::json!([255]), "{found}");
    let text = scene.haul("plan").args(["--target-kind", "apfs"]).arg(source.path()).finish().expect_code(1);
    assert!(text.out().contains("invalid on apfs: 5 entries"), "{text}");
}

fn parts_have_the_size_that_was_asked_for() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 1000, 1000..1001);
    source.file("many/0003/large", 300_000);
    let cut = |words: &[&str], prefix: &str| {
        let run = scene.haul("plan").args(["-q", "--lists"]).arg(scene.join(prefix)).args(words);
        let _ = run.arg(source.path()).finish().expect_success();
        let lists = lists(&scene.join(prefix));
        lists.iter().map(|list| fs::read_to_string(list).unwrap().lines().count()).collect::<Vec<_>>()
    };
    let sizes = cut(&["--part-size", "100KB"], "by-size");
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (11, 1001), "{sizes:?}");
    assert!(sizes.iter().all(|size| [1, 100].contains(size)), "{sizes:?}");
    let sizes = cut(&["--part-files", "250"], "by-files");
    assert_eq!(sizes, [250, 250, 250, 250, 1]);
    let sizes = cut(&["--parts", "3", "--exclude", "large"], "by-number");
    assert!(sizes.len() == 3 && sizes.iter().all(|size| (320..350).contains(size)), "{sizes:?}");
}

fn names_that_no_list_can_hold_and_bad_requests_are_refused() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("two\nlines", 10);
    source.file("one", 10);
    let prefix = scene.join("part");
    let plan = |words: &[&str]| {
        let run = scene.haul("plan").args(words);
        run.args(["--lists"]).arg(&prefix).arg(source.path()).finish()
    };
    let run = plan(&[]).expect_code(2);
    assert!(run.err().contains("--parts N"), "{run}");
    let run = plan(&["--parts", "1"]).expect_code(1);
    assert!(run.err().contains("two\\x0alines") && run.err().contains("-0"), "{run}");
    assert_eq!(fs::read_to_string(&lists(&prefix)[0]).unwrap(), "one\n", "the others are listed");
    let run = plan(&["--parts", "1"]).expect_code(2);
    assert!(run.err().contains("part.0001") && run.err().contains("another prefix"), "{run}");
    let _ = scene.haul("plan").args(["--parts", "0"]).arg(source.path()).finish().expect_code(2);
    let _ = scene.haul("plan").args(["--part-size", "0"]).arg(source.path()).finish().expect_code(2);
    let _ = scene.haul("plan").args(["--parts", "2"]).arg(source.join("one")).finish().expect_code(2);
    let run = scene.haul("plan").arg(scene.join("missing")).finish().expect_code(1);
    assert!(run.err().contains("missing"), "{run}");
    let run = scene.haul("plan").arg("--probe").arg(source.join("one")).arg(source.path()).finish();
    assert!(run.expect_code(2).err().contains("haul probe --json"));
}

fn every_figure_in_json_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/JSON.md");
    let page = fs::read_to_string(page).unwrap();
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("a:b", 10);
    fs::hard_link(source.join("a:b"), source.join("c")).unwrap();
    let run = scene.haul("plan").args(["--json", "--parts", "2", "--target-kind", "ntfs", "--lists"]);
    let plan = planned(&run.arg(scene.join("part")).arg(source.path()).finish().expect_code(1));
    let mut open = vec![&plan];
    while let Some(value) = open.pop() {
        for (name, value) in value.as_object().into_iter().flatten() {
            assert!(page.contains(&format!("`{name}`")), "{name} of {plan} is not in docs/JSON.md");
            open.push(value);
        }
        open.extend(value.as_array().into_iter().flatten());
    }
}

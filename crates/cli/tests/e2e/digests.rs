//! `haul hash` and `haul verify`: their digests agree with those of other programs.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::set_time;
use haul_testkit::{CommandRun, Need, TestTree};

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        verify_finds_missing_and_different_entries,
        verify_by_manifest_finds_differences,
        verify_of_a_copy_is_content_with_it,
    ];
    all.extend(cases![
        Need::Program("b3sum");
        b3sum_accepts_the_manifest,
        haul_accepts_the_manifest_of_b3sum,
        the_manifest_of_a_remote_end_is_the_same,
    ]);
    all
}

/// Lengths around the ends of slices, and names that a list must escape.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for len in
        [0, 1, 1023, 1024, 1025, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 8 << 20, 13 << 20, (20 << 20) + 7]
    {
        tree.file(format!("sizes/{len}"), len);
    }
    let data = 9 << 20..(9 << 20) + 1000;
    tree.sparse("sparse", 30 << 20, &[data]);
    tree.file("name with  spaces", 10);
    tree.file("back\\slash", 10);
    tree.file("new\nline", 10);
    tree.many("many", 300, 0..5000);
    tree.link("link", "sparse");
    tree
}

/// The lines that b3sum prints for every file below the directory.
fn by_b3sum(tree: &TestTree) -> BTreeSet<String> {
    let find = "find . -type f -print0 | sed -z 's|^[.]/||' | xargs -0 b3sum --";
    let output = tool(Command::new("sh").arg("-c").arg(find).current_dir(tree.path()));
    output.lines().map(str::to_owned).collect()
}

fn b3sum_accepts_the_manifest() {
    let scene = Scene::new();
    let source = source(&scene);
    let run = scene.haul("hash").arg("-q").arg(slash(source.path())).finish().expect_success();
    let printed: BTreeSet<String> = run.out().lines().map(str::to_owned).collect();
    assert_eq!(printed, by_b3sum(&source));
    fs::write(scene.join("list"), run.stdout).unwrap();
    let list = fs::File::open(scene.join("list")).unwrap();
    let check = Command::new("b3sum").arg("-c").current_dir(source.path()).stdin(list).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

fn the_manifest_of_a_remote_end_is_the_same() {
    let scene = Scene::new();
    let source = source(&scene);
    let run =
        scene.haul_ssh("hash").arg("-q").arg(scene.remote(slash(source.path()))).finish().expect_success();
    let printed: BTreeSet<String> = run.out().lines().map(str::to_owned).collect();
    assert_eq!(printed, by_b3sum(&source));
    // One file alone.
    let run = scene.haul("hash").arg("-q").arg(source.join("sizes/1024")).finish().expect_success();
    assert!(run.out().ends_with("  1024\n") && run.out().lines().count() == 1, "{run}");
}

fn haul_accepts_the_manifest_of_b3sum() {
    let scene = Scene::new();
    let source = source(&scene);
    let list = by_b3sum(&source).into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let verify = || -> CommandRun {
        scene.haul("verify").args(["--manifest", "-"]).arg(slash(source.path())).input(list.clone())
    };
    let _ = verify().finish().expect_success();
    damage(&source, "sizes/13631488", 9 << 20);
    let run = verify().finish().expect_code(3);
    assert!(run.said().contains("sizes/13631488"), "{run}");
}

/// Changes one byte of a file and leaves its size and time.
fn damage(tree: &TestTree, name: &str, at: u64) {
    let path = tree.join(name);
    let meta = fs::metadata(&path).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    set_time(&path, meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap());
}

fn copied(scene: &Scene, source: &TestTree) -> TestTree {
    let copy = scene.tree("dst");
    let _ = scene.copy(Way::Local, source.path(), copy.path()).finish().expect_success();
    copy
}

fn verify_of_a_copy_is_content_with_it() {
    for way in [Way::Local, Way::Push, Way::Pull, Way::Relay] {
        let scene = Scene::new();
        let source = source(&scene);
        let copy = copied(&scene, &source);
        let run = scene.by(way, "verify", slash(source.path()), slash(copy.path())).finish();
        let _ = run.expect_success();
        // With the words that copy was given.
        let _ = scene.by(way, "copy", source.path(), scene.join("into/")).finish().expect_success();
        let _ = scene.by(way, "verify", source.path(), scene.join("into/")).finish().expect_success();
    }
}

fn verify_finds_missing_and_different_entries() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        let copy = copied(&scene, &source);
        damage(&copy, "sizes/20971527", 20 << 20);
        damage(&copy, "sizes/1", 0);
        fs::remove_file(copy.join("name with  spaces")).unwrap();
        copy.text("extra", "does no harm");
        let run = scene.by(way, "verify", slash(source.path()), slash(copy.path())).finish().expect_code(3);
        let said = run.said();
        for name in ["sizes/20971527", "sizes/1\"", "name with  spaces"] {
            assert!(said.contains(name), "{way:?}: {name} is told: {said}");
        }
        let last = crate::scene::events(&run).pop().unwrap();
        let [missing, differs, extra] =
            ["missing", "differs", "extra"].map(|name| last["differences"][name].as_u64());
        assert_eq!((missing, differs, extra), (Some(1), Some(2), Some(1)), "{way:?}: {last}");
        assert!(
            copy.join("extra").exists() && !copy.join("name with  spaces").exists(),
            "nothing is changed"
        );
    }
}

fn verify_by_manifest_finds_differences() {
    let scene = Scene::new();
    let source = source(&scene);
    let run = scene.haul("hash").arg(slash(source.path())).finish().expect_success();
    let list = scene.join("list");
    fs::write(&list, run.stdout).unwrap();
    let verify = |tree: &TestTree| {
        let run = scene.haul_ssh("verify").arg("--manifest").arg(&list).arg(scene.remote(slash(tree.path())));
        run.finish()
    };
    let copy = copied(&scene, &source);
    let _ = verify(&copy).expect_success();
    damage(&copy, "sizes/4194305", 4 << 20);
    fs::remove_file(copy.join("new\nline")).unwrap();
    let run = verify(&copy).expect_code(3);
    assert!(run.said().contains("sizes/4194305"), "{run}");
}

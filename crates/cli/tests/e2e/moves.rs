//! `haul mv` and `--remove-source-files`: a file leaves the source only when the destination has all of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{joined, kill};
use haul_testkit::store::endpoint;
use haul_testkit::tree::{list, set_time};
use haul_testkit::{CommandRun, FaultPlan, Need, Random, SshdOptions, TestTree, assert_same_tree};
use std::os::unix::ffi::OsStrExt;

use crate::scene::{HAUL, REMOTE, Scene, WAYS, Way, slash, summary};
use crate::small::{StoreOfTest, at};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        a_tree_moves_as_rsync_moves_it,
    ];
    all.extend(cases![
        content_is_compared_before_a_file_counts_as_there,
        skipped_and_failed_files_stay,
        a_dry_run_removes_nothing_and_lists_the_removals,
        options_without_proof_are_refused,
        killed_at_random_moments_nothing_is_lost,
        a_tree_is_not_moved_onto_itself,
        a_tree_moves_over_sftp,
        a_tree_moves_into_and_out_of_a_store,
        an_object_that_was_replaced_meanwhile_stays,
        a_login_that_may_not_remove_is_refused_before_the_copy,
        one_name_of_two_sources_is_lost_by_neither,
    ]);
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone");
        the_store_itself_moves_objects_within_a_bucket,
    ]);
    all
}

/// A tree with a file of every kind and rules for it.
fn mixed(scene: &Scene, name: &str) -> TestTree {
    let tree = scene.tree(name);
    tree.file("large", (9 << 20) + 5);
    tree.many("many", 120, 0..9000);
    tree.file("d/empty", 0);
    tree.file("d/e/one", 700);
    tree.file("keep.skip", 10);
    tree.file("d/keep.skip", 10);
    fs::create_dir_all(tree.join("d/nothing")).unwrap();
    fs::hard_link(tree.join("d/e/one"), tree.join("d/two")).unwrap();
    fs::hard_link(tree.join("d/e/one"), tree.join("three")).unwrap();
    symlink("d/e", tree.join("link")).unwrap();
    symlink("nowhere", tree.join("d/dangling")).unwrap();
    tool(Command::new("mkfifo").arg(tree.join("fifo")));
    for (number, path) in list(tree.path()).into_iter().enumerate() {
        tree.time(path, 1_600_000_000 + number as i64, 0);
    }
    tree.time("", 1_500_000_000, 0);
    tree
}

/// Whether nothing but directories is left.
fn has_only_dirs(root: &Path) -> bool {
    list(root).into_iter().all(|path| root.join(path).symlink_metadata().unwrap().is_dir())
}

fn names(root: &Path) -> Vec<PathBuf> {
    let mut names = list(root);
    names.sort();
    names
}

/// The content of all files, by path.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files =
        list(root).into_iter().filter(|path| root.join(path).symlink_metadata().is_ok_and(|m| m.is_file()));
    files.filter_map(|path| Some((path.clone(), fs::read(root.join(&path)).ok()?))).collect()
}

fn a_tree_moves_as_rsync_moves_it() {
    for way in WAYS {
        let scene = Scene::new();
        let (source, copy) = (mixed(&scene, "src"), scene.join("dst"));
        let (twin, expected) = (scene.join("twin"), scene.join("expected"));
        tool(Command::new("cp").arg("-a").arg(source.path()).arg(&twin));
        let mut rsync = Command::new("rsync");
        rsync.args(["-aHAX", "--remove-source-files", "--exclude=*.skip"]);
        tool(rsync.arg(slash(&twin)).arg(slash(&expected)));
        let run = scene.by(way, "mv", slash(source.path()), slash(&copy)).args(["--exclude", "*.skip"]);
        let moved = summary(&run.finish().expect_success());
        assert_same_tree(&expected, &copy);
        assert_eq!(names(source.path()), names(&twin), "{way:?}: what stays is what rsync leaves");
        moved.assert_accounted();
        assert_eq!(moved.of("removed_at_source"), 1 + 120 + 2 + 2 + 2 + 1, "{way:?}: {moved:?}");
        // Again: there is nothing to do.
        let run = scene.by(way, "copy", slash(source.path()), slash(&copy));
        let again = run.args(["--remove-source-files", "--exclude", "*.skip"]).finish().expect_success();
        assert_eq!(summary(&again).of("removed_at_source"), 0);
        assert_eq!(names(&copy), names(&expected));
        scene.assert_all_gone();
    }
}

fn content_is_compared_before_a_file_counts_as_there() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for (name, here, there) in [("same", "1234", "1234"), ("other", "1234", "4321"), ("time", "1234", "1234")]
    {
        source.text(name, here);
        copy.text(name, there);
        set_time(&source.join(name), 1_600_000_000, 5);
        set_time(&copy.join(name), if name == "time" { 1 } else { 1_600_000_000 }, 5);
    }
    let expected = contents(source.path());
    let run = scene.by(Way::Local, "mv", slash(source.path()), slash(copy.path())).finish().expect_success();
    let moved = summary(&run);
    assert_eq!((moved.of("copied"), moved.of("removed_at_source")), (1, 3), "{moved:?}");
    assert_eq!(contents(copy.path()), expected);
    assert!(names(source.path()).is_empty());
}

fn skipped_and_failed_files_stay() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    for name in ["newer", "there", "blocked", "goes"] {
        source.text(name, "from");
        set_time(&source.join(name), 1_600_000_000, 5);
    }
    copy.text("newer", "to");
    copy.text("there", "to");
    set_time(&copy.join("there"), 1_500_000_000, 0);
    fs::create_dir_all(copy.join("blocked/full")).unwrap();
    let run = scene.by(Way::Local, "mv", slash(source.path()), slash(copy.path())).arg("--update");
    let run = run.finish().expect_code(1);
    assert_eq!(names(source.path()), ["blocked", "newer"].map(PathBuf::from), "{run}");
    assert_eq!(fs::read(copy.join("newer")).unwrap(), b"to");
    assert_eq!(fs::read(copy.join("there")).unwrap(), b"from");
}

fn a_dry_run_removes_nothing_and_lists_the_removals() {
    let scene = Scene::new();
    let (source, copy) = (mixed(&scene, "src"), scene.join("dst"));
    let before = names(source.path());
    let run = scene.haul("mv").args(["-n", "-v"]).arg(slash(source.path())).arg(slash(&copy));
    let run = run.finish().expect_success();
    assert!(run.said().contains("remove at the source") && run.said().contains("d/e/one"), "{run}");
    assert!(run.said().contains("would be removed at the source"), "{run}");
    assert_eq!(names(source.path()), before);
    assert!(!copy.exists());
}

fn options_without_proof_are_refused() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.join("dst"));
    source.file("f", 10);
    for option in ["--no-fsync", "--size-only", "--index=index"] {
        for words in [&["mv"][..], &["copy", "--remove-source-files"]] {
            let run = scene.haul(words[0]).args(&words[1..]).arg(option);
            let run = run.arg(slash(source.path())).arg(slash(&copy)).finish().expect_code(2);
            let line = run.err();
            assert!(line.lines().count() == 1 && line.contains(option.split('=').next().unwrap()), "{run}");
        }
    }
    let run = scene.haul("sync").arg("--remove-source-files").arg(slash(source.path())).arg(slash(&copy));
    let run = run.finish().expect_code(2);
    assert!(run.err().contains("haul mv SRC DST"), "{run}");
    assert!(!copy.exists() && source.join("f").exists());
}

fn killed_at_random_moments_nothing_is_lost() {
    let seed = Random::any_seed();
    eprintln!("kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let mut kills = 0;
    for tour in 0..6 {
        let scene = Scene::new();
        let way = [Way::Local, Way::Push, Way::Pull][tour % 3];
        let source = TestTree::mixed(scene.join("src"), seed, &[(9 << 20) + 5], 1500);
        let copy = scene.join("dst");
        let original = contents(source.path());
        let plan = FaultPlan::new(scene.join("plan"));
        for round in 0.. {
            assert!(round < 60, "each run brings it further");
            plan.restart();
            let remote = |path: &Path| joined(&[REMOTE.as_bytes(), b":", slash(path).as_bytes()]);
            let from = if way == Way::Pull { remote(source.path()) } else { slash(source.path()) };
            let to = if way == Way::Push { remote(&copy) } else { slash(&copy) };
            let run = if way == Way::Local { scene.haul("mv") } else { scene.haul_fault("mv", &plan) };
            // The limit keeps a fast machine from finishing before the kill.
            let mut run = run.arg("--bwlimit=16M").arg(from).arg(to).start();
            std::thread::sleep(Duration::from_millis(random.between(5, 900 + 60 * round)));
            if random.between(0, 3) == 0 && way != Way::Local {
                run.agents().into_iter().for_each(kill);
            } else {
                kills += u32::from(run.is_running());
                kill(run.pid());
            }
            let end = run.finish();
            scene.assert_all_gone();
            let (here, there) = (contents(source.path()), contents(&copy));
            for (path, content) in &original {
                let is_here = here.get(path) == Some(content);
                assert!(is_here || there.get(path) == Some(content), "{} is lost: {end}", path.display());
            }
            if end.code() == Some(0) {
                assert!(here.is_empty() && there == original);
                break;
            }
        }
    }
    eprintln!("kill loop: {kills} kills");
    assert!(kills > 5);
}

/// `sftp://HOST/PATH/`; the port is in the words for `-e`.
fn sftp(path: &Path) -> OsString {
    joined(&[b"sftp://", REMOTE.as_bytes(), slash(path).as_bytes()])
}

/// `haul mv FROM TO` without a remote haul.
fn over_sftp(scene: &Scene, from: OsString, to: OsString) -> CommandRun {
    scene.haul("mv").args(["-e", &scene.sshd().shell()]).arg("--json").arg(from).arg(to)
}

fn a_tree_is_not_moved_onto_itself() {
    let scene = Scene::new();
    let source = mixed(&scene, "src");
    let before = (names(source.path()), contents(source.path()));
    // Over ssh each file is recognized, by its inode and change time.
    for (from, to) in [
        (slash(source.path()), scene.remote(slash(source.path()))),
        (scene.remote(slash(source.path())), slash(source.path())),
    ] {
        let run = scene.haul_ssh("mv").arg(from).arg(to).finish().expect_code(1);
        assert!(run.said().contains("same file as at the destination"), "{run}");
        assert_eq!((names(source.path()), contents(source.path())), before);
    }
    // SFTP has no inodes: the directory is recognized before anything is copied.
    for (from, to) in
        [(slash(source.path()), sftp(source.path())), (sftp(source.path()), slash(source.path()))]
    {
        let run = over_sftp(&scene, from, to).finish().expect_code(2);
        assert!(run.said().contains("source and destination are the same directory"), "{run}");
        assert_eq!((names(source.path()), contents(source.path())), before);
    }
    // A single file has no directory to tell.
    let file = source.join("large");
    let there = joined(&[b"sftp://", REMOTE.as_bytes(), file.as_os_str().as_bytes()]);
    let run = over_sftp(&scene, file.as_os_str().to_owned(), there).finish().expect_code(1);
    assert!(run.said().contains("cannot tell whether it is the same file"), "{run}");
    assert_eq!((names(source.path()), contents(source.path())), before);
}

fn a_tree_moves_over_sftp() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 60, 0..9000);
    source.file("large", (5 << 20) + 1);
    symlink("many", source.join("link")).unwrap();
    let (middle, back) = (scene.join("middle"), scene.join("back"));
    let original = contents(source.path());
    let moved = summary(&over_sftp(&scene, slash(source.path()), sftp(&middle)).finish().expect_success());
    assert_eq!(moved.of("removed_at_source"), 62, "{moved:?}");
    assert!(has_only_dirs(source.path()) && contents(&middle) == original);
    let moved = summary(&over_sftp(&scene, sftp(&middle), slash(&back)).finish().expect_success());
    assert_eq!(moved.of("removed_at_source"), 62, "{moved:?}");
    assert!(has_only_dirs(&middle) && contents(&back) == original);
    assert!(fs::read_link(back.join("link")).is_ok());
    assert!(
        !fs::read_dir(&back).unwrap().flatten().any(|e| e.file_name().as_bytes().starts_with(b"haul-check"))
    );
}

fn a_tree_moves_into_and_out_of_a_store() {
    let place = StoreOfTest::new();
    let source = place.scene.tree("src");
    source.many("many", 40, 0..9000);
    source.file("large", (5 << 20) + 1);
    symlink("many", source.join("link")).unwrap();
    let original = contents(source.path());
    let back = place.scene.join("back");
    let run = |from: OsString, to: OsString| {
        summary(&place.haul("mv").arg("--json").arg(from).arg(to).finish().expect_success())
    };
    let moved = run(slash(source.path()), at("t/").into());
    assert_eq!((moved.of("removed_at_source"), has_only_dirs(source.path())), (42, true), "{moved:?}");
    let moved = run(at("t/").into(), at("u/").into());
    assert_eq!(moved.of("removed_at_source"), 42, "{moved:?}");
    assert!(place.stored("t/large").is_empty() && place.stored("t/large.haul").is_empty());
    let moved = run(at("u/").into(), slash(&back));
    assert_eq!(moved.of("removed_at_source"), 42, "{moved:?}");
    assert!(contents(&back) == original);
    assert!(place.stored("u/large").is_empty() && place.stored("u/link").is_empty());
}

fn an_object_that_was_replaced_meanwhile_stays() {
    let place = StoreOfTest::new();
    place.store.put("/bucket/t/a", b"one", &[]);
    place.store.put("/bucket/t/b", b"two", &[]);
    let (other, scene) = (place.store.address(), &place.scene);
    // The deletion finds another object than the look before it.
    let proxy = haul_testkit::Proxy::start(other, |request, _| {
        (request.method == "DELETE" && request.path.ends_with("/t/a") && request.header("if-match").is_some())
            .then_some(haul_testkit::ProxyTrouble::Refuse(412, "", "PreconditionFailed"))
    });
    let to = scene.join("to");
    let run = place.behind(&proxy, "mv").arg(at("t/")).arg(slash(&to)).finish().expect_code(1);
    assert!(run.said().contains("it is another object by now") && run.said().contains("t/a"), "{run}");
    assert_eq!((place.stored("t/a"), place.stored("t/b")), (b"one".to_vec(), Vec::new()));
    assert_eq!(fs::read(to.join("a")).unwrap(), b"one");
}

/// The objects that another client finds below a prefix.
fn below(bucket: &TestBucket, prefix: &str, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let dir = bucket.scene.join(name);
    fs::create_dir_all(&dir).unwrap();
    bucket.rclone_copy(false, &dir, prefix);
    contents(&dir)
}

fn the_store_itself_moves_objects_within_a_bucket() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    source.many("many", 30, 1..9000);
    source.file("large", (9 << 20) + 1);
    let _ = bucket.haul("copy").arg(slash(source.path())).arg(bucket.at("a/")).finish().expect_success();
    let original = below(&bucket, "a/", "original");
    assert_eq!(original.len(), 31);
    // Killed after some requests, nothing is lost, and nothing is half there.
    for (round, requests) in [10, 40, 90].into_iter().enumerate() {
        let proxy = haul_testkit::Proxy::start(endpoint(), |_, _| None);
        let mut run = bucket.through(&proxy, "mv").arg(bucket.at("a/")).arg(bucket.at("c/")).start();
        run.wait_until("some requests were made", || proxy.count(|_| true) >= requests);
        kill(run.pid());
        drop(run.finish());
        let [old, new] = ["a/", "c/"].map(|at| below(&bucket, at, &format!("{round}-{at}")));
        for (path, bytes) in &original {
            let held: Vec<&Vec<u8>> = [&old, &new].iter().filter_map(|side| side.get(path)).collect();
            assert!(!held.is_empty() && held.iter().all(|found| *found == bytes), "{}", path.display());
        }
    }
    let mv = |from: &str, to: &str| bucket.haul("mv").arg(bucket.at(from)).arg(bucket.at(to)).finish();
    let _ = mv("a/", "b/").expect_success();
    let _ = mv("c/", "b/").expect_success();
    let proxy = haul_testkit::Proxy::start(endpoint(), |_, _| None);
    let run = bucket.through(&proxy, "mv").arg(bucket.at("b/")).arg(bucket.at("c/")).finish();
    let _ = run.expect_success();
    let reads = |request: &haul_testkit::store::HttpRequest| {
        request.method == "GET" && request.query.is_empty() && !request.path.ends_with(".haul")
    };
    assert_eq!(proxy.count(reads), 0, "no content passes this host");
    assert!(
        below(&bucket, "c/", "moved") == original
            // As with rsync, directories stay; their metadata is in objects here.
            && bucket.names().iter().all(|name| name.starts_with("c/") || name.ends_with("/.haul"))
    );
    // One object, to another name; and never onto itself.
    let _ = mv("c/large", "d/other").expect_success();
    let names = bucket.names();
    assert!(names.contains(&"d/other".to_owned()) && !names.contains(&"c/large".to_owned()), "{names:?}");
    for (from, to) in [("d/other", "d/other"), ("d/", "d/"), ("d/other", "d/")] {
        let _ = mv(from, to).expect_code(2);
    }
    assert!(bucket.read("d/other") == original[Path::new("large")]);
}

fn a_login_that_may_not_remove_is_refused_before_the_copy() {
    for access in ["--read-only", "--append-only", "--no-delete"] {
        let vault = haul_testkit::Scratch::new();
        fs::write(vault.join("f"), "f").unwrap();
        let command = format!("{HAUL} agent --root {} {access}", vault.path().display());
        let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
        let to = scene.join("to");
        let run = scene.haul_ssh("mv").arg(scene.remote(slash(vault.path()))).arg(slash(&to)).finish();
        let run = run.expect_code(2);
        assert!(run.said().contains("remove source files") && run.said().contains("this login may"), "{run}");
        assert!(!to.exists() && vault.join("f").exists(), "{run}");
    }
}

fn one_name_of_two_sources_is_lost_by_neither() {
    let scene = Scene::new();
    let (one, two, copy) = (scene.tree("one"), scene.tree("two"), scene.join("dst"));
    one.text("f", "first");
    one.text("g", "g");
    two.text("f", "second");
    two.text("h", "h");
    let run = scene.haul("mv").arg(slash(one.path())).arg(slash(two.path())).arg(slash(&copy));
    let _ = run.finish().expect_success();
    // As with rsync, the first one wins, and the other one was not copied.
    assert_eq!(fs::read(copy.join("f")).unwrap(), b"first");
    assert_eq!((names(one.path()), names(two.path())), (Vec::new(), vec![PathBuf::from("f")]));
    assert!(copy.join("g").exists() && copy.join("h").exists());
}

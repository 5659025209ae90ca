//! `haul verify` compares metadata as rsync does, and accepts every copy of haul, whatever the two ends can keep.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::{listed_before, set_time};
use haul_testkit::{CommandRun, Finished, Need, Scratch, SshdOptions, TestMount, TestTree};

use crate::scene::{HAUL, Scene, Way, events, slash, summary};
use crate::sftp;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("rsync");
        differences_of_metadata_are_those_of_rsync,
    ];
    all.extend(cases![
        Need::Root;
        a_copy_verifies_for_each_pair_of_ends,
        a_copy_of_another_user_verifies,
        changes_of_a_copy_are_expected,
    ]);
    all.extend(cases![Need::Root, Need::LoopMounts; a_copy_on_fat_verifies]);
    all.extend(cases![
        Need::Root, Need::Program("weed");
        a_copy_in_a_store_verifies,
    ]);
    all.extend(cases![a_login_that_may_only_read_compares_metadata, equal_entries_are_listed_with_v]);
    all
}

/// Every kind of entry and of metadata, and the names of the first of two hard links, and of the first of two files.
fn source_with_names(scene: &Scene) -> (TestTree, [String; 2]) {
    let tree = scene.tree("src");
    let first = listed_before(scene.path(), "first", &["second"]);
    let joined = listed_before(scene.path(), "joined-1", &["joined-2"]);
    let plain = ["same", "mode", "owner", "time", "xattr", "acl", "both", "dir/in", "joined-2"];
    for name in plain.into_iter().chain([&*first, &*joined]) {
        tree.text(name, name);
    }
    tree.dir("dir-mode");
    tree.link("link", "same");
    tree.link("retargeted", "same");
    fs::hard_link(tree.join(&first), tree.join("second")).unwrap();
    fs::hard_link(tree.join(&first), tree.join("dir/third")).unwrap();
    tool(Command::new("mkfifo").arg(tree.join("fifo")));
    tool(Command::new("mknod").arg(tree.join("device")).args(["c", "1", "3"]));
    tool(Command::new("setfattr").args(["-n", "user.x", "-v", "y"]).arg(tree.join("xattr")));
    tool(Command::new("setfacl").args(["-m", "u:7:r"]).arg(tree.join("acl")));
    chown(tree.join("owner"), Some(5), Some(6)).unwrap();
    fs::set_permissions(tree.join("owner"), fs::Permissions::from_mode(0o4755)).unwrap();
    for name in ["same", "time", "dir", ""] {
        tree.time(name, 1_500_000_000, 123_456_789);
    }
    (tree, [first, joined])
}

fn source(scene: &Scene) -> TestTree {
    source_with_names(scene).0
}

fn told(run: &Finished, of: &str) -> BTreeSet<String> {
    let lines = events(run).into_iter().filter(|line| line["difference"] == of);
    lines.map(|line| line["path"].as_str().unwrap().to_owned()).collect()
}

/// The paths that rsync itemizes, without a slash at the end.
fn by_rsync(source: &Path, copy: &Path) -> BTreeSet<String> {
    let options = ["-naiHAXc", "--numeric-ids", "--modify-window=-1", "--devices", "--specials"];
    let output = tool(Command::new("rsync").args(options).arg(slash(source)).arg(slash(copy)));
    let name = |line: &str| {
        let name = line.split_at(12).1;
        let name = name.split(" -> ").next().unwrap().split(" => ").next().unwrap();
        let name = name.strip_suffix('/').unwrap_or(name);
        (if name == "." { "." } else { name.trim_start_matches("./") }).to_owned()
    };
    output.lines().map(name).collect()
}

fn differences_of_metadata_are_those_of_rsync() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let (source, [first, joined]) = source_with_names(&scene);
        let copy = scene.join("copy");
        let _ = scene.copy(Way::Local, source.path(), &copy).finish().expect_success();
        let verify = || scene.by(way, "verify", slash(source.path()), slash(&copy));
        let run = verify().finish().expect_success();
        assert_eq!(run.said().matches("\"difference\"").count(), 0, "{run}");

        for (name, mode) in [("mode", 0o600), ("dir-mode", 0o700), ("both", 0o640)] {
            fs::set_permissions(copy.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        chown(copy.join("owner"), Some(0), Some(6)).unwrap();
        fs::set_permissions(copy.join("owner"), fs::Permissions::from_mode(0o4755)).unwrap();
        set_time(&copy.join("time"), 1_500_000_000, 123_456_788);
        chown(copy.join("both"), Some(9), None).unwrap();
        tool(Command::new("setfattr").args(["-n", "user.x", "-v", "z"]).arg(copy.join("xattr")));
        tool(Command::new("setfacl").arg("-b").arg(copy.join("acl")));
        fs::set_permissions(copy.join("acl"), fs::metadata(source.join("acl")).unwrap().permissions())
            .unwrap();
        fs::remove_file(copy.join("second")).unwrap();
        tool(Command::new("cp").arg("-p").arg(copy.join(first)).arg(copy.join("second")));
        set_time(&copy, 1_500_000_000, 123_456_789);
        let run = verify().finish().expect_code(1);
        let metadata = told(&run, "metadata");
        assert_eq!(by_rsync(source.path(), &copy), metadata, "{run}");
        assert!(
            metadata.contains("second") && metadata.contains("acl") && !metadata.contains("link"),
            "{run}"
        );
        for words in ["mode 644 at the source, 600 there", "owner 5 at the source, 0 there", "hard links"] {
            assert!(run.out().contains(words), "{words}: {run}");
        }
        assert!(run.said().contains("\"metadata\":"), "{run}");
        let _ = verify().arg("--content-only").finish().expect_success();
        let left = ["--no-perms", "--no-owner", "--no-xattrs", "--modify-window=1"];
        let run = verify().args(left).finish().expect_code(1);
        assert_eq!(told(&run, "metadata"), BTreeSet::from(["second".to_owned()]), "{run}");

        // Two files at the source, one here.
        fs::remove_file(copy.join("joined-2")).unwrap();
        fs::hard_link(copy.join(joined), copy.join("joined-2")).unwrap();
        fs::remove_file(copy.join("retargeted")).unwrap();
        std::os::unix::fs::symlink("other", copy.join("retargeted")).unwrap();
        fs::write(copy.join("same"), "SAME").unwrap();
        let run = verify().finish().expect_code(3);
        let differs = ["joined-2", "retargeted", "same"].map(str::to_owned);
        assert_eq!(told(&run, "differs"), BTreeSet::from(differs), "{run}");
        scene.assert_all_gone();
    }
}

/// Copies, and verifies with the same options.
#[track_caller]
fn verifies(
    run: impl Fn(&str) -> CommandRun,
    from: impl AsRef<std::ffi::OsStr>,
    to: impl AsRef<std::ffi::OsStr>,
) -> Finished {
    let run = |word| run(word).arg(from.as_ref()).arg(to.as_ref()).finish();
    let _ = run("copy").expect_success();
    let verified = run("verify").expect_success();
    assert!(!verified.out().contains("metadata "), "{verified}");
    verified
}

fn a_copy_verifies_for_each_pair_of_ends() {
    let scene = Scene::new();
    let source = source(&scene);
    let by = |way| {
        let copy = scene.join(format!("{way:?}"));
        let run = |word: &str| scene.by(way, word, slash(source.path()), slash(&copy)).finish();
        let _ = run("copy").expect_success();
        let _ = run("verify").expect_success();
    };
    [Way::Local, Way::Push, Way::Pull, Way::Relay].into_iter().for_each(by);
    let copy = scene.join("by-sftp");
    let run = verifies(|word| sftp::haul(&scene, word), slash(source.path()), sftp::sftp(&copy));
    for words in ["not compared: times below a second", "not compared: attributes and ACLs"] {
        assert!(run.said().contains(words), "{words}: {run}");
    }
    let _ = verifies(|word| sftp::haul(&scene, word), sftp::sftp(&copy), slash(&scene.join("back")));
    fs::set_permissions(copy.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    let run = sftp::haul(&scene, "verify").arg(slash(source.path())).arg(sftp::sftp(&copy)).finish();
    let run = run.expect_code(1);
    assert!(run.out().contains("metadata mode: mode 644 at the source, 600 there"), "{run}");
    assert!(run.said().contains("content is equal, metadata DIFFERS: 1 entry"), "{run}");
}

fn a_copy_of_another_user_verifies() {
    let scene = Scene::new();
    let source = source(&scene);
    fs::remove_file(source.join("device")).unwrap();
    let place = scene.join("theirs");
    fs::create_dir(&place).unwrap();
    chown(&place, Some(65534), Some(65534)).unwrap();
    let copy = place.join("copy");
    let run = |word: &str| {
        scene.as_nobody().arg(word).arg(slash(source.path())).arg(slash(&copy)).finish().expect_success()
    };
    let _ = run("copy");
    let verified = run("verify");
    assert!(verified.said().contains("not compared: owner of "), "{verified}");
    // Metadata that this user could set differs.
    fs::set_permissions(copy.join("owner"), fs::Permissions::from_mode(0o700)).unwrap();
    let verify = scene.as_nobody().arg("verify").arg(slash(source.path())).arg(slash(&copy)).finish();
    let verify = verify.expect_code(1);
    assert!(verify.out().starts_with("metadata owner: mode 4755 at the source, 700 there\n"), "{verify}");
}

fn changes_of_a_copy_are_expected() {
    let scene = Scene::new();
    let source = source(&scene);
    let copy = scene.join("copy");
    let options = ["--chmod", "D750,F640", "--chown", "7:8", "--no-devices"];
    let run = |word: &str| scene.haul(word).arg(slash(source.path())).arg(slash(&copy));
    let _ = run("copy").args(options).finish().expect_success();
    let _ = run("verify").args(options).finish().expect_success();
    let again = summary(&run("copy").args(options).arg("--json").finish().expect_success());
    assert_eq!(again.of("updated"), 0, "the mask of an ACL is that of the new mode: {again:?}");
    let _ = run("verify").finish().expect_code(3);
    for words in [vec!["--content-only", "--no-owner"], vec!["--manifest", "x", "--no-times"]] {
        let _ = scene.haul("verify").args(words).arg(slash(&copy)).arg(slash(&copy)).finish().expect_code(2);
    }
}

fn a_copy_on_fat_verifies() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 20, 0..3000);
    source.time("many", 1_600_000_001, 5);
    chown(source.join("many"), Some(5), None).unwrap();
    let disk = TestMount::fat(64 << 20);
    let run = verifies(|word| scene.haul(word), slash(source.path()), slash(&disk.join("copy")));
    assert!(run.said().contains("not compared: owner of "), "{run}");
    let name = fs::read_dir(source.join("many")).unwrap().next().unwrap().unwrap().file_name();
    set_time(&disk.join("copy/many").join(name), 1_600_000_100, 0);
    let run = scene.haul("verify").arg(slash(source.path())).arg(slash(&disk.join("copy"))).finish();
    assert!(run.expect_code(1).out().contains("time 2"), "times of two seconds are compared");
}

fn a_copy_in_a_store_verifies() {
    let bucket = TestBucket::new();
    let source = source(&bucket.scene);
    let _ = verifies(|word| bucket.haul(word), slash(source.path()), bucket.at("t/"));
    let run = verifies(|word| bucket.haul(word), bucket.at("t/"), slash(&bucket.scene.join("back")));
    assert!(run.said().contains("skipped"), "devices of a store are not made: {run}");
    let _ = verifies(|word| bucket.haul(word), bucket.at("t/"), bucket.at("u/"));
    fs::set_permissions(source.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    let _ = bucket.put("t/time", b"time");
    let run = bucket.haul("verify").arg(slash(source.path())).arg(bucket.at("t/")).finish().expect_code(1);
    assert_eq!(run.out().lines().count(), 1, "{run}");
    assert!(run.out().starts_with("metadata mode: mode 600"), "{run}");
    assert!(
        run.said().contains("not compared: metadata of 1 entry: none is recorded (first: `time`)"),
        "{run}"
    );
}

fn a_login_that_may_only_read_compares_metadata() {
    let vault = Scratch::new();
    fs::write(vault.join("a"), "a").unwrap();
    let command = format!("{HAUL} agent --root {} --read-only", vault.path().display());
    let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
    let copy = scene.join("copy");
    tool(Command::new("cp").arg("-a").arg(vault.path()).arg(&copy));
    let verify = || scene.haul_ssh("verify").arg(slash(&copy)).arg("127.0.0.1:.").finish();
    let _ = verify().expect_success();
    fs::set_permissions(vault.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(verify().expect_code(1).out().starts_with("metadata a: mode "));
}

fn equal_entries_are_listed_with_v() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        for name in ["a", "dir/b", "c"] {
            source.text(name, name);
        }
        let copy = scene.join("copy");
        let _ = scene.copy(Way::Local, source.path(), &copy).finish().expect_success();
        fs::write(copy.join("c"), "other").unwrap();
        let verify = || scene.by(way, "verify", slash(source.path()), slash(&copy));
        let equal = |run: &Finished| {
            let lines =
                events(run).into_iter().filter(|line| line["type"] == "entry" && line["action"] == "same");
            lines.map(|line| line["path"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        let run = verify().finish().expect_code(3);
        assert!(equal(&run).is_empty(), "{way:?}: {run}");
        let run = verify().arg("-v").finish().expect_code(3);
        let expected = [".", "a", "dir", "dir/b"].map(str::to_owned);
        assert_eq!(equal(&run), BTreeSet::from(expected), "{way:?}: {run}");
        assert_eq!(told(&run, "differs").len(), 1, "{way:?}: {run}");
    }
    let scene = Scene::new();
    let source = scene.tree("src");
    for name in ["a", "b"] {
        source.text(name, name);
    }
    let manifest = scene.join("list");
    let run = scene.haul("hash").arg(slash(source.path())).finish().expect_success();
    fs::write(&manifest, run.out()).unwrap();
    fs::write(source.join("b"), "other").unwrap();
    let verify = || scene.haul("verify").arg("--manifest").arg(&manifest).arg(slash(source.path()));
    let run = verify().arg("-v").finish().expect_code(3);
    assert!(run.out().lines().any(|line| line == "equal    a"), "{run}");
    assert!(run.out().contains("differs  b: "), "{run}");
    assert!(!verify().finish().expect_code(3).out().contains("equal"));
}

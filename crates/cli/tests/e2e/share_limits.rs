//! The limits of a share: its speed, measured by `haul probe`, and the quota of its user.

use std::fs;
use std::path::Path;

use haul_slowfs::{FaultEffect, FsFault, MountOptions, Op, SlowMount};
use haul_testkit::tree::list;
use haul_testkit::{FileSystem, Finished, Need, Smbd, SmbdOptions, TestMount, TestTree};
use rustix::io::Errno;
use serde_json::Value;

use crate::scene::{Scene, events, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("smbd"), Need::Tmpfs;
        a_copy_to_and_from_a_share_is_measured,
        a_share_that_is_nearly_full_or_read_only_is_not_written,
    ];
    all.extend(cases![Need::Root, Need::Program("smbd"), Need::Fuse; a_quota_that_is_used_up_is_exit_5]);
    all
}

fn source(at: impl AsRef<Path>) -> TestTree {
    TestTree::mixed(at.as_ref().to_path_buf(), 40, &[9 << 20, 5 << 20], 300)
}

/// The one line of a type.
#[track_caller]
fn line(run: &Finished, kind: &str) -> Value {
    let found = events(run).into_iter().find(|line| line["type"] == kind);
    found.unwrap_or_else(|| panic!("no line of type {kind}: {run}"))
}

#[track_caller]
fn assert_measured(found: &Value) {
    for end in ["source", "destination"] {
        for figure in ["bytes_per_second", "files_per_second"] {
            assert!(
                found[end][figure].as_f64().is_some_and(|rate| rate > 0.0),
                "{figure} of {end} in {found}"
            );
        }
        assert!(found[end]["cpu"]["hash"].as_f64().is_some_and(|rate| rate > 0.0), "{found}");
    }
    assert!(found["destination"]["sync_seconds"].is_number(), "{found}");
    assert_eq!(found["tree"]["files"], 302);
    assert!(found["estimate"]["high_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{found}");
}

fn a_copy_to_and_from_a_share_is_measured() {
    // The disk of the tests may be fuller than a probe writes to.
    let [disk, other] = [(); 2].map(|()| TestMount::new(FileSystem::Tmpfs, 400 << 20));
    let scene = Scene::new();
    let server = Smbd::start(disk.path(), &SmbdOptions::default());
    let haul = |word: &str| scene.haul(word).arg("--smb-credentials").arg(server.credentials());
    let here = source(scene.join("src"));
    let there = source(disk.join("src"));
    let before = list(disk.path());
    // Left by a probe that was killed.
    let left = disk.join(".haul-0000000000000003.part");
    fs::write(&left, "left").unwrap();
    let probe = |from: std::ffi::OsString, to: std::ffi::OsString| {
        haul("probe").arg("--json").arg(from).arg(to).finish().expect_success()
    };
    let up = probe(slash(here.path()), server.at("new/dst/").into());
    assert_measured(&line(&up, "probe"));
    assert!(!left.exists());
    let back = other.join("back");
    let down = probe(server.at("src/").into(), slash(&back));
    assert_measured(&line(&down, "probe"));
    assert!(!back.exists());
    let across = probe(server.at("src/").into(), server.at("src/many/").into());
    assert_measured(&line(&across, "probe"));
    assert_eq!(list(disk.path()), before, "nothing is left");
    drop(there);

    let words = haul("probe").arg(slash(here.path())).arg(server.at("dst/")).finish();
    let words = words.expect_success();
    for told in ["destination: write and sync", "connections with a share", "\nlimit: ", "\nrun: haul copy "]
    {
        assert!(words.out().contains(told), "{told:?} in {words}");
    }
    assert!(!words.out().contains("are local"), "{words}");

    let doctor = haul("probe").arg("--doctor").arg(server.at("src/")).finish();
    assert_eq!(doctor.code(), Some(1), "{doctor}");
    assert!(doctor.said().contains("a share is no host with haul"), "{doctor}");
}

fn a_share_that_is_nearly_full_or_read_only_is_not_written() {
    let disk = TestMount::new(FileSystem::Tmpfs, 12 << 20);
    let scene = Scene::new();
    let here = source(scene.join("src"));
    TestTree::new(disk.join("full"), 1).file("large", 11 << 20);
    let other = TestMount::new(FileSystem::Tmpfs, 400 << 20);
    let measured = |server: &Smbd| {
        let run = scene.haul("probe").arg("--smb-credentials").arg(server.credentials()).arg("--json");
        let run = run.arg(slash(here.path())).arg(server.at("dst/")).finish().expect_success();
        line(&run, "probe")["destination"].clone()
    };
    let full = measured(&Smbd::start(disk.path(), &SmbdOptions::default()));
    assert!(full["skipped"].as_str().unwrap().contains("less than a tenth"), "{full}");
    let lines = vec!["read only = yes".to_owned()];
    let closed =
        measured(&Smbd::start(other.path(), &SmbdOptions { share: lines, ..SmbdOptions::default() }));
    assert!(closed["skipped"].as_str().unwrap().contains("Permission denied"), "{closed}");
    assert_eq!(list(other.path()).len(), 0);
}

fn a_quota_that_is_used_up_is_exit_5() {
    let scene = Scene::new();
    let [behind, at] = ["behind", "share"].map(|name| scene.join(name));
    [&behind, &at].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
    // No file system here can have quotas, so one fails as a file system with a quota does.
    let mount = SlowMount::new(&behind, &at, MountOptions::default()).unwrap();
    mount.faults().add(FsFault::always(Op::Write, "", FaultEffect::Fail(Errno::DQUOT)));
    let server = Smbd::start(&at, &SmbdOptions::default());
    for (name, files, len) in [("small", 30, 3000), ("large", 2, 9 << 20)] {
        let tree = scene.tree(name);
        (0..files).for_each(|number| drop(tree.file(format!("file{number}"), len)));
        let run = scene.haul("copy").arg("--smb-credentials").arg(server.credentials());
        let run = run.args(["--on-full", "fail"]).arg(slash(tree.path())).arg(server.at(&format!("{name}/")));
        let run = run.finish().expect_code(5);
        let said = run.err();
        assert!(said.contains(&format!("smb://{}", server.at("").split("//").nth(1).unwrap())), "{said}");
        assert!(said.contains("in the quota of this user on the share"), "{said}");
        let whole = list(&behind.join(name)).into_iter().filter(|path| path.is_file());
        assert_eq!(whole.filter(|path| !path.to_string_lossy().contains(".haul")).count(), 0, "{said}");
    }
    drop(server);
}

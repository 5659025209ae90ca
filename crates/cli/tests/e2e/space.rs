//! A full destination.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::wait_until;
use haul_testkit::{
    CommandRun, FileSystem, Need, Running, SshdOptions, TestMount, TestTree, assert_no_half_files,
    assert_same_tree,
};
use rustix::process::Signal;

use crate::scene::{Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all =
        cases![Need::Tmpfs; a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room];
    all.extend(cases![Need::LoopMounts; a_full_disk_is_exit_5_and_nothing_is_half_there]);
    all.extend(cases![
        Need::Tmpfs;
        a_full_destination_with_small_files_only_is_exit_5,
        a_full_destination_is_waited_for_and_the_copy_goes_on,
        waiting_for_room_ends_when_it_is_interrupted_and_after_the_time_that_was_set,
    ]);
    all.extend(cases![Need::LoopMounts; room_is_found_when_something_is_removed]);
    all.extend(cases![
        Need::Tmpfs;
        over_sftp_a_read_only_destination_is_not_called_full,
        over_sftp_a_destination_without_permission_is_one_line,
    ]);
    all
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

fn runs_full(scene: &Scene, way: Way, source: &TestTree, copy: &Path) {
    let run = scene.copy(way, source.path(), copy).args(["--on-full", "fail"]).finish().expect_code(5);
    assert_no_half_files(source.path(), copy);
    assert!(run.err().contains("No space left"), "it is said: {run}");
    scene.assert_all_gone();
}

fn a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room() {
    for way in WAYS {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 10, &[14 << 20, 13 << 20, 12 << 20], 500);
        let disk = TestMount::new(FileSystem::Tmpfs, 24 << 20);
        let copy = disk.join("dst");
        runs_full(&scene, way, &source, &copy);
        disk.resize_tmpfs(120 << 20);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        again.assert_accounted();
        assert!(again.of("same_bytes") + again.of("resumed_bytes") > 0, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_full_disk_is_exit_5_and_nothing_is_half_there() {
    for way in WAYS {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 11, &[19 << 20, 17 << 20], 500);
        let disk = TestMount::new(FileSystem::Ext4, 64 << 20);
        let copy = disk.join("dst");
        std::fs::write(disk.join("ballast"), vec![1; 30 << 20]).unwrap();
        runs_full(&scene, way, &source, &copy);
        std::fs::remove_file(disk.join("ballast")).unwrap();
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert_same_tree(source.path(), &copy);
    }
}

fn a_full_destination_with_small_files_only_is_exit_5() {
    for way in WAYS {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 12, &[], 4000);
        let disk = TestMount::new(FileSystem::Tmpfs, 8 << 20);
        let copy = disk.join("dst");
        runs_full(&scene, way, &source, &copy);
        disk.resize_tmpfs(80 << 20);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        again.assert_accounted();
        assert!(again.of("same") > 0, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

/// Starts a copy with JSON and waits until it says that it waits for room.
fn paused(run: CommandRun) -> Running {
    let running = run.limit(Duration::from_secs(120)).start();
    wait_until("it waits for room", Duration::from_secs(60), || {
        running.stdout().contains("waiting for free space")
    });
    running
}

fn a_full_destination_is_waited_for_and_the_copy_goes_on() {
    for way in WAYS {
        // Large files and small files, then small files alone.
        for (big, room) in [(&[14 << 20, 13 << 20, 12 << 20][..], 24 << 20), (&[], 1 << 20)] {
            let scene = Scene::new();
            let source = TestTree::mixed(scene.join("src"), 13, big, 600);
            let disk = TestMount::new(FileSystem::Tmpfs, room);
            let copy = disk.join("dst");
            let mut running = paused(scene.copy(way, source.path(), &copy));
            assert_no_half_files(source.path(), &copy);
            assert!(running.is_running());
            wait_until("progress says why", Duration::from_secs(20), || {
                running.stdout().contains(r#""limit":"room""#)
            });
            disk.resize_tmpfs(120 << 20);
            let run = running.finish().expect_success();
            let said = events(&run);
            let told = said.iter().filter(|line| line["type"] == "note").count();
            assert!(told <= 4, "{way:?}: it is said once: {run}");
            let done = summary(&run);
            done.assert_accounted();
            assert_eq!(done.of("failed"), 0, "{way:?}");
            assert_same_tree(source.path(), &copy);
            scene.assert_all_gone();
        }
    }
}

fn room_is_found_when_something_is_removed() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 14, &[19 << 20, 17 << 20], 500);
    let disk = TestMount::new(FileSystem::Ext4, 64 << 20);
    std::fs::write(disk.join("ballast"), vec![1; 30 << 20]).unwrap();
    let copy = disk.join("dst");
    let running = paused(scene.copy(Way::Local, source.path(), &copy));
    std::fs::remove_file(disk.join("ballast")).unwrap();
    summary(&running.finish().expect_success()).assert_accounted();
    assert_same_tree(source.path(), &copy);
}

fn waiting_for_room_ends_when_it_is_interrupted_and_after_the_time_that_was_set() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 15, &[14 << 20, 13 << 20], 100);
    let disk = TestMount::new(FileSystem::Tmpfs, 16 << 20);
    let copy = disk.join("dst");
    let running = paused(scene.copy(Way::Push, source.path(), &copy));
    running.signal(Signal::INT);
    let _ = running.finish().expect_code(130);
    assert_no_half_files(source.path(), &copy);
    scene.assert_all_gone();
    let run = scene.haul("copy").args(["-q", "--on-full", "pause:1s"]).arg(slash(source.path())).arg(&copy);
    let run = run.finish().expect_code(5);
    assert!(
        run.err().contains("waiting for free space") && run.err().contains("is full"),
        "also with -q: {run}"
    );
    disk.resize_tmpfs(80 << 20);
    let again = summary(&scene.copy(Way::Local, source.path(), &copy).finish().expect_success());
    assert!(again.of("same_bytes") + again.of("resumed_bytes") > 0, "{again:?}");
    assert_same_tree(source.path(), &copy);
}

/// The last lines of a copy to the SFTP server of the scene, which names the host.
fn refused_over_sftp(scene: &Scene, source: &std::ffi::OsStr, to: &Path) -> Vec<String> {
    let run = crate::sftp::haul(scene, "copy").arg(source).arg(crate::sftp::sftp(to)).finish().expect_code(1);
    let text = run.err();
    let lines = text.lines().filter(|line| !line.contains("no haul checks the content on arrival"));
    lines.map(str::to_owned).collect()
}

fn over_sftp_a_read_only_destination_is_not_called_full() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 16, &[5 << 20], 30);
    for is_full in [false, true] {
        let disk = TestMount::new(FileSystem::Tmpfs, 1 << 20);
        let copy = disk.join("dst");
        std::fs::create_dir(&copy).unwrap();
        if is_full {
            let _ = std::fs::write(disk.join("ballast"), vec![1; 2 << 20]);
        }
        tool(Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()));
        let said = refused_over_sftp(&scene, &slash(source.path()), &copy);
        let expected = format!(
            "haul: failed to write to `sftp://127.0.0.1{}` (destination): Read-only file system",
            copy.display()
        );
        assert_eq!((said.len(), &said[0]), (2, &expected), "{said:?}");
        assert!(said[1].contains("mount this one for writing"), "{said:?}");
    }
}

fn over_sftp_a_destination_without_permission_is_one_line() {
    let server = haul_testkit::sshd::sftp_server();
    let command = format!("setpriv --reuid=65534 --regid=65534 --clear-groups {}", server.display());
    let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
    let source = TestTree::mixed(scene.join("src"), 17, &[5 << 20], 30);
    let copy = scene.tree("locked");
    tool(Command::new("chmod").arg("755").arg(scene.path()).arg(copy.path()));
    for (from, to, failed, shown) in [
        (slash(source.path()), copy.path().to_owned(), "write to", "locked"),
        (source.path().into(), copy.path().to_owned(), "write to", "locked/src"),
        (slash(source.path()), copy.join("sub"), "make the directory", "locked/sub"),
    ] {
        let said = refused_over_sftp(&scene, &from, &to);
        let at =
            format!("`sftp://127.0.0.1{}` (destination): Permission denied", scene.join(shown).display());
        assert_eq!((said.len(), &said[0]), (2, &format!("haul: failed to {failed} {at}")), "{said:?}");
        assert!(said[1].starts_with("hint: log in as a user who may write there"), "{said:?}");
    }
    // A directory in it may be writable, and its owner may unlock it.
    copy.file("dir/f", 1);
    let own = scene.tree("own");
    std::os::unix::fs::chown(copy.join("dir"), Some(65534), None).unwrap();
    std::os::unix::fs::chown(own.path(), Some(65534), None).unwrap();
    tool(Command::new("chmod").arg("555").arg(own.path()));
    let deep = scene.tree("deep");
    deep.file("dir/new", 10);
    deep.file("not", 10);
    let run = crate::sftp::haul(&scene, "copy").arg(slash(deep.path())).arg(crate::sftp::sftp(copy.path()));
    let run = run.finish().expect_code(1);
    assert!(copy.join("dir/new").exists() && !copy.join("not").exists(), "{run}");
    let run = crate::sftp::haul(&scene, "copy").arg(slash(deep.path())).arg(crate::sftp::sftp(own.path()));
    let run = run.finish().expect_success();
    assert!(own.join("dir/new").exists() && own.join("not").exists(), "{run}");
}

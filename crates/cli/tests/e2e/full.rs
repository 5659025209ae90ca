//! The message of a full destination, and the staged files that stay on it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::{CommandRun, FileSystem, Finished, Need, TestMount};
use rustix::fs::FlockOperation;

use crate::scene::{Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Tmpfs;
        unfinished_files_of_other_runs_are_told_and_useless_ones_do_not_stay,
        a_file_that_a_run_holds_is_not_told,
        inodes_that_ran_out_are_told,
    ]
}

/// The name of a staged file of another run.
const PART: &str = ".haul-0123456789abcdef.part";

/// A large file that another run has not finished, and may resume.
fn leave_part(dir: &Path) {
    fs::write(dir.join(PART), vec![1; 3 << 20]).unwrap();
    fs::write(dir.join(PART.replace("part", "journal")), vec![1; 300]).unwrap();
}

/// A copy of `src` to `copy`: local, to a haul there, or over SFTP.
fn copies(scene: &Scene, copy: &Path) -> [(&'static str, CommandRun); 3] {
    let source = slash(&scene.join("src"));
    let sftp = crate::sftp::haul(scene, "copy").arg(&source).arg(crate::sftp::sftp(copy));
    let copies = [
        ("", scene.haul("copy").arg(&source).arg(copy)),
        ("127.0.0.1:", scene.haul_ssh("copy").arg(&source).arg(scene.remote(copy))),
        ("sftp://127.0.0.1", sftp),
    ];
    copies.map(|(host, run)| (host, run.args(["--on-full", "fail"])))
}

/// The hint of a run to a full disk.
fn hint(run: &Finished) -> String {
    let hint = run.err().lines().find(|line| line.starts_with("hint: ")).map(str::to_owned);
    hint.unwrap_or_else(|| panic!("{run}"))
}

/// The staged files and journals in a directory.
fn staged(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".haul-")).collect()
}

fn unfinished_files_of_other_runs_are_told_and_useless_ones_do_not_stay() {
    for way in 0..3 {
        let scene = Scene::new();
        scene.tree("src").file("big", 14 << 20);
        let disk = TestMount::new(FileSystem::Tmpfs, 6 << 20);
        let copy = disk.join("dst");
        fs::create_dir(&copy).unwrap();
        leave_part(&copy);
        let (host, run) = copies(&scene, &copy).into_iter().nth(way).unwrap();
        let run = run.finish().expect_code(5);
        let dir = copy.display();
        assert!(run.err().contains(&format!("failed to write `{host}{dir}/big`")), "{run}");
        let expected = format!("hold 3.00 MiB there, hidden as `{dir}/.haul-*`");
        assert!(hint(&run).contains(" free there") && hint(&run).contains(&expected), "{run}");
        // Files of this run stay if the next one can resume them: with slices in a journal.
        let mut staged = staged(&copy);
        let there = staged.len();
        staged.retain(|name| name.split('.').nth(1) != PART.split('.').nth(1));
        assert_eq!(there - staged.len(), 2, "the other run may need its files: {run}");
        let journal = staged.iter().find(|name| name.ends_with(".journal"));
        let resumable = journal.is_some_and(|name| fs::metadata(copy.join(name)).unwrap().len() > 100);
        assert_eq!(staged.len(), if resumable { 2 } else { 0 }, "{host}: {staged:?} {run}");
        // In the directory above, too.
        fs::remove_dir_all(&copy).unwrap();
        leave_part(disk.path());
        let run = copies(&scene, &copy).into_iter().nth(way).unwrap().1.finish().expect_code(5);
        let expected = format!("hold 3.00 MiB there, hidden as `{}/.haul-*`", disk.path().display());
        assert!(hint(&run).contains(&expected), "{run}");
    }
}

fn a_file_that_a_run_holds_is_not_told() {
    let scene = Scene::new();
    scene.tree("src").file("big", 14 << 20);
    let disk = TestMount::new(FileSystem::Tmpfs, 6 << 20);
    let copy = disk.join("dst");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join(PART), vec![1; 3 << 20]).unwrap();
    let held = File::open(copy.join(PART)).unwrap();
    rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    for (_, run) in copies(&scene, &copy).into_iter().take(2) {
        let run = run.finish().expect_code(5);
        assert!(!hint(&run).contains("hold "), "{run}");
        assert!(copy.join(PART).exists(), "{run}");
    }
}

fn inodes_that_ran_out_are_told() {
    for way in 0..3 {
        let scene = Scene::new();
        scene.tree("src").many("many", 60, 10..100);
        let disk = TestMount::new(FileSystem::Tmpfs, 16 << 20);
        tool(Command::new("mount").args(["-o", "remount,nr_inodes=20"]).arg(disk.path()));
        let copy = disk.join("dst");
        let (_, run) = copies(&scene, &copy).into_iter().nth(way).unwrap();
        let run = run.finish().expect_code(5);
        assert!(hint(&run).contains("no inodes are left"), "{run}");
        assert!(staged(&copy).is_empty(), "{run}");
    }
}

//! Disk I/O errors: a run that meets one names the failed entries, and the next run on the same mount repairs them.
//!
//! `CRASH_ROUNDS`, `CRASH_SEED` and `CRASH_FS` are explained in `power`.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::{DiskFault, DiskOp, Finished, Keep, Random};

use crate::TestCase;
use crate::crash::{CrashScene, NEEDS, RoundFailures, brief, file_systems, lines, seeds, success};
use crate::scene::Way;

pub(crate) fn cases() -> Vec<TestCase> {
    let all: &[(&str, fn())] = &[
        ("ioerrors::after_errors_the_next_run_on_the_same_mount_is_right", || try_all(&COPY)),
        ("ioerrors::another_program_that_syncs_hides_no_error", || try_all(&SYNCED_BY_OTHERS)),
        ("ioerrors::after_errors_in_place_the_next_run_is_right", || try_all(&IN_PLACE)),
        ("ioerrors::after_errors_at_a_remote_destination_the_next_run_is_right", || try_all(&PUSH)),
        ("ioerrors::a_file_that_can_never_be_written_is_named", never_written),
        ("ioerrors::a_disk_that_cannot_be_flushed_is_no_success", not_flushed),
        ("ioerrors::an_unreadable_file_is_named", not_read),
    ];
    all.iter().map(|(name, run)| TestCase::new(name, NEEDS, *run)).collect()
}

/// A command to run while writes fail.
struct IoErrorCommand {
    name: &'static str,
    word: &'static str,
    options: &'static [&'static str],
    way: Way,
    /// The destination holds an older state.
    old: bool,
    /// Another program calls `syncfs` all the time, and so is told of errors first.
    synced_by_others: bool,
}

const COPY: IoErrorCommand = IoErrorCommand {
    name: "copy",
    word: "copy",
    options: &[],
    way: Way::Local,
    old: false,
    synced_by_others: false,
};
const SYNCED_BY_OTHERS: IoErrorCommand =
    IoErrorCommand { name: "copy beside syncfs", synced_by_others: true, ..COPY };
const IN_PLACE: IoErrorCommand =
    IoErrorCommand { name: "inplace", word: "sync", options: &["--inplace"], old: true, ..COPY };
const PUSH: IoErrorCommand = IoErrorCommand { name: "push", way: Way::Push, ..COPY };

/// Rounds per file system where nobody asks for more.
const ROUNDS: u64 = 1;

fn try_all(shape: &IoErrorCommand) {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        if shape.old {
            bench.begin_with_the_old();
        }
        let mut verdict = RoundFailures::new(format!("I/O errors, {} on {kind:?}", shape.name));
        let normal = bench.disk.counts().writes;
        let _ = bench.run(shape.way, shape.word, shape.options).finish().expect_success();
        let normal = bench.disk.counts().writes - normal;
        for seed in seeds(ROUNDS) {
            let result = round(&mut bench, shape, seed, normal, &mut verdict);
            verdict.round(seed, result);
        }
        verdict.end();
    }
}

fn round(
    bench: &mut CrashScene,
    shape: &IoErrorCommand,
    seed: u64,
    normal: u64,
    verdict: &mut RoundFailures,
) -> Result<(), String> {
    let mut random = Random::new(seed);
    bench.scene.assert_all_gone();
    bench.disk.restore();
    let (skip, times) = (random.between(0, normal / 2), random.between(1, 30));
    let failed = bench.disk.counts().failed;
    bench.disk.fail(DiskFault::of(DiskOp::Write).content_only().skip(skip).times(times));
    // Slow ones record some slices of a file before others of it fail.
    let rate = if random.between(0, 2) == 0 { &["--bwlimit", "50M"][..] } else { &[] };
    let run = || bench.run(shape.way, shape.word, shape.options).args(rate).finish();
    let first = if shape.synced_by_others { beside_syncs(&bench.disk.path(), run) } else { run() };
    let failed = bench.disk.counts().failed - failed;
    bench.disk.heal();
    let told =
        |why: String| format!("{why} [{failed} writes failed from number {skip} on] after {}", brief(&first));
    match first.code() {
        Some(0) => verdict.note("the first run exits with 0"),
        Some(1) if is_named(&first) => verdict.note("the first run names failures"),
        _ => return Err(told("the first run does not name what failed".to_owned())),
    }
    if first.code() != Some(0) {
        if mounted_again(bench) {
            verdict.note("read-only after it");
        }
        let next = again(bench, |bench| bench.run(shape.way, shape.word, shape.options).finish());
        success(&next).map_err(told)?;
    }
    bench.scene.assert_all_gone();
    // Only the content of the disk counts, not that of the memory.
    bench.disk.cut_now(Keep::None);
    bench.disk.remount();
    bench.differs().map_err(|why| told(format!("exit 0, and {why}")))
}

/// Btrfs turns read-only at some errors. Then nothing can be run on the same mount, and it is mounted again.
fn mounted_again(bench: &mut CrashScene) -> bool {
    let stat = rustix::fs::statvfs(bench.disk.path()).unwrap();
    let is_read_only = stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    if is_read_only {
        bench.disk.cut_now(Keep::All);
        bench.disk.remount();
    }
    is_read_only
}

/// Runs the same command again; once more if Btrfs turned read-only as late as in that run.
fn again(bench: &mut CrashScene, run: impl Fn(&CrashScene) -> Finished) -> Finished {
    let next = run(bench);
    if next.code() == Some(0) || !mounted_again(bench) { next } else { run(bench) }
}

/// Whether a run names its failures: entries, or the sync of all at the end.
fn is_named(run: &Finished) -> bool {
    let sync_failed = lines(&run.out()).last().is_some_and(|summary| summary["error"]["kind"] == "io");
    sync_failed || !failures(run).is_empty()
}

/// The names that a run says have failed.
fn failures(run: &Finished) -> Vec<String> {
    let failed = lines(&run.out()).into_iter().filter(|event| event["type"] == "failed");
    failed.filter_map(|event| event["path"].as_str().map(str::to_owned)).collect()
}

fn beside_syncs(dir: &Path, run: impl FnOnce() -> Finished) -> Finished {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let disk = File::open(dir).unwrap();
            while !over.load(Ordering::Relaxed) {
                // This program does not care.
                let _ = rustix::fs::syncfs(&disk);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let finished = run();
        over.store(true, Ordering::Relaxed);
        finished
    })
}

fn never_written() {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        bench.disk.fail(DiskFault::of(DiskOp::Write).content_only());
        let run = bench.run(Way::Local, "copy", &[]).finish().expect_code(1);
        let named = failures(&run);
        for large in ["large/0", "large/1", "large/2", "large/3"] {
            assert!(named.iter().any(|name| name == large), "{kind:?}: {large} is not named: {run}");
            assert!(!bench.target().join(large).exists(), "{kind:?}: {large} has its name: {run}");
        }
        // A file system that cannot write its own data either becomes read-only, and every write fails with that.
        let is_named =
            ["Input/output error", "Read-only file system"].iter().any(|text| run.out().contains(text));
        assert!(is_named, "{kind:?}: {run}");
        bench.disk.heal();
        let _ = mounted_again(&mut bench);
        let _ = again(&mut bench, |bench| bench.run(Way::Local, "copy", &[]).finish()).expect_success();
        bench.disk.cut_now(Keep::None);
        bench.disk.remount();
        bench.differs().unwrap_or_else(|why| panic!("{kind:?}: {why}\n{}", brief(&run)));
    }
}

/// File systems give up when a flush fails, and take no more writes. Earlier promises count.
fn not_flushed() {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        bench.disk.fail(DiskFault::of(DiskOp::Flush).skip(1));
        let run = bench.run(Way::Local, "copy", &[]).finish();
        assert!(run.code() != Some(0), "{kind:?}: {run}");
        bench.disk.cut_now(Keep::Random(1));
        bench.disk.remount();
        bench.wrong_names(false, false).unwrap_or_else(|why| panic!("{kind:?}: {why}\n{run}"));
        let _ = bench.run(Way::Local, "copy", &[]).finish().expect_success();
        bench.disk.cut_now(Keep::None);
        bench.disk.remount();
        bench.differs().unwrap_or_else(|why| panic!("{kind:?}: {why}\n{run}"));
    }
}

/// The source is on the disk.
fn not_read() {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        let source = bench.disk.join("source");
        tool(std::process::Command::new("cp").arg("-a").arg(bench.source.path()).arg(&source));
        bench.disk.remount();
        let copy = bench.scene.join("copy");
        let run = || {
            let run = bench.scene.haul("copy").args(["--json", "-v"]);
            run.arg(crate::scene::slash(&source)).arg(crate::scene::slash(&copy)).finish()
        };
        // Nothing of a large file is in memory, and the rest was read when it was listed, or fails as well.
        bench.disk.fail(DiskFault::of(DiskOp::Read).skip(60).times(40));
        let first = run();
        assert!(first.code() == Some(1) || first.code() == Some(0), "{kind:?}: {first}");
        bench.disk.heal();
        if first.code() == Some(1) {
            assert!(!failures(&first).is_empty(), "{kind:?}: {first}");
            let _ = run().expect_success();
        }
        let found = haul_testkit::differences(bench.source.path(), &copy);
        assert!(found.is_empty(), "{kind:?}: {found:?}\n{first}");
    }
}

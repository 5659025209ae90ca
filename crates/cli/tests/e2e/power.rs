//! Power cuts at the destination: other programs check the disk afterwards, and the next run completes the copy.
//!
//! `CRASH_ROUNDS=N` makes N cuts per test and file system, `CRASH_SEED=S` starts with the cut of that number, and
//! `CRASH_FS=xfs` tests that file system only.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::process::{agents, kill};
use haul_testkit::tree::list;
use haul_testkit::{
    CrashDisk, DiskCounts, DiskFault, DiskOp, FileSystem, Finished, Keep, Random, Running, Trigger, content,
};

use crate::TestCase;
use crate::crash::{CrashScene, NEEDS, RoundFailures, brief, file_systems, lines, seeds, success};
use crate::scene::Way;

pub(crate) fn cases() -> Vec<TestCase> {
    let all: &[(&str, fn())] = &[
        ("power::the_disk_keeps_synced_data_and_loses_the_rest", disk_works),
        ("power::a_copy_is_right_after_a_cut", || try_all(&COPY)),
        ("power::a_copy_that_goes_on_is_right_after_a_cut", || try_all(&RESUMED)),
        ("power::a_copy_without_syncs_is_made_right_by_the_next_run", || try_all(&NO_FSYNC)),
        ("power::unsynced_files_are_copied_again_after_a_cut", not_certified),
        ("power::files_changed_in_place_are_right_after_a_cut", || try_all(&IN_PLACE)),
        ("power::files_made_from_older_ones_are_right_after_a_cut", || try_all(&DELTA)),
        ("power::a_sync_that_removes_is_right_after_a_cut", || try_all(&SYNC)),
        ("power::a_remote_destination_is_right_after_a_cut", || try_all(&PUSH)),
    ];
    all.iter().map(|(name, run)| TestCase::new(name, NEEDS, *run)).collect()
}

/// A command to run while the power is cut.
struct PowerCutCommand {
    name: &'static str,
    word: &'static str,
    options: &'static [&'static str],
    way: Way,
    /// The destination holds an older state.
    old: bool,
    /// An earlier run was killed half way.
    resumed: bool,
    /// Everything is synced before it counts.
    durable: bool,
    /// Another program syncs single files meanwhile.
    stirred: bool,
    /// A file is complete when it has its time, not when it has its name.
    marked_last: bool,
}

const COPY: PowerCutCommand = PowerCutCommand {
    name: "copy",
    word: "copy",
    options: &[],
    way: Way::Local,
    old: false,
    resumed: false,
    durable: true,
    stirred: false,
    marked_last: false,
};
const RESUMED: PowerCutCommand = PowerCutCommand { name: "resumed", resumed: true, ..COPY };
const NO_FSYNC: PowerCutCommand =
    PowerCutCommand { name: "no-fsync", options: &["--no-fsync"], durable: false, stirred: true, ..COPY };
const IN_PLACE: PowerCutCommand = PowerCutCommand {
    name: "inplace",
    options: &["--inplace"],
    old: true,
    marked_last: true,
    word: "sync",
    ..COPY
};
const DELTA: PowerCutCommand =
    PowerCutCommand { name: "delta", options: &["--delta", "on"], old: true, word: "sync", ..COPY };
const SYNC: PowerCutCommand = PowerCutCommand { name: "sync", word: "sync", old: true, ..COPY };
const PUSH: PowerCutCommand = PowerCutCommand { name: "push", way: Way::Push, ..COPY };

/// Cuts per file system where nobody asks for more.
const ROUNDS: u64 = 1;

fn disk_works() {
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let mut disk = CrashDisk::new(kind, 320 << 20);
        content::write_file(&disk.join("synced"), 1, 3 << 20);
        File::open(disk.join("synced")).unwrap().sync_all().unwrap();
        File::open(disk.path()).unwrap().sync_all().unwrap();
        content::write_file(&disk.join("lost"), 2, 3 << 20);
        disk.cut_now(Keep::None);
        assert!(File::open(disk.join("lost")).unwrap().sync_all().is_err(), "{kind:?}");
        disk.remount();
        let mut wanted = vec![0; 3 << 20];
        content::fill(1, 0, &mut wanted);
        assert!(fs::read(disk.join("synced")).unwrap() == wanted, "{kind:?}");
        assert_ne!(fs::metadata(disk.join("lost")).map_or(0, |meta| meta.len()), 3 << 20, "{kind:?}");

        disk.fail(DiskFault::of(DiskOp::Write).content_only().times(3));
        let mut file = File::create(disk.join("file")).unwrap();
        content::fill(3, 0, &mut wanted);
        file.write_all(&wanted).unwrap();
        assert!(file.sync_all().is_err(), "{kind:?}");
        let mut other = File::create(disk.join("other")).unwrap();
        other.write_all(&wanted).unwrap();
        other.sync_all().unwrap();
        drop((file, other));
        disk.cut_at(Trigger::Flush(1), Keep::None);
        File::create(disk.join("last")).unwrap().sync_all().unwrap_err();
        assert!(disk.is_cut());
        disk.restore();
        assert!(!disk.join("other").exists());
    }
}

/// After `--no-fsync` and a cut, a file of the right size and time may hold zeros: it does not count as copied.
fn not_certified() {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        let mut run = bench.run(Way::Local, "copy", &["--no-fsync", "--bwlimit", "8M"]).start();
        let middle = bench.target().join("middle");
        let end = Instant::now() + Duration::from_secs(60);
        let damaged = loop {
            let named = list(&middle).into_iter().map(|path| middle.join(path)).find(|path| {
                path.is_file() && !path.file_name().unwrap().to_string_lossy().starts_with(".haul")
            });
            if let Some(path) = named {
                break path;
            }
            assert!(run.is_running() && Instant::now() < end, "{kind:?}: no file came");
            thread::sleep(Duration::from_millis(1));
        };
        let meta = fs::metadata(&damaged).unwrap();
        let file = File::options().write(true).open(&damaged).unwrap();
        (&file).write_all(&vec![0; meta.len() as usize]).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(meta.modified().unwrap())).unwrap();
        drop(file);
        kill(run.pid());
        let _ = run.finish();

        let name = format!("{}\"", damaged.strip_prefix(bench.target()).unwrap().display());
        // A plan syncs nothing. A copy here would sync the zeros, and no later run could know them for damage.
        let plan = bench.run(Way::Local, "copy", &["-n"]).finish();
        success(&plan).unwrap();
        assert!(!plan.out().contains(&name), "{kind:?}: without a cut it looks the same: {plan}");
        bench.scene.assert_all_gone();
        bench.disk.cut_now(Keep::None);
        bench.disk.remount();
        // A journal that is written in the first two seconds of a boot may be from before it.
        thread::sleep(Duration::from_secs(3));
        let plan = bench.run(Way::Local, "copy", &["-n"]).finish();
        success(&plan).unwrap();
        assert!(plan.out().contains(&name), "{kind:?}: {plan}");
        success(&bench.run(Way::Local, "copy", &[]).finish()).unwrap();
        bench.differs().unwrap();
        let again = bench.run(Way::Local, "copy", &[]).finish();
        let summary = lines(&again.out()).pop().unwrap();
        assert_eq!(summary["totals"]["copied"].as_u64(), Some(0), "{kind:?}: {again}");
        bench.scene.assert_all_gone();
    }
}

fn try_all(shape: &PowerCutCommand) {
    for kind in file_systems() {
        let mut bench = CrashScene::new(kind);
        if shape.old {
            bench.begin_with_the_old();
        }
        let seeds = seeds(ROUNDS);
        let mut verdict = RoundFailures::new(format!("power cuts, {} on {kind:?}", shape.name));
        let normal = undisturbed(&mut bench, shape);
        for seed in seeds {
            let result = round(&mut bench, shape, seed, &normal, &mut verdict);
            verdict.round(seed, result);
        }
        verdict.end();
    }
}

/// The cost of an undisturbed run.
struct Normal {
    counts: DiskCounts,
    time: Duration,
}

/// Runs it without a cut; all that it reports as copied must be there if the power goes right after it.
fn undisturbed(bench: &mut CrashScene, shape: &PowerCutCommand) -> Normal {
    bench.disk.restore();
    let (before, begun) = (bench.disk.counts(), Instant::now());
    let run = bench.run(shape.way, shape.word, shape.options).finish().expect_success();
    let time = begun.elapsed();
    let after = bench.disk.counts();
    let counts = DiskCounts {
        writes: after.writes - before.writes,
        flushes: after.flushes - before.flushes,
        ..DiskCounts::default()
    };
    if shape.durable {
        bench.disk.cut_now(Keep::None);
    }
    bench.scene.assert_all_gone();
    bench.disk.remount();
    bench.differs().unwrap_or_else(|why| panic!("{}: {why}\n{run}", shape.name));
    Normal { counts, time }
}

fn round(
    bench: &mut CrashScene,
    shape: &PowerCutCommand,
    seed: u64,
    normal: &Normal,
    verdict: &mut RoundFailures,
) -> Result<(), String> {
    let mut random = Random::new(seed);
    bench.disk.restore();
    if shape.resumed {
        half_a_run(bench, shape, &mut random, normal);
    }
    let keep = Keep::any(random.next_u64());
    let mut moment = None;
    match random.between(0, 4) {
        0 => bench.disk.cut_at(Trigger::Write(random.between(1, normal.counts.writes + 1)), keep),
        1 => bench.disk.cut_at(Trigger::Flush(random.between(1, normal.counts.flushes + 2)), keep),
        2 => bench.disk.cut_at(Trigger::Content(random.between(1, normal.counts.writes / 2 + 2)), keep),
        _ => moment = Some(normal.time.mul_f64(random.between(1, 100) as f64 / 100.0)),
    }
    let mut run = bench.run(shape.way, shape.word, shape.options).start();
    let mut wait = || wait_for_cut(bench, &mut run, moment, keep);
    if shape.stirred {
        stirred(&bench.target(), seed, wait);
    } else {
        wait();
    }
    let said = lines(&run.stdout());
    let off_in_time = bench.disk.is_cut();
    // A machine without power runs nothing; a disk that is gone leaves the program running.
    let machine_goes = random.between(0, 4) > 0;
    let finished = end(bench, shape, run, machine_goes);
    let done = finished.code() == Some(0);
    verdict.note(if done { "cut after the end" } else { "cut in time" });
    if !off_in_time {
        bench.disk.cut_now(keep);
    }
    bench.disk.remount();
    let told = |why: String| format!("{why} [{keep:?}] after {}", brief(&finished));
    if shape.durable {
        bench.wrong_names(shape.old, shape.marked_last).map_err(told)?;
        bench.lost(&said).map_err(told)?;
        if done {
            bench.differs().map_err(|why| told(format!("exit 0, and then lost: {why}")))?;
        }
    }
    let options = if shape.durable { shape.options } else { &[] };
    let next = bench.run(shape.way, shape.word, options).finish();
    success(&next).map_err(told)?;
    if lines(&next.out()).last().is_some_and(|summary| summary["totals"]["resumed_bytes"].as_u64() > Some(0))
    {
        verdict.note("went on");
    }
    bench.scene.assert_all_gone();
    // Only the content of the disk counts, not that of the memory.
    bench.disk.cut_now(Keep::None);
    bench.disk.remount();
    bench.differs().map_err(|why| told(format!("the next run exits with 0, and {why}: {}\n", brief(&next))))
}

fn wait_for_cut(bench: &CrashScene, run: &mut Running, moment: Option<Duration>, keep: Keep) {
    let begun = Instant::now();
    while run.is_running() && !bench.disk.is_cut() {
        if moment.is_some_and(|moment| begun.elapsed() >= moment) {
            bench.disk.cut_now(keep);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the run and its processes, as a power cut does.
fn end(bench: &CrashScene, shape: &PowerCutCommand, run: Running, machine_goes: bool) -> Finished {
    if machine_goes {
        agents(bench.scene.tag()).into_iter().for_each(kill);
    }
    // Of two machines the local one keeps its power, but its other end never comes back here.
    if machine_goes || shape.way == Way::Push {
        kill(run.pid());
    }
    let finished = run.finish();
    bench.scene.assert_all_gone();
    finished
}

/// An earlier run, killed half way.
fn half_a_run(bench: &CrashScene, shape: &PowerCutCommand, random: &mut Random, normal: &Normal) {
    let mut run = bench.run(shape.way, shape.word, &["--bwlimit", "40M"]).start();
    let end = Instant::now() + normal.time + Duration::from_millis(random.between(100, 900));
    while run.is_running() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    kill(run.pid());
    let _ = run.finish();
}

/// Does something while another program syncs single files below `dir`, as the kernel may write them at any time.
fn stirred(dir: &std::path::Path, seed: u64, what: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(seed);
            while !over.load(Ordering::Relaxed) {
                let mut files = list(dir);
                files.retain(|path| path.to_string_lossy().contains(".haul"));
                if let Some(path) = files.get(random.between(0, files.len() as u64) as usize)
                    && let Ok(file) = File::open(dir.join(path))
                {
                    let _ = file.sync_data();
                }
                thread::sleep(Duration::from_millis(random.between(1, 20)));
            }
        });
        what();
        over.store(true, Ordering::Relaxed);
    });
}

//! Killed at any moment, on either side: files under their final name are complete, and the next run resumes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_core::digest::SLICE_LEN;
use haul_core::journal::{HEADER_LEN, RECORD_LEN};
use haul_testkit::process::kill;
use haul_testkit::tree::{allocated, content_len};
use haul_testkit::{FaultPlan, Finished, Random, Running, TestTree, assert_no_half_files, assert_same_tree};

use crate::scene::{REMOTE, Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        killed_at_random_moments_it_always_goes_on_and_is_never_half_there,
        a_large_file_goes_on_where_it_was,
        when_every_remote_end_is_killed_the_run_ends_or_goes_on_and_is_whole,
        a_damaged_journal_costs_time_and_never_correctness,
        staging_of_a_changed_source_is_not_used,
        two_at_once_do_not_mix,
    ]
}

const KILLS: u32 = 44;
/// Bytes that each connection passes in a second, so that kills land in the middle.
const RATE: u64 = 4_000_000;
const STREAMS: &str = "4";

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Local,
    EveryRemote,
    OneRemote,
}

fn killed_at_random_moments_it_always_goes_on_and_is_never_half_there() {
    let seed = Random::any_seed();
    eprintln!("kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), seed, &[33 << 20, 17 << 20, (9 << 20) + 5], 2500);
    // Half of the tours go over a real server.
    let here = FaultPlan::new(scene.join("plan-here")).slow(RATE);
    let server = FaultPlan::new(scene.join("plan-server")).slow(RATE).through(scene.sshd().shell());
    let (mut kills, mut tours, mut resumed) = (0, 0, 0);
    while kills < KILLS {
        let way = if tours % 2 == 0 { Way::Push } else { Way::Pull };
        let plan = if tours / 2 % 2 == 0 { &here } else { &server };
        let tour =
            Tour { scene: &scene, way, plan, source: &source, copy: scene.join(format!("dst-{tours}")) };
        // Killed again and again, until one run gets to its end all the same.
        for round in 0.. {
            assert!(round < 40, "each run brings it further");
            let (killed, end) = tour.interrupted(&mut random);
            kills += u32::from(killed);
            if end.code() == Some(0) {
                resumed += summary(&end).of("resumed_bytes");
                break;
            }
        }
        assert_same_tree(source.path(), &tour.copy);
        let last = summary(&tour.start().finish().expect_success());
        assert_eq!(
            (last.of("same"), last.of("sent_bytes")),
            (last.of("found"), 0),
            "nothing is left to do: {last:?}"
        );
        scene.assert_all_gone();
        fs::remove_dir_all(&tour.copy).unwrap();
        tours += 1;
    }
    eprintln!("kill loop: {kills} kills, {tours} tours, {resumed} bytes were there from killed runs");
    assert!(resumed > 0, "big files went on where they were");
}

/// One destination that is filled in spite of kills.
struct Tour<'a> {
    scene: &'a Scene,
    way: Way,
    plan: &'a FaultPlan,
    source: &'a TestTree,
    copy: PathBuf,
}

impl Tour<'_> {
    fn start(&self) -> Running {
        self.plan.restart();
        let run = self.scene.fault_copy(self.way, self.plan, self.source.path(), &self.copy);
        run.args(["--streams", STREAMS]).start()
    }

    /// One run in which somebody is killed at some moment. Says whether it was still at work then.
    fn interrupted(&self, random: &mut Random) -> (bool, Finished) {
        let victim = match random.between(0, 5) {
            0..=2 => Victim::Local,
            3 => Victim::EveryRemote,
            _ => Victim::OneRemote,
        };
        let moment = Duration::from_millis(random.between(20, 2500));
        let mut run = self.start();
        // The moment is random, so the test waits for nothing.
        std::thread::sleep(moment);
        let at_work = run.is_running();
        let mut agents = run.agents();
        match victim {
            Victim::Local => kill(run.pid()),
            Victim::EveryRemote => agents.iter().for_each(|pid| kill(*pid)),
            Victim::OneRemote if agents.is_empty() => {}
            Victim::OneRemote => kill(agents.swap_remove(random.between(0, agents.len() as u64) as usize)),
        }
        if self.copy.exists() {
            assert_no_half_files(self.source.path(), &self.copy);
        }
        let end = run.finish();
        let expected = end.was_killed() || matches!(end.code(), Some(0 | 4));
        assert!(expected, "{victim:?} killed after {moment:?} on {:?}: {end}", self.way);
        // The processes of a killed local end must end by themselves before the next run.
        self.scene.assert_all_gone();
        if self.copy.exists() {
            assert_no_half_files(self.source.path(), &self.copy);
        }
        (at_work, end)
    }
}

fn a_large_file_goes_on_where_it_was() {
    for way in [Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        let len = 96 << 20;
        source.file("huge", len);
        let copy = scene.join("dst");
        let plan = FaultPlan::new(scene.join("plan")).slow(10_000_000);
        let mut run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "4"]).start();
        run.wait_until("half of it has arrived", || allocated(&copy) > len / 2 && durable(&copy) > len / 4);
        kill(run.pid());
        assert!(run.finish().was_killed());
        scene.assert_all_gone();
        assert!(!copy.join("huge").exists(), "the final name is for what is whole");
        let again = scene.haul_fault("copy", &FaultPlan::new(scene.join("fast"))).arg("--json");
        let (from, to) = ends(way, source.path(), &copy);
        let again = summary(&again.arg(from).arg(to).finish().expect_success());
        assert!(again.of("resumed_bytes") > len / 5, "{way:?}: {again:?}");
        assert_eq!(again.of("resumed_bytes") + again.of("sent_bytes"), len, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn when_every_remote_end_is_killed_the_run_ends_or_goes_on_and_is_whole() {
    for way in [Way::Push, Way::Pull] {
        // While there are directories and small files, in the middle, and in a large file alone.
        for share in [1, 10, 30, 70] {
            let scene = Scene::new();
            let source = TestTree::mixed(scene.join("src"), 50, &[41 << 20, 9 << 20], 1200);
            let copy = scene.join("dst");
            let enough = content_len(source.path()) * share / 100;
            let plan = FaultPlan::new(scene.join("plan")).slow(9_000_000);
            let mut run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "3"]).start();
            run.wait_until("enough has arrived", || allocated(&copy) > enough);
            run.agents().into_iter().for_each(kill);
            let run = run.finish();
            match run.code() {
                Some(0) => {
                    summary(&run).assert_accounted();
                    assert_same_tree(source.path(), &copy);
                    assert!(run.out().contains("was lost, and haul was started there again"), "{run}");
                }
                Some(4) => assert_no_half_files(source.path(), &copy),
                _ => panic!("{way:?} at {share} %: {run}"),
            }
            scene.assert_all_gone();
        }
    }
}

fn ends(way: Way, from: &Path, to: &Path) -> (std::ffi::OsString, std::ffi::OsString) {
    let remote = |path: &Path| {
        haul_testkit::process::joined(&[REMOTE.as_bytes(), b":", slash(path).as_encoded_bytes()])
    };
    if way == Way::Pull { (remote(from), slash(to)) } else { (slash(from), remote(to)) }
}

/// Pushes the tree slowly and kills it once `enough` bytes have arrived.
pub(crate) fn half_way(scene: &Scene, source: &TestTree, copy: &Path, enough: u64) {
    half_way_with(scene, source, copy, copy, enough, &[]);
}

/// The same with these options; the bytes arrive in the directory `arrives`.
pub(crate) fn half_way_with(
    scene: &Scene,
    source: &TestTree,
    copy: &Path,
    arrives: &Path,
    enough: u64,
    options: &[&str],
) {
    let plan = FaultPlan::new(scene.join("slow")).slow(12_000_000);
    plan.restart();
    let run = scene.fault_copy(Way::Push, &plan, source.path(), copy).args(["--streams", "2"]);
    let mut run = run.args(options).start();
    run.wait_until("enough has arrived", || allocated(arrives) > enough);
    kill(run.pid());
    let _ = run.finish();
    scene.assert_all_gone();
}

/// How many bytes of large files the journals below `copy` know to be durable: a busy disk may take its time to say so.
pub(crate) fn durable(copy: &Path) -> u64 {
    let journals = staged(copy, ".journal").into_iter().filter_map(|path| path.metadata().ok());
    journals.map(|meta| meta.len().saturating_sub(HEADER_LEN as u64) / RECORD_LEN as u64 * SLICE_LEN).sum()
}

/// The files below `copy` whose names end so.
pub(crate) fn staged(copy: &Path, suffix: &str) -> Vec<std::path::PathBuf> {
    let ends = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(suffix);
    haul_testkit::tree::list(copy).into_iter().filter(ends).map(|path| copy.join(path)).collect()
}

fn a_damaged_journal_costs_time_and_never_correctness() {
    let damages: [fn(&mut Vec<u8>); 6] = [
        Vec::clear,
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.extend([0xaa; 333]),
        |bytes| bytes.fill(0),
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        },
        |bytes| bytes.reverse(),
    ];
    for damage in damages {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("huge", 60 << 20);
        let copy = scene.join("dst");
        half_way(&scene, &source, &copy, 30 << 20);
        let journals = staged(&copy, ".journal");
        assert!(!journals.is_empty(), "an interrupted large file has a journal");
        for journal in journals {
            let mut bytes = fs::read(&journal).unwrap();
            damage(&mut bytes);
            fs::write(&journal, bytes).unwrap();
        }
        let again = scene.copy(Way::Push, source.path(), &copy).finish().expect_success();
        summary(&again).assert_accounted();
        assert_same_tree(source.path(), &copy);
        assert!(staged(&copy, ".journal").is_empty());
    }
}

fn staging_of_a_changed_source_is_not_used() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("huge", 60 << 20);
    let copy = scene.join("dst");
    half_way(&scene, &source, &copy, 30 << 20);
    // Same name, same length, another file.
    let other = TestTree::new(scene.join("other"), 77);
    other.file("huge", 60 << 20);
    let run = summary(&scene.copy(Way::Push, other.path(), &copy).finish().expect_success());
    assert_eq!(run.of("resumed_bytes"), 0, "{run:?}");
    assert_same_tree(other.path(), &copy);
    // The same file, changed in place and back in time by its size only.
    half_way(&scene, &source, &copy, 30 << 20);
    source.text("huge", vec![b'x'; 60 << 20]);
    let run = summary(&scene.copy(Way::Push, source.path(), &copy).finish().expect_success());
    assert_eq!(run.of("resumed_bytes"), 0, "{run:?}");
    assert_same_tree(source.path(), &copy);
    assert_eq!(content_len(&copy), 60 << 20, "nothing staged is left");
}

fn two_at_once_do_not_mix() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 5, &[30 << 20, 9 << 20], 400);
    let copy = scene.join("dst");
    let plan = FaultPlan::new(scene.join("plan")).slow(8_000_000);
    let start = || scene.fault_copy(Way::Push, &plan, source.path(), &copy).args(["--streams", "2"]).start();
    let (one, other) = (start(), start());
    let (one, other) = (one.finish(), other.finish());
    for run in [&one, &other] {
        assert!(matches!(run.code(), Some(0 | 1)), "{run}");
    }
    assert_no_half_files(source.path(), &copy);
    let last = scene.copy(Way::Push, source.path(), &copy).finish().expect_success();
    summary(&last).assert_accounted();
    assert_same_tree(source.path(), &copy);
}

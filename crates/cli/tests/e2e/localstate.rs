//! haul's local state after a power cut: the index of a source, and the uploads that haul started.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use haul_testkit::process::{kill, tagged};
use haul_testkit::{CommandRun, CrashDisk, FileSystem, Keep, Random, Trigger, content, differences};

use crate::TestCase;
use crate::crash::{NEEDS, RoundFailures, brief, file_systems, seeds, success};
use crate::scene::{Scene, Way, slash};
use crate::small::{StoreOfTest, at};

pub(crate) fn cases() -> Vec<TestCase> {
    let all: &[(&str, fn())] = &[
        ("localstate::an_index_that_a_cut_has_left_misleads_nobody", indexes),
        ("localstate::uploads_are_known_after_a_cut", uploads_are_known),
        ("localstate::a_put_goes_on_after_a_cut", puts_go_on),
    ];
    all.iter().map(|(name, run)| TestCase::new(name, NEEDS, *run)).collect()
}

/// The index and the destination are on the disk.
fn indexes() {
    for kind in file_systems() {
        let (mut disk, scene) = (CrashDisk::new(kind, 320 << 20), Scene::new());
        let source = scene.tree("src");
        source.many("many", 600, 0..2000);
        source.file("large", 6 << 20);
        // A directory is believed once it has been as it is for two seconds.
        sleep(Duration::from_millis(2100));
        let run = |disk: &CrashDisk| {
            let index = format!("--index={}", disk.join("index").display());
            scene.by(Way::Local, "sync", slash(source.path()), slash(&disk.join("dst"))).args(["-v", &index])
        };
        let _ = run(&disk).finish().expect_success();
        disk.save();
        let mut verdict = RoundFailures::new(format!("power cuts, index on {kind:?}"));
        for seed in seeds(2) {
            let mut random = Random::new(seed);
            disk.restore();
            // Names come and go; an index misses changes in place by design.
            for change in 0..6 {
                let directory = format!("many/000{}", random.between(0, 6));
                source.file(format!("{directory}/new-{seed}-{change}"), random.between(0, 5000));
                let old = fs::read_dir(source.join(&directory)).unwrap().next().unwrap().unwrap().path();
                fs::remove_file(old).unwrap();
            }
            let keep = Keep::any(random.next_u64());
            match random.between(0, 2) {
                0 => disk.cut_at(Trigger::Flush(random.between(1, 5)), keep),
                _ => disk.cut_at(Trigger::Write(random.between(1, 8)), keep),
            }
            let first = run(&disk).finish();
            verdict.note(if first.code() == Some(0) { "cut after the end" } else { "cut in time" });
            disk.cut_now(keep);
            disk.remount();
            let there = first.code() == Some(0) && !differences(source.path(), &disk.join("dst")).is_empty();
            let next = run(&disk).finish();
            disk.cut_now(Keep::None);
            disk.remount();
            let found = differences(source.path(), &disk.join("dst"));
            let result = success(&next).and_then(|()| {
                let why = format!(
                    "{found:?} lost after exit 0: {there} [{keep:?}] {} {}",
                    brief(&first),
                    brief(&next)
                );
                if found.is_empty() && !there { Ok(()) } else { Err(why) }
            });
            verdict.round(seed, result);
        }
        verdict.end();
    }
}

/// The program, with its state on the disk.
fn put(place: &StoreOfTest, disk: &CrashDisk, words: &[&str]) -> CommandRun {
    place.haul(words[0]).args(&words[1..]).env("XDG_STATE_HOME", disk.join("state"))
}

fn noise() -> Vec<u8> {
    let mut bytes = vec![0; 40_000_000];
    content::fill(5, 0, &mut bytes);
    bytes
}

/// Puts the noise, and lets the power go when so many parts were sent, or after so long.
fn put_and_cut(place: &StoreOfTest, disk: &CrashDisk, parts: usize, keep: Keep) {
    let file = place.scene.join("noise");
    fs::write(&file, noise()).unwrap();
    // The stream has no end.
    let stream = format!("cat {}; exec sleep 60", file.display());
    let mut run = put(place, disk, &["put", &at("x"), "--", "sh", "-c", &stream]).start();
    run.wait_until("parts are sent", || place.store.parts() >= parts);
    disk.cut_now(keep);
    tagged(place.scene.tag()).into_iter().for_each(kill);
    let _ = run.finish();
    place.scene.assert_all_gone();
    assert_eq!(place.store.incomplete(), 1);
}

fn uploads_are_known() {
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let (place, mut disk) = (StoreOfTest::new(), CrashDisk::new(kind, 320 << 20));
        put_and_cut(&place, &disk, 1, Keep::None);
        disk.remount();
        let run = put(&place, &disk, &["rm", "--incomplete", &at("")]).finish().expect_success();
        assert_eq!(place.store.incomplete(), 0, "{kind:?}: {run}");
    }
}

fn puts_go_on() {
    for kind in file_systems() {
        let (place, mut disk) = (StoreOfTest::new(), CrashDisk::new(kind, 320 << 20));
        let mut verdict = RoundFailures::new(format!("power cuts, put on {kind:?}"));
        for seed in seeds(1) {
            let mut random = Random::new(seed);
            let begun = Instant::now();
            put_and_cut(&place, &disk, random.between(1, 4) as usize, Keep::any(random.next_u64()));
            disk.remount();
            let next = put(&place, &disk, &["put", "--resume", "--json", &at("x")]).input(noise()).finish();
            let result = success(&next).and_then(|()| {
                let right = place.stored("x") == noise() && place.store.incomplete() == 0;
                if right {
                    Ok(())
                } else {
                    Err(format!("another object after {:?}: {next}", begun.elapsed()))
                }
            });
            verdict.round(seed, result);
            let _ = put(&place, &disk, &["rm", &at("x")]).finish().expect_success();
        }
        verdict.end();
    }
}

//! Destinations that store less than the source: times in whole seconds, names without case.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_slowfs::{MountOptions, SlowMount as FuseMount};
use haul_testkit::tree::{list, set_time};
use haul_testkit::{FileSystem, Need, TestMount, TestTree, content};

use crate::scene::{RunCounts, Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::LoopMounts;
        times_in_seconds_are_compared_by_seconds,
        times_that_the_destination_does_not_keep_are_said_once,
        nanoseconds_count_where_they_are_kept,
        a_modify_window_overrides_the_comparison,
    ];
    all.extend(cases![
        Need::Root, Need::Fuse;
        units_of_network_file_systems_are_found_out,
        a_file_whose_case_was_changed_stays,
        names_that_differ_in_case_only_are_refused,
    ]);
    all.extend(cases![
        Need::Root, Need::Fuse, Need::Program("mkfs.vfat"), Need::Program("fusefat");
        fat_keeps_names_that_change_their_case_and_copies_nothing_twice,
    ]);
    all.extend(cases![
        Need::Root, Need::Fuse, Need::Program("lowntfs-3g");
        ntfs_keeps_names_that_change_their_case_and_copies_nothing_twice,
    ]);
    all.extend(cases![a_file_without_a_length_is_not_copied_as_an_empty_one]);
    all
}

/// Files, links and directories with nanoseconds in their times.
fn timed(scene: &Scene) -> TestTree {
    let source = scene.tree("src");
    for number in 0..20_u32 {
        let name = format!("directory-{}/file-{number}", number % 3);
        source.file(&name, 100 + u64::from(number));
        source.time(&name, 1_600_000_001 + i64::from(number), 123_456_789 + number * 1_000_003);
    }
    source.file("big", 5 << 20);
    source.time("big", 1_600_000_001, 999_999_999);
    source.link("link", "big");
    source.time("link", 1_600_000_003, 1_000_001);
    for directory in ["directory-0", "directory-1", "directory-2", ""] {
        source.time(directory, 1_600_000_005, 5_000_005);
    }
    source
}

fn assert_quiet(run: &RunCounts, what: &str) {
    assert_eq!(run.of("same"), run.of("found"), "{what}: {run:?}");
}

fn times_in_seconds_are_compared_by_seconds() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = timed(&scene);
        let disk = TestMount::new(FileSystem::Ext4Seconds, 64 << 20);
        let copy = disk.join("dst");
        let sync = || scene.by(way, "sync", slash(source.path()), slash(&copy));
        let _ = sync().finish().expect_success();
        assert_eq!(fs::metadata(copy.join("big")).unwrap().mtime_nsec(), 0, "the disk keeps seconds");
        assert_quiet(&summary(&sync().arg("-n").finish().expect_success()), "a dry run");
        assert_quiet(&summary(&sync().finish().expect_success()), "the second run");
        // A second later is later.
        source.time("big", 1_600_000_002, 0);
        source.file("directory-0/file-0", 100);
        source.time("directory-0/file-0", 1_599_999_999, 999_999_999);
        let run = summary(&sync().finish().expect_success());
        assert_eq!(run.of("copied"), 2, "{way:?}: {run:?}");
        scene.assert_all_gone();
    }
}

fn times_that_the_destination_does_not_keep_are_said_once() {
    let scene = Scene::new();
    let source = timed(&scene);
    // Not every file system of the machine that runs the test keeps such times either.
    let memory = TestMount::new(FileSystem::Tmpfs, 16 << 20);
    for (name, time) in [("late", 4_102_444_800), ("early", -4_000_000_000), ("usual", 1_600_000_000)] {
        content::write_file(&memory.join(name), 1, 10);
        set_time(&memory.join(name), time, 5);
    }
    drop(source);
    let disk = TestMount::new(FileSystem::Ext4Seconds, 64 << 20);
    let copy = disk.join("dst");
    let sync = || scene.by(Way::Local, "sync", slash(memory.path()), slash(&copy));
    let first = sync().finish().expect_success();
    let notes = summary(&first).0["metadata"].to_string();
    assert!(notes.contains("keeps no such time"), "{first}");
    let second = sync().finish().expect_success();
    assert_quiet(&summary(&second), "the second run");
    set_time(&memory.join("late"), 1_700_000_000, 0);
    set_time(&memory.join("usual"), 4_102_444_800, 0);
    let third = summary(&sync().finish().expect_success());
    assert_eq!(third.of("copied"), 2, "{third:?}");
}

fn nanoseconds_count_where_they_are_kept() {
    let scene = Scene::new();
    let source = timed(&scene);
    let disk = TestMount::new(FileSystem::Ext4, 64 << 20);
    let copy = disk.join("dst");
    let sync = || {
        summary(&scene.by(Way::Local, "sync", slash(source.path()), slash(&copy)).finish().expect_success())
    };
    sync();
    // The same second, and the destination looks as if it kept times in seconds.
    for name in ["big", "directory-1/file-1"] {
        set_time(&copy.join(name), 1_600_000_002, 0);
        source.time(name, 1_600_000_002, 1);
    }
    source.time("directory-0/file-0", 1_600_000_001, 123_456_790);
    assert_eq!(sync().of("copied"), 3);
    assert_quiet(&sync(), "the next run");
}

fn a_modify_window_overrides_the_comparison() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = timed(&scene);
        let disk = TestMount::new(FileSystem::Ext4Seconds, 64 << 20);
        let copy = disk.join("dst");
        let sync = |words: &[&str]| {
            let run = scene.by(way, "sync", slash(source.path()), slash(&copy)).args(words);
            summary(&run.finish().expect_success())
        };
        sync(&[]);
        assert_eq!(sync(&["--modify-window=-1"]).of("copied"), 21, "{way:?}");
        source.time("big", 1_600_000_003, 0);
        assert_quiet(&sync(&["--modify-window=2"]), "within the window");
        assert_eq!(sync(&["--modify-window", "1"]).of("copied"), 1, "{way:?}");
        scene.assert_all_gone();
    }
}

/// The directory `name` of the scene, shown by a file system that keeps less.
fn less(scene: &Scene, options: MountOptions) -> (FuseMount, PathBuf) {
    let (behind, at) = (scene.join("behind"), scene.join("mnt"));
    for path in [&behind, &at] {
        fs::create_dir(path).unwrap();
    }
    let mount = FuseMount::new(&behind, &at, options).unwrap();
    (mount, at.join("dst"))
}

fn units_of_network_file_systems_are_found_out() {
    for time_unit in [100, 10_000_000, 2_000_000_000] {
        let scene = Scene::new();
        let source = timed(&scene);
        let cache = Duration::from_secs(1);
        let (mount, copy) = less(&scene, MountOptions { time_unit, cache, ..MountOptions::default() });
        let sync = || {
            summary(
                &scene.by(Way::Local, "sync", slash(source.path()), slash(&copy)).finish().expect_success(),
            )
        };
        // A file is made to find the unit out, and leaves no trace in the time of its directory.
        let times = || {
            let directories = ["", "directory-0", "directory-1", "directory-2"];
            directories.map(|name| fs::metadata(scene.join("behind/dst").join(name)).unwrap().mtime())
        };
        sync();
        let before = times();
        assert_quiet(&sync(), &format!("a unit of {time_unit} ns"));
        assert_eq!(times(), before);
        source.time("big", 1_600_000_101, 999_999_999);
        assert_eq!(sync().of("copied"), 1);
        assert!(list(&copy).iter().all(|path| !path.to_string_lossy().contains(".haul")), "nothing is left");
        drop(mount);
    }
}

fn names(root: &Path) -> Vec<String> {
    list(root).into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn a_file_whose_case_was_changed_stays() {
    let scene = Scene::new();
    let (mount, copy) = less(&scene, MountOptions { folds_case: true, ..MountOptions::default() });
    keeps_names_that_change_their_case(&scene, &copy);
    drop(mount);
}

fn keeps_names_that_change_their_case(scene: &Scene, copy: &Path) {
    let source = scene.tree("case");
    for name in ["name", "directory/inside", "other"] {
        source.file(name, 100);
        // A time that every file system keeps: a dry run makes no file to find out which ones are kept.
        source.time(name, 1_600_000_000, 0);
    }
    let sync = || scene.by(Way::Local, "sync", slash(source.path()), slash(copy));
    let _ = sync().finish().expect_success();
    assert!(copy.join("NAME").exists(), "the file system does not tell case apart");
    fs::rename(source.join("name"), source.join("NAME")).unwrap();
    fs::rename(source.join("directory"), source.join("Directory")).unwrap();
    fs::remove_file(source.join("other")).unwrap();
    source.file("NAME", 200);
    let would = summary(&sync().arg("-n").finish().expect_success());
    let did = summary(&sync().finish().expect_success());
    for name in ["copied", "removed", "failed"] {
        assert_eq!(would.of(name), did.of(name), "{name}");
    }
    assert_eq!(did.of("removed"), 1, "`other` alone: {did:?}");
    let mut there: Vec<String> = names(copy).iter().map(|name| name.to_lowercase()).collect();
    there.sort();
    assert_eq!(there, ["directory", "directory/inside", "name"]);
    assert_eq!(fs::read(copy.join("NAME")).unwrap(), fs::read(source.join("NAME")).unwrap());
    let again = summary(&sync().finish().expect_success());
    assert_eq!((again.of("copied"), again.of("removed")), (0, 0), "{again:?}");
}

fn fat_keeps_names_that_change_their_case_and_copies_nothing_twice() {
    keeps_less(&TestMount::fat(64 << 20));
}

fn ntfs_keeps_names_that_change_their_case_and_copies_nothing_twice() {
    keeps_less(&TestMount::ntfs(64 << 20));
}

/// The limits of other systems' disks, with the drivers of this system.
fn keeps_less(disk: &TestMount) {
    let scene = Scene::new();
    keeps_names_that_change_their_case(&scene, &disk.join("case"));
    let source = timed(&scene);
    fs::remove_file(source.join("big")).unwrap();
    fs::remove_file(source.join("link")).unwrap();
    let copy = disk.join("times");
    let sync = || {
        let run = scene.by(Way::Local, "sync", slash(source.path()), slash(&copy)).finish();
        summary(&run.expect_success())
    };
    assert_eq!(sync().of("copied"), 20);
    let again = sync();
    assert_eq!((again.of("copied"), again.of("removed")), (0, 0), "{again:?}");
    source.time("directory-0/file-0", 1_600_000_101, 999_999_999);
    let changed = sync();
    assert_eq!((changed.of("copied"), changed.of("removed")), (1, 0), "{changed:?}");
    source.text("case", "one");
    source.text("Case", "the other");
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(&copy)).finish().expect_code(1);
    assert_eq!(summary(&run).of("failed"), 1, "{run}");
    assert!(run.said().contains("does not tell upper from lower case"), "{run}");
    // By the name that is listed: under the other one the kernel may still hold an older length.
    let name = names(&copy).into_iter().find(|name| name.eq_ignore_ascii_case("case")).unwrap();
    let kept = fs::read_to_string(copy.join(name)).unwrap();
    assert!(["one", "the other"].contains(&&*kept), "{kept:?}");
}

fn names_that_differ_in_case_only_are_refused() {
    for word in ["copy", "sync"] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.text("Case", "one");
        source.text("case", "the other");
        source.file("Big", 5 << 20);
        source.file("big", (5 << 20) + 1);
        source.file("beside", 100);
        let (mount, copy) = less(&scene, MountOptions { folds_case: true, ..MountOptions::default() });
        let run = || scene.by(Way::Local, word, slash(source.path()), slash(&copy)).finish().expect_code(1);
        let first = run();
        assert_eq!(summary(&first).of("failed"), 2, "{first}");
        assert!(first.said().contains("does not tell upper from lower case"), "{first}");
        assert_eq!(names(&copy).len(), 3, "{:?}", names(&copy));
        let kept = fs::read(copy.join("case")).unwrap();
        assert!(kept == b"one" || kept == b"the other");
        // The first of two entries stays as it is.
        let second = run();
        assert_eq!(summary(&second).of("failed"), 2, "{second}");
        assert_eq!(summary(&second).of("removed"), 0, "{second}");
        assert_eq!(fs::read(copy.join("case")).unwrap(), kept);
        drop(mount);
    }
}

fn a_file_without_a_length_is_not_copied_as_an_empty_one() {
    let scene = Scene::new();
    let copy = scene.tree("dst");
    let run = scene.haul("copy").args(["--json", "/proc/self/status"]).arg(slash(copy.path())).finish();
    let run = run.expect_code(1);
    assert!(run.said().contains("tells no length"), "{run}");
    assert!(!copy.join("status").exists());
    // A file that is really empty is copied.
    let empty = scene.tree("src").file("empty", 0);
    let _ = scene.haul("copy").arg(empty).arg(slash(copy.path())).finish().expect_success();
}

//! File systems that are slow, fail and hang: the cost that this may have, and the effects that it must never have.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_slowfs::{FaultEffect, FsFault, MountOptions, Op, SlowMount};
use haul_testkit::process::{comes_true, kill, wait_until};
use haul_testkit::tree::list;
use haul_testkit::{Need, Random, TestTree, assert_same_tree};
use rustix::io::Errno;

use crate::scene::{Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Fuse;
        a_hard_tree_arrives_whole_on_it_and_from_it,
        a_small_file_takes_few_requests,
        metadata_of_a_listing_is_not_requested_again,
        atomic_gives_every_file_its_name_last,
        an_existing_file_is_replaced_not_written_into,
        single_failures_are_named_and_the_rest_arrives,
        an_unreadable_file_is_named_and_the_rest_arrives,
        a_request_that_hangs_holds_up_its_own_file_only,
        a_hung_operation_is_named_and_the_rest_goes_on,
        a_hung_operation_at_a_remote_end_is_named_too,
        pages_that_a_failed_sync_lost_are_written_again,
        killed_at_random_moments_no_part_of_a_file_looks_complete,
    ]
}

/// The delay of each request.
const DELAY: Duration = Duration::from_millis(1);

/// A directory of the scene, seen through the file system.
fn mount(scene: &Scene, behind: &Path, xattrs: bool) -> SlowMount {
    fs::create_dir_all(behind).unwrap();
    let at = scene.join("mnt");
    fs::create_dir_all(&at).unwrap();
    let options = MountOptions { meta: DELAY, data: DELAY, xattrs, ..MountOptions::default() };
    SlowMount::new(behind, &at, options).unwrap()
}

/// `directories` directories of 20 small files each.
fn many(scene: &Scene, directories: u32) -> TestTree {
    let tree = scene.tree("src");
    for directory in 0..directories {
        for file in 0..20 {
            tree.file(format!("{directory:02}/{file:02}"), u64::from(directory * 311 + file * 97) % 9000);
        }
    }
    // Far enough from the times of new entries that the precision of the file system's times does not matter.
    for name in list(tree.path()).into_iter().chain([PathBuf::new()]) {
        tree.time(name, 1_700_000_000, 123_456_789);
    }
    tree
}

fn a_hard_tree_arrives_whole_on_it_and_from_it() {
    let scene = Scene::new();
    let source = TestTree::hard(scene.join("src"), 1);
    let behind = scene.join("behind");
    let slow = mount(&scene, &behind, true);
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success();
    summary(&run).assert_accounted();
    assert_same_tree(source.path(), &behind.join("dst"));
    let again = summary(&scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success());
    assert_eq!(again.of("same"), again.of("found"), "{again:?}");
    let back = scene.join("back");
    let _ = scene.copy(Way::Local, &slow.join("dst"), &back).finish().expect_success();
    assert_same_tree(source.path(), &back);
}

fn a_small_file_takes_few_requests() {
    let scene = Scene::new();
    let source = many(&scene, 20);
    let files = 400;
    for (number, owner) in [0, 1234].into_iter().enumerate() {
        for name in list(source.path()) {
            chown(source.join(name), Some(owner), Some(owner)).unwrap();
        }
        let behind = scene.join(format!("behind-{number}"));
        let slow = mount(&scene, &behind, false);
        let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success();
        assert_eq!(summary(&run).of("copied"), files);
        let first = slow.counts();
        // Six, and two to give it away: some requests for each directory come to that.
        assert!(first.total() <= files * 8, "{}", first.json());
        assert_eq!((first.of(Op::Rename), first.of(Op::Create)), (0, files), "{}", first.json());
        assert_same_tree(source.path(), &behind.join("dst"));
        let _ = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success();
        let second = slow.counts().since(&first);
        assert!(second.total() <= files * 5 / 2, "{}", second.json());
        assert_eq!(second.of(Op::Create) + second.of(Op::Write), 0, "{}", second.json());
    }
}

fn metadata_of_a_listing_is_not_requested_again() {
    let scene = Scene::new();
    let source = many(&scene, 20);
    let (directories, files) = (21, 400);
    let behind = scene.join("behind");
    fs::create_dir_all(&behind).unwrap();
    fs::create_dir_all(scene.join("mnt")).unwrap();
    let copy = |word: &str, from: &Path, to: &Path| {
        let slow = SlowMount::new(&behind, &scene.join("mnt"), MountOptions::nfs(DELAY)).unwrap();
        let run = scene.by(Way::Local, word, slash(from), slash(to)).finish().expect_success();
        (summary(&run), slow.counts())
    };
    let there = scene.join("mnt/dst");
    let _ = copy("copy", source.path(), &there);
    assert_same_tree(source.path(), &behind.join("dst"));
    for word in ["copy", "sync"] {
        let (told, counts) = copy(word, source.path(), &there);
        assert_eq!(told.of("same"), files + directories, "{told:?}");
        // For each directory once, and once more for the entries to remove.
        assert!(counts.total() <= directories * 15 + 20, "{}", counts.json());
    }
    let (told, counts) = copy("copy", &there, &scene.join("back"));
    assert_eq!(told.of("copied"), files);
    // Open, read, and two to close.
    assert!(counts.total() <= files * 4 + directories * 10, "{}", counts.json());
    assert_same_tree(source.path(), &scene.join("back"));
}

fn atomic_gives_every_file_its_name_last() {
    let scene = Scene::new();
    let source = many(&scene, 3);
    let behind = scene.join("behind");
    let slow = mount(&scene, &behind, false);
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).arg("--atomic");
    let _ = run.finish().expect_success();
    assert_eq!(slow.counts().of(Op::Rename), 60, "{}", slow.counts().json());
    assert_same_tree(source.path(), &behind.join("dst"));
}

fn an_existing_file_is_replaced_not_written_into() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("file", "new content");
    let behind = scene.join("behind");
    fs::create_dir_all(behind.join("dst")).unwrap();
    fs::write(behind.join("dst/file"), "old").unwrap();
    fs::hard_link(behind.join("dst/file"), behind.join("elsewhere")).unwrap();
    let slow = mount(&scene, &behind, true);
    let _ = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success();
    assert_same_tree(source.path(), &behind.join("dst"));
    assert_eq!(fs::read(behind.join("elsewhere")).unwrap(), b"old");
}

/// The paths that a run says have failed.
fn failed(run: &haul_testkit::Finished) -> BTreeSet<String> {
    let told = events(run).into_iter().filter(|event| event["type"] == "failed");
    told.map(|event| event["path"].as_str().unwrap().to_owned()).collect()
}

fn single_failures_are_named_and_the_rest_arrives() {
    let scene = Scene::new();
    let source = many(&scene, 10);
    let behind = scene.join("behind");
    let slow = mount(&scene, &behind, true);
    let wrong = [
        (Op::Write, "03/07", Errno::IO),
        (Op::Create, "05/01", Errno::STALE),
        (Op::Create, "06/11", Errno::AGAIN),
        (Op::Flush, "08/19", Errno::IO),
    ];
    for (op, path, error) in wrong {
        slow.faults().add(FsFault::always(op, path, FaultEffect::Fail(error)));
    }
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_code(1);
    assert_eq!(failed(&run), wrong.iter().map(|(_, path, _)| (*path).to_owned()).collect(), "{run}");
    summary(&run).assert_accounted();
    for (_, path, _) in wrong {
        assert!(!behind.join("dst").join(path).exists(), "{path} is not there");
    }
    slow.faults().clear();
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).finish().expect_success();
    assert_eq!(summary(&run).of("copied"), 4);
    assert_same_tree(source.path(), &behind.join("dst"));
}

/// A sync that fails may have dropped written pages, and reports this only once.
fn pages_that_a_failed_sync_lost_are_written_again() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("huge", 23 << 20);
    let behind = scene.join("behind");
    let slow = mount(&scene, &behind, true);
    slow.faults().add(FsFault::once(Op::Fsync, "", FaultEffect::Fail(Errno::NOSPC)));
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst"));
    // The first group is not the whole.
    let run = run.args(["--bwlimit", "20M"]).limit(Duration::from_secs(60)).start();
    wait_until("it waits for room", Duration::from_secs(30), || {
        run.stdout().contains("waiting for free space")
    });
    for staged in fs::read_dir(behind.join("dst")).unwrap() {
        let staged = fs::OpenOptions::new().write(true).open(staged.unwrap().path()).unwrap();
        let len = staged.metadata().unwrap().len() as usize;
        staged.write_all_at(&vec![0; len], 0).unwrap();
    }
    summary(&run.finish().expect_success()).assert_accounted();
    assert_same_tree(source.path(), &behind.join("dst"));
}

fn an_unreadable_file_is_named_and_the_rest_arrives() {
    let scene = Scene::new();
    let source = many(&scene, 10);
    let slow = mount(&scene, source.path(), true);
    let wrong = [(Op::Read, "03/07", Errno::IO), (Op::Open, "05/01", Errno::STALE)];
    for (op, path, error) in wrong {
        slow.faults().add(FsFault::always(op, path, FaultEffect::Fail(error)));
    }
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, slow.path(), &copy).finish().expect_code(1);
    assert_eq!(failed(&run), wrong.iter().map(|(_, path, _)| (*path).to_owned()).collect(), "{run}");
    slow.faults().clear();
    let run = scene.copy(Way::Local, slow.path(), &copy).finish().expect_success();
    assert_eq!(summary(&run).of("copied"), 2);
    assert_same_tree(source.path(), &copy);
}

fn a_request_that_hangs_holds_up_its_own_file_only() {
    for op in [Op::Write, Op::Flush] {
        let scene = Scene::new();
        let source = many(&scene, 30);
        let behind = scene.join("behind");
        let slow = mount(&scene, &behind, true);
        slow.faults().add(FsFault::once(op, "01/10", FaultEffect::Hang));
        let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).start();
        let complete = || {
            let there = |path: &Path| {
                let (from, to) = (source.join(path), behind.join("dst").join(path));
                fs::metadata(to).is_ok_and(|to| {
                    let from = fs::metadata(from).unwrap();
                    (to.len(), to.mtime(), to.mtime_nsec()) == (from.len(), from.mtime(), from.mtime_nsec())
                })
            };
            list(source.path()).iter().filter(|path| source.join(path).is_file() && there(path)).count()
        };
        let come = comes_true(Duration::from_secs(60), || slow.hanging() == 1 && complete() >= 599);
        let (hanging, there) = (slow.hanging(), complete());
        // Else neither the program could end nor this test.
        slow.release();
        assert!(
            come,
            "{op:?}: {hanging} requests hang, and {there} of 599 files are there\n{}",
            run.stdout()
        );
        // The request fails at last, and the file is written once more.
        let run = run.finish().expect_success();
        assert_eq!((summary(&run).of("copied"), summary(&run).of("resent")), (600, 1), "{run}");
        assert_same_tree(source.path(), &behind.join("dst"));
    }
}

/// A hung operation: the request and the path, whether it is at the destination, its name in messages, and the exit
/// code.
type Hanging = (Op, &'static str, bool, &'static str, i32);

fn a_hung_operation_is_named_and_the_rest_goes_on() {
    let cases = [
        // A file whose last operation fails is written once more.
        (Op::Create, "01/10", true, "write", 0),
        (Op::Flush, "02/05", true, "finish", 0),
        // The kernel by itself repeats a read-ahead that failed.
        (Op::Read, "03/03", false, "read", 0),
        (Op::Getattr, "04/04", false, "look at", 1),
    ];
    for case in cases {
        is_named(Way::Local, case, &["--timeout=1"]);
    }
}

fn a_hung_operation_at_a_remote_end_is_named_too() {
    let (create, read) = ((Op::Create, "01/10", true, "write", 0), (Op::Read, "03/03", false, "read", 0));
    is_named(Way::Push, create, &["--timeout=4"]);
    // Where the only connection that there is waits for the file system.
    is_named(Way::Push, create, &["--timeout=4", "--transport=ssh", "--streams=1"]);
    is_named(Way::Pull, read, &["--timeout=4"]);
    is_named(Way::Relay, create, &["--timeout=4"]);
}

#[track_caller]
fn is_named(way: Way, (op, path, at_target, operation, code): Hanging, options: &[&str]) {
    let scene = Scene::new();
    let source = many(&scene, 10);
    let behind = scene.join("behind");
    let copy = scene.join("dst");
    let slow = mount(&scene, if at_target { &behind } else { source.path() }, false);
    let (from, to) = if at_target { (source.path(), slow.path()) } else { (slow.path(), &*copy) };
    slow.faults().add(FsFault::once(op, path, FaultEffect::Hang));
    let run = scene.copy(way, from, to).args(options).start();
    let host = if way == Way::Local { "" } else { ":" };
    // Meanwhile nobody else can create anything in that directory: the oldest that waits may be another file of it.
    let shown = if op == Op::Create { path.rsplit_once('/').unwrap().0 } else { path };
    let path_there = format!("{host}{}", slow.join(shown).display());
    let is_named = |line: &str| line.contains(&format!(": {operation} ")) && line.contains(&path_there);
    let told = comes_true(Duration::from_secs(60), || run.stdout().lines().any(is_named));
    // Else neither the program could end nor this test.
    slow.release();
    assert!(told, "{way:?}: it is not named: {}", run.stdout());
    let run = run.finish().expect_code(code);
    let wanted: BTreeSet<String> = (code == 1).then(|| path.to_owned()).into_iter().collect();
    assert_eq!(failed(&run), wanted, "{run}");
}

fn killed_at_random_moments_no_part_of_a_file_looks_complete() {
    let seed = Random::any_seed();
    eprintln!("kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let scene = Scene::new();
    let source = many(&scene, 60);
    let behind = scene.join("behind");
    let slow = mount(&scene, &behind, true);
    let (mut kills, mut parts) = (0, 0);
    for round in 0..5 {
        let copy = format!("dst-{round}");
        loop {
            let mut run = scene.copy(Way::Local, source.path(), &slow.join(&copy)).start();
            std::thread::sleep(Duration::from_millis(random.between(30, 500)));
            if !run.is_running() {
                let _ = run.finish().expect_success();
                break;
            }
            kill(run.pid());
            let _ = run.finish();
            kills += 1;
            parts += parts_left(&source, &behind.join(&copy));
            if kills % 4 == 0 {
                let _ = scene.copy(Way::Local, source.path(), &slow.join(&copy)).finish().expect_success();
                break;
            }
        }
        assert_same_tree(source.path(), &behind.join(&copy));
    }
    eprintln!("kill loop: {kills} kills left {parts} files that were not complete");
    assert!(kills > 0 && parts > 0, "some kills came in the middle of a file");
}

/// Files that are not complete; fails if one of them looks as if it were.
fn parts_left(source: &TestTree, copy: &Path) -> usize {
    let mut parts = 0;
    for path in list(copy) {
        let (from, to) = (source.join(&path), copy.join(&path));
        let (Ok(now), Ok(wanted)) = (fs::metadata(&to), fs::metadata(&from)) else { continue };
        if !now.is_file() {
            continue;
        }
        let same =
            (now.len(), now.mtime(), now.mtime_nsec()) == (wanted.len(), wanted.mtime(), wanted.mtime_nsec());
        if same {
            assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{path:?} looks complete and is not");
            assert_eq!(now.mode(), wanted.mode(), "{path:?}");
        }
        parts += usize::from(!same);
    }
    parts
}

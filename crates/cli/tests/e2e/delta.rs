//! Large files that changed in part: only changed blocks are sent, and readers see the old file or the new one.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use haul_testkit::process::kill;
use haul_testkit::tree::{allocated, set_time};
use haul_testkit::{FaultPlan, FileSystem, Need, TestMount, TestTree, assert_same_tree, write_program};

use crate::scene::{HAUL, RunCounts, Scene, WAYS, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        pages_that_changed_are_all_that_is_sent,
        a_file_that_grew_or_shrank_costs_only_its_new_part,
        holes_stay_and_come_and_go,
        killed_in_the_middle_the_old_file_is_whole_and_the_next_run_goes_on,
        an_old_file_that_changes_meanwhile_is_noticed,
        in_place_it_stays_the_same_file,
        in_place_killed_and_run_again_it_is_right,
        it_is_hashed_during_the_login_and_later_changes_are_noticed,
        off_and_unlike_files_are_sent_whole,
        in_place_is_refused_where_it_cannot_be,
    ];
    all.extend(cases![
        Need::LoopMounts;
        on_btrfs_equal_content_takes_no_space,
        on_xfs_equal_content_takes_no_space,
    ]);
    all
}

const PAGE: u64 = 16 * 1024;
const SLICE: u64 = 4 << 20;
/// Five slices and a bit.
const LEN: u64 = 5 * SLICE + 3 * PAGE + 77;

/// A source with one big file, and a destination that has it as it was.
struct Older {
    scene: Scene,
    source: TestTree,
    copy: PathBuf,
}

impl Older {
    fn new() -> Self {
        Self::of(LEN)
    }

    fn of(len: u64) -> Self {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.join("dst"));
        source.file("image", len);
        fs::create_dir(&copy).unwrap();
        let own = Self { scene, source, copy };
        own.age();
        own
    }

    /// Gives the destination the present content of the source, with an old time.
    fn age(&self) {
        fs::copy(self.image(), self.old()).unwrap();
        set_time(&self.old(), 1_000_000_000, 5);
    }

    fn image(&self) -> PathBuf {
        self.source.join("image")
    }

    fn old(&self) -> PathBuf {
        self.copy.join("image")
    }

    /// Changes a byte in each of these pages of the source.
    fn change(&self, pages: impl IntoIterator<Item = u64>) {
        pages.into_iter().for_each(|page| change(&self.image(), page));
    }

    fn copy(&self, way: Way, options: &[&str]) -> RunCounts {
        let run = self.scene.copy(way, self.source.path(), &self.copy).args(options);
        let summary = summary(&run.finish().expect_success());
        summary.assert_accounted();
        assert_same_tree(self.source.path(), &self.copy);
        summary
    }
}

/// Changes a byte of a page.
fn change(file: &Path, page: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, page * PAGE + 99).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], page * PAGE + 99).unwrap();
}

/// Bytes of the last page, which is shorter and is always sent.
const TAIL: u64 = 77;

#[track_caller]
fn assert_sent(summary: &RunCounts, len: u64, sent: u64) {
    assert_eq!((summary.of("sent_bytes"), summary.of("matched_bytes")), (sent, len - sent), "{summary:?}");
}

fn pages_that_changed_are_all_that_is_sent() {
    for way in WAYS {
        let older = Older::new();
        // The first, two in a row, one across a boundary of slices on either side, one in the short slice.
        older.change([0, 100, 101, 255, 256, 5 * 256 + 1]);
        let on: &[&str] = if way == Way::Local { &["--delta", "on"] } else { &[] };
        assert_sent(&older.copy(way, on), LEN, 6 * PAGE + TAIL);
        older.change([700]);
        assert_sent(&older.copy(way, &["--verify", "disk", "-c", "--delta=on"]), LEN, PAGE + TAIL);
        let again = older.copy(way, &[]);
        assert_eq!((again.of("same"), again.of("sent_bytes")), (again.of("found"), 0), "{way:?}");
    }
}

fn a_file_that_grew_or_shrank_costs_only_its_new_part() {
    for way in [Way::Push, Way::Pull] {
        let older = Older::new();
        let resize = |len| File::options().write(true).open(older.image()).unwrap().set_len(len).unwrap();
        // A log: the page that was not full is sent again, and the pages after it.
        let log = File::options().write(true).open(older.image()).unwrap();
        log.write_all_at(&vec![b'x'; 100_000], LEN).unwrap();
        assert_sent(&older.copy(way, &[]), LEN + 100_000, TAIL + 100_000);
        resize(3 * SLICE + 5);
        assert_sent(&older.copy(way, &[]), 3 * SLICE + 5, 5);
        // The new part is a hole: nothing of it is sent, though it counts.
        resize(2 * LEN);
        let grown = older.copy(way, &[]);
        assert!(grown.of("matched_bytes") >= 3 * SLICE, "{grown:?}");
        assert!(allocated(&older.copy) < LEN);
        assert!(grown.of("wire_bytes") < 2 * PAGE, "{grown:?}");
    }
}

fn holes_stay_and_come_and_go() {
    for (way, options) in [(Way::Local, "--delta=on"), (Way::Push, "--delta=auto"), (Way::Push, "--inplace")]
    {
        let older = Older::of(0);
        let hole = |file: &str, data: &[std::ops::Range<u64>]| {
            fs::remove_file(older.source.join(file)).unwrap();
            older.source.sparse(file, 4 * SLICE, data);
        };
        hole("image", &[0..PAGE * 3, SLICE..SLICE + PAGE * 50, 3 * SLICE..4 * SLICE]);
        older.age();
        assert!(allocated(&older.copy) < 6 * SLICE);
        // Data becomes a hole, a hole data, and some stays.
        hole("image", &[0..PAGE * 3, SLICE + PAGE * 20..SLICE + PAGE * 60, 2 * SLICE..2 * SLICE + 4096]);
        let run = older.copy(way, &[options]);
        assert!(run.of("matched_bytes") >= 3 * PAGE, "{way:?} {options}: {run:?}");
        let (there, here) = (allocated(older.source.path()), allocated(&older.copy));
        assert!(here <= there + 4 * PAGE, "{way:?} {options}: {here} bytes instead of {there}");
    }
}

/// Half of all pages, so that it takes a while.
fn every_other(len: u64) -> impl Iterator<Item = u64> {
    (0..len / PAGE).step_by(2)
}

fn killed_in_the_middle_the_old_file_is_whole_and_the_next_run_goes_on() {
    for way in [Way::Push, Way::Pull] {
        let older = Older::of(8 * SLICE);
        older.change(every_other(8 * SLICE));
        let before = fs::read(older.old()).unwrap();
        let plan = FaultPlan::new(older.scene.join("plan")).slow(4_000_000);
        let run = older.scene.fault_copy(way, &plan, older.source.path(), &older.copy);
        let mut run = run.args(["--streams", "2", "--compress", "none"]).start();
        let journal = || {
            let names = fs::read_dir(&older.copy).unwrap();
            let of = |name: fs::DirEntry| (name.file_name(), name.metadata().map_or(0, |now| now.len()));
            names
                .flatten()
                .map(of)
                .any(|(name, len)| name.to_string_lossy().ends_with(".journal") && len > 100)
        };
        run.wait_until("some slices are durable", journal);
        kill(run.pid());
        assert!(run.finish().was_killed());
        older.scene.assert_all_gone();
        assert!(fs::read(older.old()).unwrap() == before, "the old file is as it was");
        let again = older.copy(way, &[]);
        let resumed = again.of("resumed_bytes");
        assert!(resumed >= SLICE, "{way:?}: {again:?}");
        assert_sent(&again, 8 * SLICE - resumed, (8 * SLICE - resumed) / 2);
    }
}

fn an_old_file_that_changes_meanwhile_is_noticed() {
    let older = Older::of(6 * SLICE);
    older.change(every_other(6 * SLICE));
    let plan = FaultPlan::new(older.scene.join("plan")).slow(4_000_000);
    let run = older.scene.fault_copy(Way::Push, &plan, older.source.path(), &older.copy);
    let mut run = run.args(["--streams", "1", "--compress", "none"]).start();
    run.wait_until("something is staged", || fs::read_dir(&older.copy).unwrap().count() > 1);
    // A page that counted as the same, of the slices that were asked about first.
    change(&older.old(), 4 * 256 - 1);
    let summary = summary(&run.finish().expect_success());
    assert!(summary.of("resent") > 0, "{summary:?}");
    assert_same_tree(older.source.path(), &older.copy);
}

fn in_place_it_stays_the_same_file() {
    for way in WAYS {
        let older = Older::new();
        let inode = || fs::metadata(older.old()).unwrap().ino();
        let before = inode();
        older.change([3, 999]);
        let run = older.scene.copy(way, older.source.path(), &older.copy).arg("--inplace").finish();
        assert_sent(&summary(&run.expect_success()), LEN, 2 * PAGE + TAIL);
        assert_eq!(inode(), before, "{way:?}");
        // Shorter, whole, and read back.
        File::options().write(true).open(older.image()).unwrap().set_len(2 * SLICE + 9).unwrap();
        let off = older.copy(way, &["--inplace", "--delta=off", "--verify=disk"]);
        assert_sent(&off, 2 * SLICE + 9, 2 * SLICE + 9);
        assert_eq!(inode(), before, "{way:?}");
        // A further name that the source does not have keeps the old content.
        let (other, old) = (older.scene.join("other name"), fs::read(older.old()).unwrap());
        fs::hard_link(older.old(), &other).unwrap();
        older.change([1]);
        let _ = older.copy(way, &["--inplace"]);
        assert!(fs::read(&other).unwrap() == old, "{way:?}: the other name is not written into");
        assert_same_tree(older.source.path(), &older.copy);
    }
}

fn in_place_killed_and_run_again_it_is_right() {
    let older = Older::of(8 * SLICE);
    older.change(every_other(8 * SLICE));
    let plan = FaultPlan::new(older.scene.join("plan")).slow(4_000_000);
    let run = older.scene.fault_copy(Way::Push, &plan, older.source.path(), &older.copy);
    let mut run = run.args(["--inplace", "--streams", "2", "--compress", "none"]).start();
    let old = fs::read(older.old()).unwrap();
    run.wait_until("some of it is written", || fs::read(older.old()).unwrap() != old);
    kill(run.pid());
    assert!(run.finish().was_killed());
    older.scene.assert_all_gone();
    // The content of the destination is compared: pages that were written are not sent again.
    let again = older.copy(Way::Push, &["--inplace"]);
    let sent = again.of("sent_bytes");
    assert!(sent < 4 * SLICE && sent > 0, "{again:?}");
}

fn it_is_hashed_during_the_login_and_later_changes_are_noticed() {
    for option in ["--inplace", "--delta=on"] {
        let older = Older::new();
        older.change([3, 999]);
        let (shell, go) = (older.scene.join("shell"), older.scene.join("go"));
        let script = format!(
            "#!/bin/sh\nuntil [ -e {} ]; do sleep 0.02; done\nexec {} \"$@\"\n",
            go.display(),
            older.scene.sshd().shell()
        );
        write_program(&shell, script);
        let run =
            older.scene.haul("copy").arg("-e").arg(&shell).args(["--remote-haul", HAUL, "--json", option]);
        let mut run = run.arg(slash(older.source.path())).arg(older.scene.remote(slash(&older.copy))).start();
        let file = format!("/proc/{}/io", run.pid());
        let read = || {
            let io = fs::read_to_string(&file).unwrap_or_default();
            let chars = io.lines().find_map(|line| line.strip_prefix("rchar: "));
            chars.and_then(|chars| chars.parse::<u64>().ok()).unwrap_or(0)
        };
        run.wait_until("all of it is read", || read() >= LEN);
        older.change([5]);
        fs::write(&go, "").unwrap();
        assert_sent(&summary(&run.finish().expect_success()), LEN, 3 * PAGE + TAIL);
        assert_same_tree(older.source.path(), &older.copy);
    }
}

fn off_and_unlike_files_are_sent_whole() {
    let older = Older::new();
    older.change([7]);
    assert_sent(&older.copy(Way::Push, &["--delta", "off"]), LEN, LEN);
    // On one machine a file is replaced as it always was, where blocks cannot be shared.
    older.change([8]);
    let local = older.copy(Way::Local, &["--no-fsync"]);
    assert_eq!(local.of("copied"), 1, "{local:?}");
    // A file of another kind of size is none to compare with, unless it is asked for.
    fs::write(older.old(), &fs::read(older.image()).unwrap()[..SLICE as usize]).unwrap();
    set_time(&older.old(), 1_000_000_000, 5);
    assert_sent(&older.copy(Way::Push, &[]), LEN, LEN);
    fs::write(older.old(), &fs::read(older.image()).unwrap()[..SLICE as usize]).unwrap();
    set_time(&older.old(), 1_000_000_000, 5);
    assert_sent(&older.copy(Way::Push, &["--delta=on"]), LEN, LEN - SLICE);
}

fn in_place_is_refused_where_it_cannot_be() {
    let older = Older::new();
    let to = format!("sftp://{}{}/", older.scene.sshd().host(), older.copy.display());
    let run = older.scene.haul_ssh("copy").arg("--inplace").arg(older.source.path()).arg(to).finish();
    let said = run.said();
    assert!(run.code() == Some(2) && said.contains("--inplace") && said.contains("replaced"), "{run}");
}

fn takes_no_room(kind: FileSystem) {
    let scene = Scene::new();
    let disk = TestMount::new(kind, 600 << 20);
    let source = scene.tree("src");
    let image = source.file("image", 100 << 20);
    let copy = disk.join("dst");
    fs::create_dir(&copy).unwrap();
    fs::copy(&image, copy.join("image")).unwrap();
    set_time(&copy.join("image"), 1_000_000_000, 5);
    // A snapshot, as it were: it keeps the old blocks in use.
    fs::hard_link(copy.join("image"), disk.join("snapshot")).unwrap();
    (0..25).for_each(|slice| change(&image, slice * 256 + 11));
    rustix::fs::syncfs(File::open(disk.path()).unwrap()).unwrap();
    let before = disk.used();
    for way in [Way::Push, Way::Local] {
        let run = scene.copy(way, source.path(), &copy).finish().expect_success();
        let summary = summary(&run);
        assert_sent(&summary, 100 << 20, 25 * PAGE);
        assert_same_tree(source.path(), &copy);
        rustix::fs::syncfs(File::open(disk.path()).unwrap()).unwrap();
        let more = disk.used().saturating_sub(before);
        assert!(more < 20 << 20, "{way:?}: the new file takes {more} bytes of its own");
        (0..25).for_each(|slice| change(&image, slice * 256 + 11));
    }
}

fn on_btrfs_equal_content_takes_no_space() {
    takes_no_room(FileSystem::Btrfs);
}

fn on_xfs_equal_content_takes_no_space() {
    takes_no_room(FileSystem::Xfs);
}

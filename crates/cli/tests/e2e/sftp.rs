//! Remote hosts without haul, over their SFTP server.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::compare::{assert_no_debris, fingerprint};
use haul_testkit::needs::tool;
use haul_testkit::process::{joined, kill};
use haul_testkit::tree::{allocated, content_len, list};
use haul_testkit::{
    ByteDirection, CommandRun, FaultPlan, LinkFault, Need, Random, SshdOptions, TestTree, Which,
    assert_no_half_files, assert_same_tree,
};
use std::os::unix::ffi::OsStrExt;

use crate::kills::{durable, staged};
use crate::scene::{REMOTE, Scene, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_second_run_has_nothing_to_do,
        odd_names_and_links_arrive,
        killed_at_random_moments_it_always_goes_on_and_is_never_half_there,
        a_large_file_goes_on_where_it_was,
        connections_that_die_cost_only_the_requests_on_them,
        reading_back_finds_a_flipped_byte_and_sends_it_again,
        staged_slices_are_read_back_before_they_count,
        sync_removes_entries_that_the_source_lacks,
        verify_and_hash_read_the_destination_as_it_is,
        no_path_leads_out_through_a_link,
        a_server_without_sftp_is_told,
        changed_files_are_replaced_whole,
    ];
    all.extend(cases![
        Need::Root;
        a_tree_goes_over_sftp_both_ways,
        a_user_without_rights_is_told_the_metadata_that_was_not_kept,
    ]);
    all
}

/// `sftp://HOST/PATH`; the port is in the words for `-e`.
pub(crate) fn sftp(path: &Path) -> OsString {
    joined(&[b"sftp://", REMOTE.as_bytes(), slash(path).as_bytes()])
}

/// The program with its first word, and how the server is reached. No haul is named.
pub(crate) fn haul(scene: &Scene, word: &str) -> CommandRun {
    scene.haul(word).args(["-e", &scene.sshd().shell()])
}

pub(crate) fn push(scene: &Scene, from: &Path, to: &Path) -> CommandRun {
    haul(scene, "copy").arg("--json").arg(slash(from)).arg(sftp(to))
}

pub(crate) fn pull(scene: &Scene, from: &Path, to: &Path) -> CommandRun {
    haul(scene, "copy").arg("--json").arg(sftp(from)).arg(slash(to))
}

/// The differences that rsync finds, with times in whole seconds, and without metadata that SFTP cannot carry.
pub(crate) fn differences(original: &Path, copy: &Path, more: &[&str]) -> String {
    let mut rsync = Command::new("rsync");
    rsync.args(["-naic", "--delete", "--numeric-ids"]).args(more);
    // The times of the copy are those of the original, cut: rsync compares whole seconds unless told otherwise.
    rsync.arg("--modify-window=0").arg(slash(original)).arg(slash(copy));
    tool(&mut rsync)
}

fn assert_same(original: &Path, copy: &Path) {
    assert_eq!(differences(original, copy, &[]), "");
    assert_no_debris(copy);
}

/// A tree of which SFTP carries everything: whole seconds, no attributes.
pub(crate) fn plain(scene: &Scene, name: &str, big: &[u64], small: u32) -> TestTree {
    let tree = TestTree::mixed(scene.join(name), 70, big, small);
    whole_seconds(&tree);
    tree
}

fn whole_seconds(tree: &TestTree) {
    for (number, path) in list(tree.path()).into_iter().enumerate() {
        tree.time(path, 1_600_000_000 + number as i64, 0);
    }
    tree.time("", 1_500_000_000, 0);
}

fn a_second_run_has_nothing_to_do() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[(9 << 20) + 5, 4 << 20, (4 << 20) + 1], 900);
    let copy = scene.join("new/dst");
    let first = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    first.assert_accounted();
    assert_eq!(first.of("same"), 0);
    assert_same_tree(source.path(), &copy);
    let before = fingerprint(&copy);
    let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!((again.of("same"), again.of("sent_bytes")), (again.of("found"), 0), "{again:?}");
    assert_eq!(again.0["metadata"].as_array().map(Vec::len), Some(0), "{again:?}");
    assert!(before == fingerprint(&copy), "nothing was touched");
    let back = scene.join("back");
    let pulled = summary(&pull(&scene, &copy, &back).finish().expect_success());
    assert_eq!(pulled.of("found"), first.of("found"));
    assert_same_tree(source.path(), &back);
    let again = summary(&pull(&scene, &copy, &back).finish().expect_success());
    assert_eq!((again.of("same"), again.of("sent_bytes")), (again.of("found"), 0), "{again:?}");
    // Only a time is other: it is set, nothing is sent.
    fs::set_permissions(copy.join("big/0.ibd"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(source.join("big/0.ibd"), fs::Permissions::from_mode(0o640)).unwrap();
    let set = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!((set.of("updated"), set.of("sent_bytes")), (1, 0), "{set:?}");
    assert_same_tree(source.path(), &copy);
    scene.assert_all_gone();
}

fn odd_names_and_links_arrive() {
    let scene = Scene::new();
    let source = scene.tree("src");
    let names: [&[u8]; 12] = [
        b"with space",
        b"two\nlines",
        b"\xff\xfe",
        b"-rf",
        b"~",
        b"*",
        b"$(touch x)",
        b"back\\slash",
        b"a:b",
        b"...",
        b"quote'\"",
        "\u{65e5}".as_bytes(),
    ];
    for name in names {
        let name = Path::new(std::ffi::OsStr::from_bytes(name));
        source.file(Path::new("files").join(name), 100);
        source.file(Path::new("directories").join(name).join("inside"), 3);
        source.link(Path::new("links").join(name), name);
    }
    source.link("links/dangling", "no/such/file");
    source.link("links/absolute", "/etc/passwd");
    source.file("linked/first", 1000);
    fs::hard_link(source.join("linked/first"), source.join("linked/second")).unwrap();
    source.file("linked/big", 9 << 20);
    fs::hard_link(source.join("linked/big"), source.join("far")).unwrap();
    let end = (8 << 20)..(8 << 20) + 1000;
    source.sparse("holes/leading", 9 << 20, std::slice::from_ref(&end));
    source.sparse("holes/trailing", 9 << 20, std::slice::from_ref(&(0..1000)));
    source.sparse("holes/all", 20 << 20, &[]);
    source.sparse("holes/small", 100_000, std::slice::from_ref(&(0..10)));
    source.dir("empty/in/empty");
    source.file("empty/file", 0);
    whole_seconds(&source);
    let copy = scene.join("dst");
    let run = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    run.assert_accounted();
    // Hard links and holes too.
    assert_same_tree(source.path(), &copy);
    let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!(again.of("same"), again.of("found"), "{again:?}");
    let back = scene.join("back");
    let _ = pull(&scene, &copy, &back).finish().expect_success();
    assert_same(source.path(), &back);
}

/// The tree with every kind of entry, without metadata that SFTP cannot carry; haul reports each of these.
fn a_tree_goes_over_sftp_both_ways() {
    let scene = Scene::new();
    let source = TestTree::hard(scene.join("src"), 1);
    let copy = scene.join("dst");
    let run = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    run.assert_accounted();
    assert_eq!(run.of("failed"), 0, "{run:?}");
    let told = run.0["metadata"].to_string();
    for what in ["times below a second", "attributes and ACLs", "pipes, sockets and devices", "before 1970"] {
        assert!(told.contains(what), "{what} is not in {told}");
    }
    // ACLs show in modes; times out of range cannot be the same.
    let without = ["--exclude=/special/*", "--exclude=/acl", "--exclude=/times/*before*", "-H"];
    assert_eq!(differences(source.path(), &copy, &without), "");
    let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!((again.of("sent_bytes"), again.of("copied"), again.of("made")), (0, 0, 0), "{again:?}");
    let back = scene.join("back");
    let pulled = summary(&pull(&scene, &copy, &back).finish().expect_success());
    pulled.assert_accounted();
    assert_eq!(differences(&copy, &back, &[]), "");
}

/// Owners that this user may not set are told and no failure; directories that nobody may write into take files all the
/// same, and are as they were afterwards.
fn a_user_without_rights_is_told_the_metadata_that_was_not_kept() {
    let keys = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let file = keys.path().join("keys");
    let lines = vec![format!("AuthorizedKeysFile {}", file.display())];
    let options = SshdOptions { lines, force_command: Some("internal-sftp".to_owned()) };
    let scene = Scene::with_sshd(options);
    let shell = scene.sshd().shell();
    let key = shell.split(' ').skip_while(|word| *word != "-i").nth(1).unwrap();
    fs::copy(format!("{key}.pub"), &file).unwrap();
    let copy = keys.path().join("dst");
    fs::create_dir(&copy).unwrap();
    std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).unwrap();
    let source = plain(&scene, "src", &[9 << 20], 150);
    let locked = [source.join("small/0000"), source.join("big")];
    let lock = |mode| {
        locked.iter().for_each(|dir| fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap());
    };
    let run = || {
        let run = haul(&scene, "copy").arg("--json").arg(slash(source.path()));
        let to = joined(&[b"sftp://nobody@127.0.0.1", slash(&copy).as_bytes()]);
        let run = summary(&run.arg(to).finish().expect_success());
        run.assert_accounted();
        assert_eq!(differences(source.path(), &copy, &["--no-owner", "--no-group"]), "");
        run
    };
    lock(0o555);
    assert!(run().0["metadata"].to_string().contains("owner"));
    // Into directories that are locked already.
    source.file("small/0000/more", 10);
    source.file("small/0000/below/more", 10);
    source.link("small/0000/link", "more");
    source.file("big/more", 5 << 20);
    for name in
        ["small/0000/more", "small/0000/below/more", "small/0000/link", "big/more", "small/0000/below"]
    {
        source.time(name, 1_600_000_000, 0);
    }
    for name in ["small/0000", "big"] {
        source.time(name, 1_650_000_000, 0);
    }
    let again = run();
    assert_eq!((again.of("copied"), again.of("made")), (3, 2), "{again:?}");
    // Directories are tried again, as their owners still differ.
    let last = run();
    assert_eq!((last.of("copied"), last.of("made"), last.of("sent_bytes")), (0, 0, 0), "{last:?}");
}

fn killed_at_random_moments_it_always_goes_on_and_is_never_half_there() {
    let seed = Random::any_seed();
    eprintln!("sftp kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let scene = Scene::new();
    let source = plain(&scene, "src", &[25 << 20, (9 << 20) + 5], 1500);
    let plan = FaultPlan::new(scene.join("plan")).slow(4_000_000);
    let mut resumed = 0;
    for tour in 0..4 {
        let copy = scene.join(format!("dst-{tour}"));
        let (from, to) = match tour % 2 {
            0 => (slash(source.path()), sftp(&copy)),
            _ => (sftp(source.path()), slash(&copy)),
        };
        for round in 0.. {
            assert!(round < 40, "each run brings it further");
            plan.restart();
            let run = scene.haul_fault("copy", &plan).arg("--json").args(["--streams", "4"]);
            let mut run = run.arg(&from).arg(&to).start();
            std::thread::sleep(Duration::from_millis(random.between(50, 2500)));
            let servers = servers(&scene);
            match random.between(0, 4) {
                0 if !servers.is_empty() => kill(servers[random.between(0, servers.len() as u64) as usize]),
                1 => servers.into_iter().for_each(kill),
                _ if run.is_running() => kill(run.pid()),
                _ => {}
            }
            if copy.exists() {
                assert_no_half_files(source.path(), &copy);
            }
            let end = run.finish();
            assert!(end.was_killed() || matches!(end.code(), Some(0 | 4)), "{end}");
            scene.assert_all_gone();
            if copy.exists() {
                assert_no_half_files(source.path(), &copy);
            }
            if end.code() == Some(0) {
                resumed += summary(&end).of("resumed_bytes");
                break;
            }
        }
        assert_same_tree(source.path(), &copy);
        let last = scene.haul_fault("copy", &FaultPlan::new(scene.join(format!("fast-{tour}"))));
        let last = summary(&last.arg("--json").arg(&from).arg(&to).finish().expect_success());
        assert_eq!((last.of("same"), last.of("sent_bytes")), (last.of("found"), 0), "{last:?}");
    }
    eprintln!("sftp kill loop: {resumed} bytes were there from killed runs");
}

/// The SFTP servers of a scene whose remote shell runs them on this machine.
fn servers(scene: &Scene) -> Vec<u32> {
    let is_server = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            line.split(|byte| *byte == 0).next().is_some_and(|name| name.ends_with(b"sftp-server"))
        })
    };
    haul_testkit::process::tagged(scene.tag()).into_iter().filter(is_server).collect()
}

/// Pushes slowly and kills it once `enough` bytes have arrived and the journal knows of half of them.
fn half_way(scene: &Scene, source: &TestTree, copy: &Path, enough: u64) {
    let plan = FaultPlan::new(scene.join("slow")).slow(10_000_000);
    plan.restart();
    let run = scene.haul_fault("copy", &plan).args(["--streams", "2"]);
    let mut run = run.arg(slash(source.path())).arg(sftp(copy)).start();
    run.wait_until("enough has arrived", || allocated(copy) > enough && durable(copy) > enough / 2);
    kill(run.pid());
    assert!(run.finish().was_killed());
    scene.assert_all_gone();
}

fn a_large_file_goes_on_where_it_was() {
    let scene = Scene::new();
    let source = scene.tree("src");
    let len = 64 << 20;
    source.file("huge", len);
    whole_seconds(&source);
    let copy = scene.join("dst");
    half_way(&scene, &source, &copy, len / 2);
    assert!(!copy.join("huge").exists(), "the final name is for what is whole");
    let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert!(again.of("resumed_bytes") > len / 5, "{again:?}");
    assert_eq!(again.of("resumed_bytes") + again.of("sent_bytes"), len, "{again:?}");
    assert_same_tree(source.path(), &copy);
    // Another file of the same name does not resume the staged file.
    half_way(&scene, &changed(&source, 1), &copy, len / 2);
    let other = changed(&source, 2);
    let run = summary(&push(&scene, other.path(), &copy).finish().expect_success());
    assert_eq!(run.of("resumed_bytes"), 0, "{run:?}");
    assert_same_tree(other.path(), &copy);
}

/// The same tree with other content in its large file.
fn changed(source: &TestTree, byte: u8) -> TestTree {
    source.text("huge", vec![byte; 64 << 20]);
    source.time("huge", 1_700_000_000 + i64::from(byte), 0);
    source.time("", 1_500_000_000, 0);
    TestTree::new(source.path(), 1)
}

fn connections_that_die_cost_only_the_requests_on_them() {
    for push in [true, false] {
        let scene = Scene::new();
        let source = plain(&scene, "src", &[30 << 20, 9 << 20], 600);
        let copy = scene.join("dst");
        let plan = FaultPlan::new(scene.join("plan"))
            .with(Which::Only(2), ByteDirection::Up, LinkFault::Cut(3_000_000))
            .with(Which::Only(2), ByteDirection::Down, LinkFault::Cut(3_000_000))
            .with(Which::Only(3), ByteDirection::Down, LinkFault::Stall(4_000))
            .with(Which::Only(4), ByteDirection::Up, LinkFault::Refuse);
        let run = scene.haul_fault("copy", &plan).args(["--json", "--streams", "4", "--timeout", "3"]);
        let (from, to) =
            if push { (slash(source.path()), sftp(&copy)) } else { (sftp(source.path()), slash(&copy)) };
        let run = summary(&run.arg(from).arg(to).finish().expect_success());
        run.assert_accounted();
        assert!(plan.connections() > 2, "several connections were used");
        assert_same_tree(source.path(), &copy);
        scene.assert_all_gone();
    }
}

fn reading_back_finds_a_flipped_byte_and_sends_it_again() {
    // In a large file and in a small file.
    for len in [30 << 20, 3 << 20] {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("file", len);
        whole_seconds(&source);
        let flip = || {
            FaultPlan::new(scene.join("plan")).with(Which::All, ByteDirection::Up, LinkFault::Flip(2_000_000))
        };
        let copy = scene.join("dst");
        let run = |plan: &FaultPlan, more: &[&str], copy: &Path| {
            plan.restart();
            let run = scene.haul_fault("copy", plan).args(["--json", "--streams", "1"]).args(more);
            run.arg(slash(source.path())).arg(sftp(copy)).finish().expect_success()
        };
        let blind = run(&flip(), &[], &scene.join("blind"));
        assert_eq!(summary(&blind).of("resent"), 0);
        let original = fs::read(source.join("file")).unwrap();
        assert!(fs::read(scene.join("blind/file")).unwrap() != original, "the byte was flipped");
        assert!(blind.said().contains("--verify disk"), "that nothing checks is told: {blind}");
        let seen = run(&flip(), &["--verify", "disk"], &copy);
        assert_eq!(summary(&seen).of("resent"), 1, "{seen}");
        assert_same_tree(source.path(), &copy);
    }
}

fn staged_slices_are_read_back_before_they_count() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("huge", 64 << 20);
    whole_seconds(&source);
    let copy = scene.join("dst");
    half_way(&scene, &source, &copy, 32 << 20);
    let part = staged(&copy, ".part").pop().expect("an interrupted huge is staged");
    let mut bytes = fs::read(&part).unwrap();
    bytes.iter_mut().step_by(1 << 20).for_each(|byte| *byte ^= 1);
    fs::write(&part, bytes).unwrap();
    let run =
        summary(&push(&scene, source.path(), &copy).args(["--verify", "disk"]).finish().expect_success());
    assert_eq!(run.of("resumed_bytes"), 0, "{run:?}");
    assert_same_tree(source.path(), &copy);
}

fn sync_removes_entries_that_the_source_lacks() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[5 << 20], 300);
    let copy = scene.join("dst");
    let extra = TestTree::new(&copy, 3);
    extra.file("old/file", 10);
    extra.dir("old/empty");
    extra.link("link", "/etc");
    extra.file("big", 100);
    let run = haul(&scene, "sync").arg("--json").arg(slash(source.path())).arg(sftp(&copy));
    let run = summary(&run.finish().expect_success());
    assert_eq!(run.of("removed"), 4, "{run:?}");
    assert_same_tree(source.path(), &copy);
    assert!(Path::new("/etc/passwd").exists());
}

fn verify_and_hash_read_the_destination_as_it_is() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[9 << 20], 200);
    let copy = scene.join("dst");
    let _ = push(&scene, source.path(), &copy).finish().expect_success();
    let verify = || haul(&scene, "verify").arg(slash(source.path())).arg(sftp(&copy)).finish();
    let _ = verify().expect_success();
    let hash = haul(&scene, "hash").arg(sftp(&copy)).finish().expect_success();
    let list = scene.join("list");
    fs::write(&list, &hash.stdout).unwrap();
    tool(Command::new("b3sum").args(["--check", "--quiet"]).arg(&list).current_dir(source.path()));
    let mut bytes = fs::read(copy.join("big/0.ibd")).unwrap();
    bytes[5 << 20] ^= 1;
    fs::write(copy.join("big/0.ibd"), bytes).unwrap();
    let _ = verify().expect_code(3);
    // By digest, the same length and time do not hide it.
    source.time("big/0.ibd", 1_234_567_890, 0);
    haul_testkit::tree::set_time(&copy.join("big/0.ibd"), 1_234_567_890, 0);
    let run = summary(&push(&scene, source.path(), &copy).arg("-c").finish().expect_success());
    assert_eq!(run.of("copied"), 1, "{run:?}");
    assert_eq!(differences(source.path(), &copy, &["--omit-dir-times"]), "");
}

fn no_path_leads_out_through_a_link() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 0);
    source.file("a/b/file", 100);
    source.file("a/b/big", 5 << 20);
    source.file("c", 100);
    whole_seconds(&source);
    let outside = scene.tree("outside");
    outside.file("c", 7);
    let (copy, before) = (scene.join("dst"), fingerprint(outside.path()));
    fs::create_dir_all(copy.join("a")).unwrap();
    std::os::unix::fs::symlink(outside.path(), copy.join("a/b")).unwrap();
    std::os::unix::fs::symlink(outside.join("c"), copy.join("c")).unwrap();
    let _ = push(&scene, source.path(), &copy).finish().expect_success();
    assert_same_tree(source.path(), &copy);
    assert!(before == fingerprint(outside.path()), "nothing outside was touched");
}

fn a_server_without_sftp_is_told() {
    let options = SshdOptions { force_command: Some("/bin/false".to_owned()), ..SshdOptions::default() };
    let scene = Scene::with_sshd(options);
    let source = plain(&scene, "src", &[], 10);
    let run = push(&scene, source.path(), &scene.join("dst")).finish().expect_code(4);
    assert!(run.said().contains("SFTP"), "{run}");
    scene.assert_all_gone();
}

fn changed_files_are_replaced_whole() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[9 << 20], 20);
    let copy = scene.join("dst");
    let _ = push(&scene, source.path(), &copy).finish().expect_success();
    let linked = scene.join("linked");
    fs::hard_link(copy.join("small/0000/0000001.txt"), &linked).unwrap();
    let old = fs::read(&linked).unwrap();
    source.text("small/0000/0000001.txt", "other");
    source.file("big/0.ibd", 5 << 20);
    // A directory takes the place of a file, a file that of an empty directory, a link that of a file.
    fs::remove_file(source.join("small/0000/0000002.txt")).unwrap();
    source.file("small/0000/0000002.txt/inside", 5);
    fs::remove_file(source.join("small/0000/0000003.txt")).unwrap();
    source.link("small/0000/0000003.txt", "elsewhere");
    fs::remove_file(copy.join("small/0000/0000004.txt")).unwrap();
    fs::create_dir(copy.join("small/0000/0000004.txt")).unwrap();
    whole_seconds(&source);
    let run = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    run.assert_accounted();
    assert_same_tree(source.path(), &copy);
    assert_eq!(fs::read(&linked).unwrap(), old, "other names of a file keep the old content");
    assert_eq!(content_len(&copy), content_len(source.path()));
}

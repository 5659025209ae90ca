//! SMB shares, at a real Samba server. rsync and smbclient judge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use haul_testkit::compare::assert_no_debris;
use haul_testkit::needs::tool;
use haul_testkit::smbd::{PASSWORD, SHARE, STRANGER, USER};
use haul_testkit::{
    CommandRun, FileSystem, FlippedFrame, Flow, Need, SmbRelay, Smbd, SmbdOptions, TestMount, TestTree,
};
use rustix::process::Signal;

use crate::kills::{durable, staged};
use crate::scene::{Scene, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("smbd"), Need::Program("smbclient");
        a_tree_goes_to_a_share_and_back_and_a_second_run_has_nothing_to_do,
        a_share_is_copied_to_another_one,
        sync_removes_extra_entries_and_a_dry_run_changes_nothing,
        a_new_small_file_is_one_frame,
        a_second_run_asks_by_directory,
        a_killed_copy_goes_on_where_it_was,
        a_server_that_starts_again_costs_a_pause,
        a_flipped_byte_is_found_by_the_signature,
        a_wrong_password_is_tried_once,
        who_cannot_log_in_is_told_why_in_one_line,
        a_password_is_no_part_of_a_command_line,
        everything_is_encrypted_on_request_or_if_the_server_demands_it,
        names_that_smb_cannot_hold_fail_or_are_mapped,
        names_that_windows_reserves_fail_or_are_mapped,
        one_of_two_names_that_differ_in_case_is_refused,
        a_full_disk_of_the_server_is_told,
        files_that_may_not_be_changed_are_replaced_and_removed,
        hidden_files_stay_hidden,
    ]
}

/// A scene with a server, whose share is the directory `share` of the scene.
pub(crate) struct Shares {
    pub(crate) scene: Scene,
    pub(crate) server: Smbd,
}

impl Shares {
    pub(crate) fn new() -> Self {
        Self::with(&SmbdOptions::default())
    }

    pub(crate) fn with(options: &SmbdOptions) -> Self {
        let scene = Scene::new();
        fs::create_dir(scene.join("share")).unwrap();
        let server = Smbd::start(&scene.join("share"), options);
        Self { scene, server }
    }

    /// The program with its first word and the password.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        self.scene.haul(word).arg("--smb-credentials").arg(self.server.credentials())
    }

    pub(crate) fn copy(
        &self,
        from: impl AsRef<std::ffi::OsStr>,
        to: impl AsRef<std::ffi::OsStr>,
    ) -> CommandRun {
        self.haul("copy").arg("--json").arg(from).arg(to)
    }

    /// The directory of a path on the share.
    pub(crate) fn disk(&self, path: &str) -> PathBuf {
        self.scene.join("share").join(path)
    }

    /// The output of smbclient.
    pub(crate) fn smbclient(&self, words: &str) -> String {
        self.smbclient_of("smbclient", words)
    }

    /// The output of a program like smbclient.
    pub(crate) fn smbclient_of(&self, program: &str, words: &str) -> String {
        let mut command = Command::new(program);
        command.arg(format!("//127.0.0.1/{SHARE}")).args(["-p", &self.server.port().to_string()]);
        command.arg("-s").arg(self.server.config()).arg("-A").arg(self.server.credentials());
        tool(command.args(["-c", words]))
    }
}

/// The differences in content and times that rsync finds.
fn differences(original: &Path, copy: &Path) -> String {
    let mut rsync = Command::new("rsync");
    rsync.args(["-nric", "--times", "--delete"]).arg(slash(original)).arg(slash(copy));
    tool(&mut rsync)
}

pub(crate) fn assert_same(original: &Path, copy: &Path) {
    assert_eq!(differences(original, copy), "", "{} is not {}", copy.display(), original.display());
    assert_no_debris(copy);
}

/// A tree of entries that a share can keep, with times of 100 ns.
fn plain(scene: &Scene, name: &str) -> TestTree {
    let tree = scene.tree(name);
    tree.many("many", 300, 0..5000);
    tree.dir("empty/dir");
    tree.file("deep/er/large", 9_000_001);
    tree.text("deep/\u{e9}t\u{e9} \u{4e2d}.txt", "words");
    tree.text("nothing", "");
    for name in ["deep/er/large", "nothing", "many", "empty/dir", ""] {
        tree.time(name, 1_600_000_000, 123_456_700);
    }
    tree
}

fn a_tree_goes_to_a_share_and_back_and_a_second_run_has_nothing_to_do() {
    let shares = Shares::new();
    let tree = plain(&shares.scene, "src");
    let (at, copy) = (shares.server.at("a/b/"), shares.disk("a/b"));
    let first = summary(&shares.copy(slash(tree.path()), &at).finish().expect_success());
    first.assert_accounted();
    assert_same(tree.path(), &copy);
    let time = fs::metadata(copy.join("nothing")).unwrap().modified().unwrap();
    assert_eq!(time, fs::metadata(tree.join("nothing")).unwrap().modified().unwrap(), "to 100 ns");
    assert!(shares.smbclient("ls a/b/deep/er/large").contains("9000001"));
    let second = summary(&shares.copy(slash(tree.path()), &at).finish().expect_success());
    assert_eq!(second.of("sent_bytes"), 0, "{second:?}");
    let back = shares.scene.join("back");
    shares.copy(&at, slash(&back)).finish().expect_success();
    assert_same(tree.path(), &back);
    shares.haul("verify").arg(slash(tree.path())).arg(&at).finish().expect_success();
    let hash = |run: CommandRun| {
        let mut lines: Vec<String> = run.finish().expect_success().out().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (here, there) =
        (hash(shares.haul("hash").arg(slash(tree.path()))), hash(shares.haul("hash").arg(&at)));
    assert_eq!(here, there);
    fs::write(copy.join("deep/er/large"), vec![0; 9_000_001]).unwrap();
    shares.haul("verify").arg(slash(tree.path())).arg(&at).finish().expect_code(3);
    let listed = shares.haul("ls").arg(&at).finish().expect_success().out();
    assert!(listed.contains("nothing") && listed.contains("deep"), "{listed}");
}

fn a_share_is_copied_to_another_one() {
    let shares = Shares::new();
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.many("many", 50, 0..9000);
    tree.file("large", 9_000_000);
    shares.copy(shares.server.at("src/"), shares.server.at("dst/")).finish().expect_success();
    assert_same(tree.path(), &shares.disk("dst"));
}

fn sync_removes_extra_entries_and_a_dry_run_changes_nothing() {
    let shares = Shares::new();
    let tree = plain(&shares.scene, "src");
    let at = shares.server.at("dst/");
    shares.copy(slash(tree.path()), &at).finish().expect_success();
    let gone = TestTree::new(shares.disk("dst"), 1);
    gone.text("old/deep/file", "x");
    gone.text("many/old", "x");
    fs::remove_file(tree.join("nothing")).unwrap();
    let dry = shares.haul("sync").args(["-n", "--max-delete", "10"]).arg(slash(tree.path())).arg(&at);
    dry.finish().expect_success();
    assert!(gone.join("old/deep/file").exists() && gone.join("nothing").exists());
    let sync = shares.haul("sync").args(["--max-delete", "10"]).arg(slash(tree.path())).arg(&at);
    sync.finish().expect_success();
    assert_same(tree.path(), gone.path());
}

fn a_new_small_file_is_one_frame() {
    let shares = Shares::new();
    let frames = |count: u32| {
        let tree = shares.scene.tree(&format!("src{count}"));
        (0..count).for_each(|number| drop(tree.text(format!("dir/{number}"), vec![7; 3000])));
        let relay = SmbRelay::start(shares.server.port(), None, "");
        let at = format!("smb://{USER}@127.0.0.1:{}/{SHARE}/dst{count}/", relay.port());
        let run = shares.copy(slash(tree.path()), &at).args(["--streams", "1"]);
        run.finish().expect_success();
        assert_same(tree.path(), &shares.disk(&format!("dst{count}")));
        relay.frames()
    };
    let (few, many) = (frames(100), frames(600));
    eprintln!("{few} frames for 100 new files, {many} for 600");
    assert!((490..=515).contains(&(many - few)), "{few} and {many}");
}

fn a_second_run_asks_by_directory() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    (0..20).for_each(|dir| tree.many(format!("dir{dir}"), 100, 0..10));
    shares.copy(slash(tree.path()), shares.server.at("dst/")).finish().expect_success();
    let relay = SmbRelay::start(shares.server.port(), None, "");
    let at = format!("smb://{USER}@127.0.0.1:{}/{SHARE}/dst/", relay.port());
    let run = summary(&shares.copy(slash(tree.path()), &at).finish().expect_success());
    assert_eq!(run.of("sent_bytes"), 0);
    eprintln!("{} frames for 2,000 files in 20 directories", relay.frames());
    assert!(relay.frames() <= 3 * 41 + 8, "{} frames", relay.frames());
}

fn a_killed_copy_goes_on_where_it_was() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    let len = 64 << 20;
    tree.file("huge", len);
    tree.many("many", 100, 0..2000);
    let at = shares.server.at("dst/");
    let mut run = shares.copy(slash(tree.path()), &at).args(["--bwlimit", "25M"]).start();
    let copy = shares.disk("dst");
    run.wait_until("some slices are recorded", || durable(&copy) > len / 4);
    run.signal(Signal::KILL);
    let _ = run.finish();
    assert!(!copy.join("huge").exists(), "the final name is for what is whole");
    let again = summary(&shares.copy(slash(tree.path()), &at).finish().expect_success());
    assert!(again.of("resumed_bytes") > len / 5, "{again:?}");
    assert_same(tree.path(), &copy);
    assert!(staged(&copy, ".part").is_empty() && staged(&copy, ".journal").is_empty());
}

fn a_server_that_starts_again_costs_a_pause() {
    for up in [true, false] {
        let mut shares = Shares::new();
        let tree = if up { shares.scene.tree("src") } else { TestTree::new(shares.disk("src"), 1) };
        tree.file("huge", 50 << 20);
        tree.many("many", 2000, 0..2000);
        let (from, to, copy) = if up {
            (slash(tree.path()), shares.server.at("dst/").into(), shares.disk("dst"))
        } else {
            (shares.server.at("src/").into(), slash(&shares.scene.join("dst")), shares.scene.join("dst"))
        };
        let mut run = shares.copy(from, to).args(["--bwlimit", "20M"]).start();
        run.wait_until("it is under way", || haul_testkit::tree::content_len(&copy) > 10 << 20);
        shares.server.restart();
        run.finish().expect_success();
        assert_same(tree.path(), &copy);
    }
}

fn a_flipped_byte_is_found_by_the_signature() {
    let up = |number| FlippedFrame::Number(Flow::Up, number);
    let down = |number| FlippedFrame::Number(Flow::Down, number);
    for flipped in [up(30), down(30), up(55), down(56), FlippedFrame::Long(1 << 20)] {
        let shares = Shares::new();
        let tree = shares.scene.tree("src");
        tree.many("many", 100, 1000..4000);
        tree.file("large", 9_000_000);
        let relay = SmbRelay::start(shares.server.port(), Some(flipped), "");
        let at = format!("smb://{USER}@127.0.0.1:{}/{SHARE}/dst/", relay.port());
        let run = shares.copy(slash(tree.path()), &at).args(["--streams", "1"]).finish().expect_success();
        let is_down = matches!(flipped, FlippedFrame::Number(Flow::Down, _));
        assert!(run.said().contains("was lost") || !is_down, "{flipped:?}: {}", run.said());
        assert!(relay.has_flipped(), "{flipped:?}: the frame came by");
        assert_same(tree.path(), &shares.disk("dst"));
    }
}

fn a_wrong_password_is_tried_once() {
    let shares = Shares::new();
    let tree = plain(&shares.scene, "src");
    let wrong = shares.server.credentials_of(USER, "wrong");
    let run = shares.scene.haul("copy").arg("--smb-credentials").arg(wrong);
    let run = run.arg(slash(tree.path())).arg(shares.server.at("dst/")).finish().expect_code(4);
    assert!(run.err().contains("does not accept this user with this password"), "{}", run.err());
    assert_eq!(shares.server.logged("NT_STATUS_WRONG_PASSWORD"), 1, "{}", shares.server.log());
    assert!(!run.said().contains("wrong\n"), "{}", run.said());
    assert!(!shares.disk("dst").exists());
}

fn who_cannot_log_in_is_told_why_in_one_line() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    tree.text("file", "x");
    let port = shares.server.port();
    let said = |at: String, credentials: PathBuf, code: i32| {
        let begun = Instant::now();
        let run = shares.scene.haul("copy").arg("--smb-credentials").arg(credentials);
        let run = run.arg(slash(tree.path())).arg(at).finish().expect_code(code);
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        run.err()
    };
    let me = shares.server.credentials();
    let unknown = said(format!("smb://127.0.0.1:{port}/nothing/x"), me.clone(), 4);
    assert!(unknown.contains("no share of this name"), "{unknown}");
    let closed = said("smb://127.0.0.1:1/disk/x".to_owned(), me.clone(), 4);
    assert!(closed.contains("Connection refused"), "{closed}");
    let stranger = shares.server.credentials_of(STRANGER, PASSWORD);
    let denied = said(format!("smb://127.0.0.1:{port}/{SHARE}/x"), stranger, 4);
    assert!(denied.contains("may not use this share"), "{denied}");
    let other = said(format!("smb://other@127.0.0.1:{port}/{SHARE}/x"), me.clone(), 2);
    assert!(other.contains("another user"), "{other}");
    fs::set_permissions(&me, fs::Permissions::from_mode(0o644)).unwrap();
    let open = said(shares.server.at("x"), me, 2);
    assert!(open.contains("others can read"), "{open}");
    let none = shares.scene.haul("copy").arg(slash(tree.path())).arg(shares.server.at("x"));
    assert!(none.finish().expect_code(4).err().contains("--smb-credentials"));
}

fn a_password_is_no_part_of_a_command_line() {
    let scene = Scene::new();
    let run = scene.haul("copy").args(["smb://me:secret@127.0.0.1/share/x", "dst"]).finish().expect_code(2);
    assert!(run.err().contains("--smb-credentials"), "{}", run.err());
}

fn everything_is_encrypted_on_request_or_if_the_server_demands_it() {
    let options = |line: &str| SmbdOptions { global: vec![line.to_owned()], ..SmbdOptions::default() };
    let words = "the words that nobody may read on the way";
    for (line, asked, seen) in [
        ("server smb encrypt = default", false, Some(true)),
        ("server smb encrypt = default", true, Some(false)),
        ("server smb encrypt = required", false, Some(false)),
        ("server smb encrypt = off", true, None),
        ("server smb3 encryption algorithms = AES-256-GCM, AES-128-GCM", true, Some(false)),
        ("server smb3 encryption algorithms = AES-256-GCM", false, Some(true)),
        ("server smb3 encryption algorithms = AES-256-GCM", true, None),
    ] {
        let shares = Shares::with(&options(line));
        let tree = shares.scene.tree("src");
        tree.text("file", words);
        let relay = SmbRelay::start(shares.server.port(), None, words);
        let at = format!("smb://{USER}@127.0.0.1:{}/{SHARE}/dst/", relay.port());
        let run = shares.copy(slash(tree.path()), at).args(asked.then_some("--smb-encrypt")).finish();
        match seen {
            Some(seen) => {
                run.expect_success();
                assert_eq!(relay.has_seen_words(), seen, "{line} {asked}");
                assert_same(tree.path(), &shares.disk("dst"));
            }
            None => assert!(run.expect_code(4).said().contains("does not encrypt")),
        }
    }
}

fn names_that_smb_cannot_hold_fail_or_are_mapped() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    for name in ["good", "a:b", "what?", "end.", "tab\there", "dir:/file", "back\\slash"] {
        tree.text(name, name);
    }
    let at = shares.server.at("dst/");
    let run = shares.haul("copy").arg(slash(tree.path())).arg(&at).finish().expect_code(1);
    for name in ["a:b", "what?", "end.", "dir:"] {
        assert!(run.err().contains(name) && run.err().contains("SMB has no place"), "{}", run.err());
    }
    assert_eq!(fs::read_dir(shares.disk("dst")).unwrap().count(), 1, "the others are not renamed silently");
    let map = |word: &str| shares.haul(word).arg("--smb-map-names");
    map("copy").arg(slash(tree.path())).arg(&at).finish().expect_success();
    let back = shares.scene.join("back");
    map("copy").arg(&at).arg(slash(&back)).finish().expect_success();
    assert_same(tree.path(), &back);
    assert!(shares.disk("dst/a\u{f022}b").exists(), "as mount.cifs and macOS write it");
}

fn names_that_windows_reserves_fail_or_are_mapped() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    let reserved = ["CON", "aux.c", "nul.txt", "LPT1", "COM1.txt", "prn/file", "lock$"];
    for name in ["good", "console"].into_iter().chain(reserved) {
        tree.text(name, name);
    }
    let at = shares.server.at("dst/");
    for _ in 0..3 {
        let run = shares.haul("sync").arg(slash(tree.path())).arg(&at).finish().expect_code(1);
        for name in reserved {
            assert!(run.err().contains(name.trim_end_matches("/file")), "{name}: {}", run.err());
        }
        assert!(run.err().contains("reserves") && run.err().contains("--smb-map-names"), "{}", run.err());
        assert_eq!(fs::read_dir(shares.disk("dst")).unwrap().count(), 2, "nothing has a made-up name");
    }
    let map = |word: &str| shares.haul(word).arg("--smb-map-names");
    for _ in 0..3 {
        map("sync").arg(slash(tree.path())).arg(&at).finish().expect_success();
    }
    let back = shares.scene.join("back");
    map("copy").arg(&at).arg(slash(&back)).finish().expect_success();
    assert_same(tree.path(), &back);
    assert!(shares.disk("dst/\u{f061}ux.c").exists());
}

fn one_of_two_names_that_differ_in_case_is_refused() {
    for len in [10_u64, 5_000_000] {
        let shares = Shares::new();
        let tree = shares.scene.tree("src");
        tree.file("Name", len);
        tree.file("name", len + 1);
        let at = shares.server.at("dst/");
        let run = shares.haul("copy").arg(slash(tree.path())).arg(&at).finish().expect_code(1);
        assert!(run.err().contains("same one"), "{}", run.err());
        let names: Vec<_> =
            fs::read_dir(shares.disk("dst")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let same = |name: &std::ffi::OsString| fs::read(tree.join(name)).unwrap();
        assert!(fs::read(shares.disk("dst").join(&names[0])).unwrap() == same(&names[0]), "neither is mixed");
    }
}

fn a_full_disk_of_the_server_is_told() {
    let disk = TestMount::new(FileSystem::Tmpfs, 12 << 20);
    let scene = Scene::new();
    let server = Smbd::start(disk.path(), &SmbdOptions::default());
    let tree = scene.tree("src");
    (0..8).for_each(|number| drop(tree.file(format!("file{number}"), 3 << 20)));
    let run = scene.haul("copy").arg("--smb-credentials").arg(server.credentials());
    let run = run.args(["--on-full", "fail"]).arg(slash(tree.path())).arg(server.at("dst/")).finish();
    let run = run.expect_code(5);
    assert!(run.err().contains("No space left"), "{}", run.err());
    for name in fs::read_dir(disk.join("dst")).unwrap().map(|entry| entry.unwrap().file_name()) {
        let whole = fs::metadata(disk.join("dst").join(&name)).unwrap().len() == 3 << 20;
        assert!(whole || name.as_encoded_bytes().starts_with(b".haul"), "{name:?} is not whole");
    }
}

fn files_that_may_not_be_changed_are_replaced_and_removed() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    for (name, len) in [("small", 100_u64), ("large", 5_000_000), ("gone", 100)] {
        let path = tree.file(name, len);
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    let at = shares.server.at("dst/");
    shares.haul("copy").arg(slash(tree.path())).arg(&at).finish().expect_success();
    assert!(shares.smbclient("allinfo dst/small").contains("attributes: R"), "it may not be changed there");
    let back = shares.scene.join("back");
    shares.haul("copy").arg(&at).arg(slash(&back)).finish().expect_success();
    assert_eq!(fs::metadata(back.join("small")).unwrap().permissions().mode() & 0o222, 0);
    for name in ["small", "large"] {
        fs::remove_file(tree.join(name)).unwrap();
        tree.text(name, vec![7; if name == "small" { 200 } else { 6_000_000 }]);
    }
    fs::remove_file(tree.join("gone")).unwrap();
    shares
        .haul("sync")
        .args(["--max-delete", "5"])
        .arg(slash(tree.path()))
        .arg(&at)
        .finish()
        .expect_success();
    assert_same(tree.path(), &shares.disk("dst"));
}

fn hidden_files_stay_hidden() {
    let shares = Shares::new();
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("seen", "x");
    tree.text("secret", "x");
    let _told = shares.smbclient("setmode src/secret +hs");
    let back = shares.scene.join("back");
    shares.haul("copy").arg(shares.server.at("src/")).arg(slash(&back)).finish().expect_success();
    let mut getfattr = Command::new("getfattr");
    let kept = tool(getfattr.args(["--only-values", "-n", "user.smb.attributes"]).arg(back.join("secret")));
    assert_eq!(kept, "hidden,system");
    shares.haul("copy").arg(slash(&back)).arg(shares.server.at("again/")).finish().expect_success();
    assert!(shares.smbclient("allinfo again/secret").contains("attributes: HSA"));
    assert!(shares.smbclient("allinfo again/seen").contains("attributes: A"));
}

//! More functions on SMB shares: files that others have open, removal, streams, buckets, passwords, odd servers.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use haul_testkit::smbd::{PASSWORD, USER};
use haul_testkit::terminal::Terminal;
use haul_testkit::tree::list;
use haul_testkit::{CommandRun, Finished, Need, SmbLock, SmbdOptions, TestTree, content};

use crate::scene::{HAUL, slash, summary};
use crate::smb::{Shares, assert_same};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("smbd"), Need::Program("smbclient");
        a_file_that_another_program_has_open_is_tried_again_at_the_end,
        a_file_that_stays_open_is_named_with_a_kind_of_its_own,
        a_file_open_elsewhere_at_the_destination_stays_as_it_is,
        messages_about_shares_fit_the_request,
        times_of_a_share_are_compared_as_it_keeps_them,
        a_name_that_changed_its_case_stays_on_a_share,
        a_name_that_the_server_takes_for_an_unknown_one_removes_nothing,
        files_and_directories_of_a_share_are_removed_by_name,
        a_stream_becomes_a_file_of_a_share_and_comes_back,
        a_producer_that_fails_leaves_no_file_on_a_share,
        a_password_comes_from_the_variables_of_mount_cifs,
        a_guest_session_for_an_account_is_refused,
        an_old_dialect_works_signed_or_is_refused_by_name,
        a_server_that_grants_few_credits_is_slow_and_no_more,
    ];
    all.extend(cases![
        Need::Root, Need::Program("smbd"), Need::Program("smbclient"), Need::Program("script");
        a_password_is_asked_for_once_and_never_shown,
    ]);
    all.extend(cases![
        Need::Root, Need::Program("smbd"), Need::Program("weed"), Need::Program("rclone");
        a_share_is_copied_to_a_bucket_and_back,
    ]);
    all
}

fn with(line: &str) -> Shares {
    Shares::with(&SmbdOptions { global: vec![line.to_owned()], ..SmbdOptions::default() })
}

/// A tree on the share.
fn on_share(shares: &Shares) -> TestTree {
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.many("many", 30, 0..3000);
    tree.text("held", "words");
    tree.file("large", 9_000_000);
    tree
}

fn a_file_that_another_program_has_open_is_tried_again_at_the_end() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    let locks = [SmbLock::new(&shares.server, "src/held"), SmbLock::new(&shares.server, "src/large")];
    let back = shares.scene.join("back");
    let run = shares.copy(shares.server.at("src/"), slash(&back)).args(["--retries", "60"]);
    let mut run = run.args(["--retry-wait", "1s"]).start();
    run.wait_until("the other files are there", || {
        let len = haul_testkit::tree::content_len;
        back.join("many").exists() && len(&back.join("many")) == len(&tree.join("many"))
    });
    assert!(!back.join("held").exists());
    drop(locks);
    let end = run.finish().expect_success();
    assert!(end.said().contains("have 2 files open"), "{}", end.said());
    summary(&end).assert_accounted();
    assert_same(tree.path(), &back);
}

/// The failures that a run reports.
fn failures(run: &Finished) -> Vec<String> {
    let events = crate::scene::events(run);
    let failed = events.iter().filter(|event| event["type"] == "failed");
    failed.map(|event| format!("{} {}", event["error"]["kind"].as_str().unwrap(), event["path"])).collect()
}

fn a_file_that_stays_open_is_named_with_a_kind_of_its_own() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    let lock = SmbLock::new(&shares.server, "src/held");
    let back = shares.scene.join("back");
    let copy = |words: &[&str]| shares.copy(shares.server.at("src/"), slash(&back)).args(words).finish();
    let begun = Instant::now();
    let run = copy(&["--retries", "2", "--retry-wait", "1s"]).expect_code(1);
    assert!(begun.elapsed() > Duration::from_secs(2));
    assert_eq!(failures(&run), ["locked \"held\""], "{}", run.out());
    assert!(run.out().contains("another program has it open"), "{}", run.out());
    let begun = Instant::now();
    assert_eq!(failures(&copy(&["--retries", "0"]).expect_code(1)).len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(2), "nothing waits");
    drop(lock);
    copy(&[]).expect_success();
    assert_same(tree.path(), &back);
}

fn a_file_open_elsewhere_at_the_destination_stays_as_it_is() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    tree.text("held", "new words");
    tree.file("large", 9_000_000);
    let there = TestTree::new(shares.disk("dst"), 1);
    for name in ["held", "large", "extra"] {
        there.text(name, "old");
    }
    let locks = ["held", "large", "extra"].map(|name| SmbLock::new(&shares.server, &format!("dst/{name}")));
    let sync = |words: &[&str]| {
        let run = shares.haul("sync").args(["--json", "--max-delete", "5"]).args(words);
        run.arg(slash(tree.path())).arg(shares.server.at("dst/")).finish()
    };
    let run = sync(&["--retries", "1", "--retry-wait", "1s"]).expect_code(1);
    let mut failed = failures(&run);
    failed.sort();
    assert_eq!(failed, ["locked \"extra\"", "locked \"held\"", "locked \"large\""], "{}", run.out());
    for name in ["held", "large", "extra"] {
        assert_eq!(fs::read(there.join(name)).unwrap(), b"old", "{name}");
    }
    drop(locks);
    sync(&[]).expect_success();
    assert_same(tree.path(), there.path());
}

fn messages_about_shares_fit_the_request() {
    let shares = Shares::new();
    TestTree::new(shares.disk("src"), 1).text("foo", "words");
    let stat = shares.haul("stat").arg(shares.server.at("src/foo")).finish().expect_success();
    assert!(!stat.said().contains("owner-by-name"), "{}", stat.said());
    let listed = shares.haul("ls").arg(shares.server.at("src/foo/")).finish().expect_success();
    assert!(listed.out().trim_end().ends_with(" foo"), "{:?}", listed.out());
    let tree = shares.scene.tree("names");
    tree.text(std::ffi::OsStr::from_bytes(b"no\xfftext"), "");
    let run =
        shares.haul("copy").arg(slash(tree.path())).arg(shares.server.at("dst/")).finish().expect_code(1);
    assert!(run.err().contains("UTF-8") && !run.err().contains("--smb-map-names"), "{}", run.err());
    tree.text("a|b", "");
    let run =
        shares.haul("copy").arg(slash(tree.path())).arg(shares.server.at("dst/")).finish().expect_code(1);
    assert!(run.err().contains("the character |") && run.err().contains("--smb-map-names"), "{}", run.err());
    let none = shares.scene.haul("ls").arg(shares.server.at("")).finish().expect_code(4);
    assert!(none.err().contains("log in to"), "{}", none.err());
}

fn times_of_a_share_are_compared_as_it_keeps_them() {
    let shares = Shares::new();
    let tree = shares.scene.tree("src");
    for (at, name) in (0..).zip(["one", "two", "dir/three", "large"]) {
        tree.file(name, if name == "large" { 5_000_000 } else { 100 });
        tree.time(name, 1_600_000_000 + at, 123_456_701 + 13 * at as u32);
    }
    tree.time("dir", 1_600_000_000, 999_999_999);
    shares.copy(slash(tree.path()), shares.server.at("dst/")).finish().expect_success();
    let verify = || shares.haul("verify").arg(shares.server.at("dst/")).arg(slash(tree.path())).finish();
    verify().expect_success();
    let back = |words: &[&str]| {
        let run = shares.copy(shares.server.at("dst/"), slash(tree.path())).args(words).finish();
        summary(&run.expect_success())
    };
    for words in [&["-n"][..], &[]] {
        let run = back(words);
        assert_eq!(run.of("same"), run.of("found"), "{run:?}");
    }
    tree.time("one", 1_600_000_000, 123_456_801);
    verify().expect_code(1);
    let run = back(&[]);
    assert_eq!(run.of("found") - run.of("same"), 1, "100 ns later is later: {run:?}");
}

fn on_share_with(line: &str) -> Shares {
    Shares::with(&SmbdOptions { share: vec![line.to_owned()], ..SmbdOptions::default() })
}

fn sync(shares: &Shares, tree: &TestTree) -> CommandRun {
    let run = shares.haul("sync").args(["--json", "--force-delete"]);
    run.arg(slash(tree.path())).arg(shares.server.at("dst/"))
}

/// The names in the copy, in lower case.
fn names(shares: &Shares) -> Vec<String> {
    let mut names: Vec<String> =
        list(&shares.disk("dst")).into_iter().map(|path| path.to_string_lossy().to_lowercase()).collect();
    names.sort();
    names
}

fn a_name_that_changed_its_case_stays_on_a_share() {
    for (line, folds) in [("case sensitive = auto", true), ("case sensitive = yes", false)] {
        let shares = on_share_with(line);
        let tree = shares.scene.tree("src");
        for (name, len) in
            [("Foo", 100_u64), ("Large", 9_000_000), ("Dir/Inside/file", 100), ("Dir/gone", 7), ("gone", 7)]
        {
            tree.file(name, len);
        }
        for (name, to) in [("Same", "same"), ("Empty", "empty")] {
            tree.dir(format!("{name}/{to}"));
        }
        sync(&shares, &tree).finish().expect_success();
        let moves = [
            ("Foo", "foo"),
            ("Large", "LARGE"),
            ("Dir/Inside", "Dir/inside"),
            ("Dir", "dir"),
            ("Same", "same"),
            ("Empty", "EMPTY"),
        ];
        for (from, to) in moves {
            fs::rename(tree.join(from), tree.join(to)).unwrap();
        }
        for name in ["gone", "dir/gone"] {
            fs::remove_file(tree.join(name)).unwrap();
        }
        tree.file("foo", 200);
        tree.file("LARGE", 8_000_000);
        tree.file("dir/new", 5);
        let would = summary(&sync(&shares, &tree).arg("-n").finish().expect_success());
        let did = summary(&sync(&shares, &tree).finish().expect_success());
        for name in ["copied", "removed", "failed"] {
            assert_eq!(would.of(name), did.of(name), "{name}, {line}");
        }
        if folds {
            assert_eq!((did.of("copied"), did.of("removed")), (3, 2), "{line}: {did:?}");
            let all = [
                "dir",
                "dir/inside",
                "dir/inside/file",
                "dir/new",
                "empty",
                "empty/empty",
                "foo",
                "large",
                "same",
                "same/same",
            ];
            assert_eq!(names(&shares), all);
        } else {
            assert_same(tree.path(), &shares.disk("dst"));
        }
        for (name, len) in [("foo", 200), ("large", 8_000_000)] {
            let found = list(&shares.disk("dst"))
                .into_iter()
                .find(|path| path.to_string_lossy().to_lowercase() == name);
            assert_eq!(fs::metadata(shares.disk("dst").join(found.unwrap())).unwrap().len(), len);
        }
        let again = summary(&sync(&shares, &tree).finish().expect_success());
        assert_eq!((again.of("copied"), again.of("removed")), (0, 0), "{line}: {again:?}");
        // Two names of the source: the second one fails, and nothing that is there goes.
        tree.file("FOO", 300);
        tree.file("DIR/inside/file", 300);
        let both = sync(&shares, &tree).finish();
        let both = if folds { both.expect_code(1) } else { both.expect_success() };
        assert!(!folds || both.said().contains("same one"), "{}", both.said());
        assert_eq!(summary(&both).of("removed"), 0, "{line}");
    }
}

fn a_name_that_the_server_takes_for_an_unknown_one_removes_nothing() {
    let shares = on_share_with("mangled names = yes");
    let there = TestTree::new(shares.disk("dst"), 1);
    there.text("inner/a long name.text", "precious");
    let told = shares.smbclient("altname \"dst/inner/a long name.text\"");
    let short = told.trim().rsplit(['\\', '/', ' ']).next().unwrap().to_owned();
    let tree = shares.scene.tree("src");
    tree.text(format!("inner/{short}"), "other");
    let run = sync(&shares, &tree).finish().expect_code(1);
    assert!(run.said().contains("the same one"), "{short}: {}", run.said());
    assert_eq!(fs::read(there.join("inner/a long name.text")).unwrap(), b"precious");
}

fn files_and_directories_of_a_share_are_removed_by_name() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    tree.text("deep/er/file", "x");
    let rm = |words: &[&str], path: &str| shares.haul("rm").args(words).arg(shares.server.at(path)).finish();
    rm(&[], "src/nothing").expect_code(1);
    assert!(rm(&[], "src/deep").expect_code(1).err().contains("-r is not given"));
    assert!(rm(&["-rn"], "src/deep").expect_success().out().contains("src/deep/er/file"));
    assert!(tree.join("deep/er/file").exists() && tree.join("held").exists());
    rm(&[], "src/held").expect_success();
    assert!(!tree.join("held").exists() && tree.join("large").exists());
    let lock = SmbLock::new(&shares.server, "src/deep/er/file");
    assert!(rm(&["-r"], "src/deep").expect_code(1).err().contains("another program has it open"));
    drop(lock);
    rm(&["-r", "--min-size", "1"], "src/many/").expect_success();
    assert!(tree.join("many").exists(), "a directory stays if only some of its files go");
    rm(&["-r"], "src/deep").expect_success();
    assert!(!tree.join("deep").exists());
    rm(&[], "src/lar*").expect_success();
    assert!(!tree.join("large").exists() && tree.path().exists());
    assert!(rm(&["-r"], "").expect_code(2).err().contains("empty the share"));
    assert!(rm(&["--incomplete"], "src/").expect_code(2).err().contains("a share has none"));
}

fn a_stream_becomes_a_file_of_a_share_and_comes_back() {
    let shares = Shares::new();
    for len in [1, 4 << 20, (4 << 20) + 1, 30_000_000] {
        let mut bytes = vec![0; len];
        content::fill(7, 0, &mut bytes);
        for _ in ["new", "replaced"] {
            let at = shares.server.at("stream");
            shares.haul("put").arg(&at).input(&bytes[..]).finish().expect_success();
            assert!(fs::read(shares.disk("stream")).unwrap() == bytes, "{len}");
            let got = shares.haul("get").arg(&at).finish().expect_success();
            assert!(got.stdout == bytes, "{len}");
        }
    }
    assert_eq!(fs::read_dir(shares.disk("")).unwrap().count(), 1, "nothing is left");
}

fn a_producer_that_fails_leaves_no_file_on_a_share() {
    let shares = Shares::new();
    fs::write(shares.disk("stream"), "old").unwrap();
    let script = "head -c 20000000 /dev/urandom; exit 3";
    let run = shares.haul("put").arg(shares.server.at("stream")).args(["--", "sh", "-c", script]).finish();
    assert_ne!(run.code(), Some(0), "{run}");
    assert_eq!(fs::read(shares.disk("stream")).unwrap(), b"old");
    assert_eq!(fs::read_dir(shares.disk("")).unwrap().count(), 1, "nothing is left");
}

fn a_share_is_copied_to_a_bucket_and_back() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    let bucket = TestBucket::new();
    let copy = |from: &str, to: &str| {
        let run = bucket.haul("copy").arg("--smb-credentials").arg(shares.server.credentials());
        run.arg(from).arg(to).finish().expect_success();
    };
    copy(&shares.server.at("src/"), &bucket.at("src/"));
    assert_eq!(bucket.read("src/held"), b"words");
    copy(&bucket.at("src/"), &shares.server.at("back/"));
    assert_same(tree.path(), &shares.disk("back"));
}

fn a_password_comes_from_the_variables_of_mount_cifs() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    let file = shares.scene.join("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let at = shares.server.at("src/").replace(&format!("{USER}@"), "");
    let back = shares.scene.join("back");
    let copy = || shares.scene.haul("copy").arg(&at).arg(slash(&back)).env("USER", USER);
    copy().env("PASSWD", PASSWORD).finish().expect_success();
    copy().env("PASSWD_FILE", &file).finish().expect_success();
    assert_same(tree.path(), &back);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(copy().env("PASSWD_FILE", &file).finish().expect_code(2).err().contains("others can read"));
    copy().env("PASSWD", "wrong").finish().expect_code(4);
    assert_eq!(shares.server.logged("NT_STATUS_WRONG_PASSWORD"), 1);
}

fn a_password_is_asked_for_once_and_never_shown() {
    let shares = Shares::new();
    let tree = on_share(&shares);
    let back = shares.scene.join("back");
    let line = format!(
        "HOME={} {HAUL} copy {} {}",
        shares.scene.home().display(),
        shares.server.at("src/"),
        slash(&back).display()
    );
    for (typed, code) in [("wrong", 4), (PASSWORD, 0)] {
        let mut terminal = Terminal::run(&line, shares.scene.tag());
        terminal.wait_for("Password of root at 127.0.0.1:");
        terminal.type_secret(typed);
        let (ended, screen) = terminal.finish();
        assert_eq!(ended, Some(code), "{screen}");
        assert_eq!(screen.matches("Password of").count(), 1, "{screen}");
    }
    assert_eq!(shares.server.logged("NT_STATUS_WRONG_PASSWORD"), 1);
    assert_same(tree.path(), &back);
}

fn a_guest_session_for_an_account_is_refused() {
    let shares = Shares::with(&SmbdOptions {
        global: vec!["map to guest = Bad User".to_owned(), "guest account = root".to_owned()],
        share: vec!["guest ok = yes".to_owned(), "valid users =".to_owned()],
        ..SmbdOptions::default()
    });
    let tree = on_share(&shares);
    let back = shares.scene.join("back");
    let copy = |user: &str, credentials: bool| -> CommandRun {
        let run = shares.scene.haul("copy");
        let file = shares.server.credentials_of(user, "any");
        let run = if credentials { run.arg("--smb-credentials").arg(file) } else { run };
        run.arg(shares.server.at("src/").replace(USER, user)).arg(slash(&back))
    };
    let run = copy("unknown", true).finish().expect_code(4);
    assert!(run.err().contains("guest session in place of this user"), "{}", run.err());
    assert!(!back.exists());
    copy("guest", false).finish().expect_success();
    assert_same(tree.path(), &back);
}

fn an_old_dialect_works_signed_or_is_refused_by_name() {
    for dialect in ["SMB2_02", "SMB2_10", "SMB3_00"] {
        let shares = with(&format!("server max protocol = {dialect}"));
        let tree = on_share(&shares);
        let back = shares.scene.join("back");
        shares.copy(shares.server.at("src/"), slash(&back)).finish().expect_success();
        assert_same(tree.path(), &back);
        let run = shares.copy(slash(&back), shares.server.at("again/")).finish().expect_success();
        summary(&run).assert_accounted();
        assert_same(tree.path(), &shares.disk("again"));
    }
    let lines = ["server min protocol = NT1", "server max protocol = NT1"].map(str::to_owned).to_vec();
    let shares = Shares::with(&SmbdOptions { global: lines, ..SmbdOptions::default() });
    let run = shares.haul("ls").arg(shares.server.at("")).finish().expect_code(4);
    assert!(
        run.err().contains("does not agree to SMB 2 or 3") && run.err().contains("server max protocol"),
        "{}",
        run.err()
    );
}

fn a_server_that_grants_few_credits_is_slow_and_no_more() {
    let shares = with("smb2 max credits = 16");
    let tree = shares.scene.tree("src");
    tree.many("many", 500, 0..3000);
    tree.file("large", 30_000_000);
    let at = shares.server.at("dst/");
    shares.copy(slash(tree.path()), &at).finish().expect_success();
    assert_same(tree.path(), &shares.disk("dst"));
    let back = shares.scene.join("back");
    shares.copy(&at, slash(&back)).finish().expect_success();
    assert_same(tree.path(), &back);
}

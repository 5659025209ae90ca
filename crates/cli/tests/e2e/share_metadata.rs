//! Metadata of SMB shares that a plain file system has no place for: security descriptors, alternate data streams and
//! times of creation. smbcacls and smbclient judge.

use std::ffi::OsStr;
use std::fs;

use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::smbd::{SHARE, USER};
use haul_testkit::{Need, SmbRelay, SmbdOptions, TestTree};

use crate::scene::{slash, summary};
use crate::smb::Shares;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("smbd"), Need::Program("smbcacls"), Need::Program("getfattr");
        security_descriptors_go_from_share_to_share_and_by_way_of_a_disk,
        audited_accesses_are_kept_if_the_user_may_see_them,
        streams_and_times_of_creation_go_from_share_to_share_and_by_way_of_a_disk,
        streams_that_are_too_long_or_have_no_place_are_told,
        entries_are_opened_with_the_intent_to_back_them_up,
    ]
}

/// The security descriptor of a path on the share, as smbcacls shows it after these words. `relay` has the only port that
/// it knows.
fn smbcacls(shares: &Shares, relay: &SmbRelay, path: &str, words: &[&str]) -> String {
    let mut command = Command::new("smbcacls");
    command.args([&format!("//{}/{SHARE}", relay.host()), path, "--numeric"]);
    command.arg("-s").arg(shares.server.config());
    tool(command.arg("-A").arg(shares.server.credentials()).args(words))
}

fn security_descriptors_go_from_share_to_share_and_by_way_of_a_disk() {
    let shares = Shares::with(&SmbdOptions {
        share: vec!["vfs objects = acl_xattr".to_owned()],
        ..SmbdOptions::default()
    });
    let relay = &SmbRelay::at_usual_port(shares.server.port());
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("small", "x");
    tree.text("plain", "x");
    tree.file("dir/large", 9_000_000);
    let lists = [
        ("small", "ACL:S-1-1-0:ALLOWED/0x0/READ,ACL:S-1-5-18:ALLOWED/0x0/FULL"),
        ("dir", "ACL:S-1-1-0:ALLOWED/OI|CI/FULL,ACL:S-1-5-32-546:DENIED/OI|CI/READ"),
        ("dir/large", "ACL:S-1-5-18:ALLOWED/0x0/FULL,ACL:S-1-1-0:ALLOWED/0x0/CHANGE"),
    ];
    for (name, list) in lists {
        let _told = smbcacls(&shares, relay, &format!("src/{name}"), &["--set", list]);
    }
    let _told = smbcacls(&shares, relay, "src/small", &["-C", "S-1-5-32-544"]);
    let assert_same = |copy: &str| {
        for name in ["small", "plain", "dir", "dir/large"] {
            let [original, copied] =
                ["src", copy].map(|at| smbcacls(&shares, relay, &format!("{at}/{name}"), &[]));
            assert_eq!(copied, original, "{copy}/{name}");
            assert!(original.contains("ACL:"), "{original}");
        }
    };
    let (at, acls) = (|path: &str| shares.server.at(path), "--smb-acls");
    let copy = |from: &str, to: &str| summary(&shares.copy(from, to).arg(acls).finish().expect_success());
    let _first = copy(&at("src/"), &at("dst/"));
    assert_same("dst");
    let verify = || shares.haul("verify").arg(acls).arg(at("src/")).arg(at("dst/")).finish();
    verify().expect_success();
    let second = copy(&at("src/"), &at("dst/"));
    assert_eq!((second.of("updated"), second.of("copied")), (0, 0), "{second:?}");
    for name in ["dst/small", "dst/dir"] {
        let _told = smbcacls(&shares, relay, name, &["--set", "ACL:S-1-1-0:ALLOWED/0x0/FULL"]);
    }
    verify().expect_code(1);
    assert_eq!(copy(&at("src/"), &at("dst/")).of("updated"), 2);
    assert_same("dst");
    let back = shares.scene.join("back");
    let _there = copy(&at("src/"), slash(&back).to_str().unwrap());
    let mut getfattr = Command::new("getfattr");
    let kept = tool(getfattr.args(["-e", "hex", "-n", "user.smb.security"]).arg(back.join("small")));
    assert!(kept.contains("0x0100"), "{kept}");
    let _again = copy(slash(&back).to_str().unwrap(), &at("again/"));
    assert_same("again");
}

/// A descriptor of the group of administrators that allows everybody all, and audits it.
const AUDITED: &str = "0x010014801400000024000000340000005000000001020000000000052000000020020000\
    0102000000000005200000002002000002001c000100000002c01400ff011f00010100000000000100000000\
    02001c000100000000001400ff011f00010100000000000100000000";

fn audited_accesses_are_kept_if_the_user_may_see_them() {
    let shares = Shares::with(&SmbdOptions {
        share: vec!["vfs objects = acl_xattr".to_owned()],
        ..SmbdOptions::default()
    });
    let relay = &SmbRelay::at_usual_port(shares.server.port());
    let tree = TestTree::new(shares.scene.join("src"), 1);
    tree.text("file", "x");
    let mut setfattr = Command::new("setfattr");
    setfattr.args(["-n", "user.smb.security", "-v", AUDITED]).arg(tree.join("file"));
    let _told = tool(&mut setfattr);
    let (at, sacls) = (|path: &str| shares.server.at(path), "--smb-sacls");
    let plain = shares.copy(slash(tree.path()), at("src/")).arg("--smb-acls").finish().expect_success();
    summary(&plain).assert_accounted();
    let refused = shares.copy(at("src/"), at("dst/")).arg(sacls).finish().expect_code(1);
    assert!(refused.said().contains("Permission denied"), "{refused}");
    let mut net = Command::new("net");
    net.arg("-s").arg(shares.server.config()).args(["sam", "rights", "grant", USER, "SeSecurityPrivilege"]);
    let _told = tool(&mut net);
    let copy = |from: &OsStr, to: &str| summary(&shares.copy(from, to).arg(sacls).finish().expect_success());
    assert_eq!(copy(&slash(tree.path()), &at("src/")).of("updated"), 1);
    copy(at("src/").as_ref(), &at("dst/")).assert_accounted();
    let told = |dir: &str| {
        let all = ["--sddl", "--query-security-info", "15"];
        smbcacls(&shares, relay, &format!("{dir}/file"), &all)
    };
    assert!(told("src").contains("S:(AU;SAFA;"), "{}", told("src"));
    assert_eq!(told("dst"), told("src"));
    assert_eq!(copy(at("src/").as_ref(), &at("dst/")).of("updated"), 0);
}

/// A server that keeps streams with this module.
fn with_streams(module: &str) -> Shares {
    Shares::with(&SmbdOptions {
        share: vec![format!("vfs objects = {module}"), "store dos attributes = yes".to_owned()],
        ..SmbdOptions::default()
    })
}

fn streams_and_times_of_creation_go_from_share_to_share_and_by_way_of_a_disk() {
    let shares = with_streams("streams_xattr");
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("small", "content");
    tree.text("plain", "x");
    tree.text("readonly", "x");
    tree.file("dir/large", 9_000_000);
    for name in ["small", "plain", "readonly", "dir/large", "dir"] {
        tree.time(name, 1_600_000_000, 0);
    }
    let content = shares.scene.join("content");
    fs::write(&content, "zone 3").unwrap();
    let put = |at: &str| {
        let _told = shares.smbclient(&format!("put {} \"{at}\"", content.display()));
    };
    for at in
        ["src/small:Zone.Identifier", "src/small:two words", "src/readonly:a", "src/dir/large:b", "src/dir:c"]
    {
        put(at);
    }
    fs::write(&content, "").unwrap();
    put("src/plain:empty");
    // Samba makes up a time of creation for an entry that was created without it, and may change it.
    for name in ["small", "readonly", "dir/large", "dir", ""] {
        let times = "2001:02:03-04:05:06 -1 2002:03:04-05:06:07 -1";
        let _told = shares.smbclient(&format!("utimes src/{name} {times}"));
    }
    let _told = shares.smbclient("setmode src/readonly +r");
    let facts = |dir: &str| -> Vec<String> {
        let named = |name: &str| shares.smbclient(&format!("allinfo {dir}/{name}"));
        let is_kept = |line: &str| {
            ["create_time", "write_time", "attributes", "stream"].iter().any(|w| line.starts_with(w))
        };
        let lines = ["small", "plain", "readonly", "dir", "dir/large"].map(named).join("\n");
        let mut facts: Vec<String> = lines.lines().filter(|line| is_kept(line)).map(str::to_owned).collect();
        facts.sort();
        facts
    };
    let (at, keep) = (|path: &str| shares.server.at(path), ["--smb-streams", "--smb-creation-times"]);
    let copy = |from: &str, to: &str| summary(&shares.copy(from, to).args(keep).finish().expect_success());
    let verify = || shares.haul("verify").args(keep).arg(at("src/")).arg(at("dst/")).finish();
    let _first = copy(&at("src/"), &at("dst/"));
    let original = facts("src");
    assert!(original.iter().any(|line| line.contains(":two words:$DATA")), "{original:?}");
    assert!(original.iter().any(|line| line.contains("2001")), "{original:?}");
    assert_eq!(facts("dst"), original);
    let fetched = shares.scene.join("fetched");
    let _told = shares.smbclient(&format!("get \"dst/dir/large:b\" {}", fetched.display()));
    assert_eq!(fs::read(&fetched).unwrap(), b"zone 3");
    verify().expect_success();
    let second = copy(&at("src/"), &at("dst/"));
    assert_eq!((second.of("updated"), second.of("copied")), (0, 0), "{second:?}");
    // Another content of the same length, a stream too many, and one that is missing.
    fs::write(&content, "zone 4").unwrap();
    put("dst/small:Zone.Identifier");
    put("dst/plain:extra");
    let mut remove = Command::new("setfattr");
    let _told = tool(remove.args(["-x", "user.DosStream.c:$DATA"]).arg(shares.disk("dst/dir")));
    let _told = shares.smbclient("utimes dst/dir/large 2003:02:03-04:05:06 -1 -1 -1");
    let differing = verify().expect_code(1);
    assert!(differing.said().contains("4"), "{differing}");
    let mended = copy(&at("src/"), &at("dst/"));
    mended.assert_accounted();
    assert_eq!(facts("dst"), original);
    verify().expect_success();
    // Without the options nothing of it is copied, and nothing removed.
    let _plain = summary(&shares.copy(at("src/"), at("dst/")).finish().expect_success());
    assert_eq!(facts("dst"), original);
    let back = shares.scene.join("back");
    let _there = copy(&at("src/"), slash(&back).to_str().unwrap());
    let mut getfattr = Command::new("getfattr");
    let kept = tool(getfattr.args(["-d", "-m", "user.smb"]).arg(back.join("small")));
    assert!(kept.contains("user.smb.stream.Zone.Identifier=\"zone 3\""), "{kept}");
    let again = copy(slash(&back).to_str().unwrap(), &at("again/"));
    again.assert_accounted();
    assert_eq!(facts("again"), original);
}

fn streams_that_are_too_long_or_have_no_place_are_told() {
    let shares = with_streams("streams_depot");
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("file", "x");
    tree.text("other", "x");
    let content = shares.scene.join("content");
    fs::write(&content, vec![7; 40_000]).unwrap();
    for name in ["a", "b"] {
        let _told = shares.smbclient(&format!("put {} src/file:{name}", content.display()));
    }
    let back = shares.scene.join("back");
    let run =
        shares.copy(shares.server.at("src/"), slash(&back)).arg("--smb-streams").finish().expect_code(1);
    assert!(run.said().contains("its alternate data streams have 80000 bytes"), "{run}");
    assert!(back.join("other").exists() && !back.join("file").exists());
    let plain = Shares::new();
    let tree = TestTree::new(plain.scene.join("src"), 1);
    tree.text("file", "x");
    for (name, value) in [("user.smb.stream.a", "1"), ("user.smb.stream.b/c", "2")] {
        let _told = tool(Command::new("setfattr").args(["-n", name, "-v", value]).arg(tree.join("file")));
    }
    let run = plain.haul("copy").arg(slash(tree.path())).arg(plain.server.at("dst/"));
    let run = run.arg("--smb-streams").finish().expect_success();
    let told = "alternate data streams could not be set on 1 entry: SMB cannot hold the name";
    assert!(run.err().contains(told), "{run}");
    assert!(plain.disk("dst/file").exists());
}

fn entries_are_opened_with_the_intent_to_back_them_up() {
    let shares =
        Shares::with(&SmbdOptions { global: vec!["log level = 10".to_owned()], ..SmbdOptions::default() });
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("file", "x");
    // FILE_NON_DIRECTORY_FILE and FILE_OPEN_REPARSE_POINT, and with the option FILE_OPEN_FOR_BACKUP_INTENT.
    let opened = |options: &str| shares.server.logged(&format!("create_options = {options}"));
    let copy = |to: &str, more: &[&str]| {
        summary(
            &shares.copy(shares.server.at("src/"), shares.server.at(to)).args(more).finish().expect_success(),
        )
    };
    copy("plain/", &[]).assert_accounted();
    assert!(opened("0x200040") > 0 && opened("0x204040") == 0);
    let before = opened("0x200040");
    copy("intent/", &["--smb-backup-intent"]).assert_accounted();
    assert!(opened("0x204040") > 0 && opened("0x200040") == before);
}

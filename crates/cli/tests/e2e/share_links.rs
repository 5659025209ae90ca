//! Symbolic links and other reparse points of SMB shares, at a real Samba server that keeps them. smbclient judges.

use std::fs;
use std::path::Path;
use std::process::Command;

use haul_testkit::compare::assert_no_debris;
use haul_testkit::needs::tool;
use haul_testkit::smbd::{REPARSE_CLIENT, REPARSE_SMBD};
use haul_testkit::{Need, SmbdOptions, TestTree};

use crate::scene::{slash, summary};
use crate::smb::Shares;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("smbd"), Need::Program(REPARSE_SMBD), Need::Program(REPARSE_CLIENT),
        Need::Program("getfattr");
        links_go_from_a_disk_to_a_share_and_back,
        links_on_a_share_are_replaced_and_removed_and_replace_others,
        reparse_points_go_from_share_to_share_and_are_named_elsewhere,
        safe_links_keeps_only_links_into_the_tree,
        a_reparse_point_that_is_no_link_is_not_replaced,
        a_server_that_makes_no_links_is_told_once,
    ]
}

fn with_links() -> Shares {
    Shares::with(&SmbdOptions { program: Some(REPARSE_SMBD), ..SmbdOptions::default() })
}

/// Links, and entries to which they lead.
fn linked(shares: &Shares) -> TestTree {
    let tree = shares.scene.tree("src");
    tree.text("dir/file", "x");
    tree.many("many", 20, 0..2000);
    for (name, target) in [
        ("file", "dir/file"),
        ("to-dir", "dir"),
        ("dir/up", "../many"),
        ("dir/slash", "../many/"),
        ("dangling", "no/where"),
        ("\u{e9}t\u{e9}", "dir/\u{e9}t\u{e9} \u{4e2d}"),
    ] {
        tree.link(name, target);
    }
    tree
}

/// The differences in content, times and targets that rsync finds.
fn assert_same(original: &Path, copy: &Path) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-nrlic", "--times", "--delete"]).arg(slash(original)).arg(slash(copy));
    assert_eq!(tool(&mut rsync), "", "{} is not {}", copy.display(), original.display());
    assert_no_debris(copy);
}

/// The facts that smbclient tells of an entry.
fn told(shares: &Shares, path: &str) -> String {
    shares.smbclient_of(REPARSE_CLIENT, &format!("allinfo \"{path}\""))
}

/// The target that smbclient tells.
fn target(shares: &Shares, path: &str) -> String {
    let said = told(shares, path);
    assert!(said.contains("IO_REPARSE_TAG_SYMLINK") && said.contains("flags=1"), "{path}: {said}");
    let line = said.lines().find_map(|line| line.strip_prefix("substitute_name="));
    line.unwrap_or_else(|| panic!("{path}: {said}")).to_owned()
}

fn links_go_from_a_disk_to_a_share_and_back() {
    let shares = with_links();
    let tree = linked(&shares);
    let (at, back) = (shares.server.at("dst/"), shares.scene.join("back"));
    let up = || summary(&shares.copy(slash(tree.path()), &at).finish().expect_success());
    let first = up();
    first.assert_accounted();
    for (name, to) in [
        ("file", "dir\\file"),
        ("to-dir", "dir"),
        ("dir/up", "..\\many"),
        ("dir/slash", "..\\many\\"),
        ("dangling", "no\\where"),
        ("\u{e9}t\u{e9}", "dir\\\u{e9}t\u{e9} \u{4e2d}"),
    ] {
        assert_eq!(target(&shares, &format!("dst/{name}")), to);
    }
    assert_no_debris(&shares.disk("dst"));
    let second = up();
    assert_eq!((second.of("updated"), second.of("copied"), second.of("sent_bytes")), (0, 0, 0), "{second:?}");
    shares.haul("verify").arg(slash(tree.path())).arg(&at).finish().expect_success();
    summary(&shares.copy(&at, slash(&back)).finish().expect_success()).assert_accounted();
    assert_same(tree.path(), &back);
    let listed = shares.haul("ls").args(["-l"]).arg(&at).finish().expect_success().out();
    assert!(listed.contains("dangling"), "{listed}");
    shares.haul("rm").arg(shares.server.at("dst/to-dir")).finish().expect_success();
    assert!(!shares.disk("dst/to-dir").exists() && shares.disk("dst/dir/file").exists());

    // A share has no place for these.
    tree.link("absolute", "/etc/hosts");
    tree.link("colon", "a:b");
    let run = shares.haul("copy").arg(slash(tree.path())).arg(&at).finish().expect_success();
    assert!(run.err().contains("symbolic links could not be set on 2 entries"), "{run}");
    assert!(run.err().contains("a share holds only relative ones"), "{run}");
    let followed = shares.haul("copy").arg("-L").arg(&at).arg(slash(&shares.scene.join("followed")));
    let said = followed.finish().expect_code(1).said();
    assert!(
        said.contains("it is a symbolic link, and haul follows none on a share")
            && said.contains("--copy-links"),
        "{said}"
    );
}

fn links_on_a_share_are_replaced_and_removed_and_replace_others() {
    let shares = with_links();
    let tree = linked(&shares);
    tree.text("was/file", "x");
    tree.dir("empty");
    let at = shares.server.at("dst/");
    let sync = |words: &[&str]| {
        let run = shares.haul("sync").arg("--json").args(words).arg(slash(tree.path())).arg(&at).finish();
        summary(&run.expect_success())
    };
    let _first = sync(&[]);
    for name in ["file", "to-dir", "dangling", "dir/up"] {
        fs::remove_file(tree.join(name)).unwrap();
    }
    fs::remove_dir(tree.join("empty")).unwrap();
    fs::remove_file(tree.join("was/file")).unwrap();
    // Another target; a file, a large one and a directory in the place of links; links in the place of others.
    tree.link("file", "dir/other");
    tree.file("dangling", 9_000_000);
    tree.text("dir/up", "a file");
    tree.text("to-dir/file", "in a directory");
    tree.link("empty", "dir");
    tree.link("was/file", "../dir/file");
    fs::remove_file(tree.join("\u{e9}t\u{e9}")).unwrap();
    let dry = sync(&["-n"]);
    assert_eq!(target(&shares, "dst/file"), "dir\\file", "a dry run changes nothing");
    let changed = sync(&[]);
    changed.assert_accounted();
    assert_eq!(dry.of("removed"), changed.of("removed"));
    assert_eq!(target(&shares, "dst/file"), "dir\\other");
    assert_eq!(target(&shares, "dst/empty"), "dir");
    assert_eq!(target(&shares, "dst/was/file"), "..\\dir\\file");
    let back = shares.scene.join("back");
    shares.copy(&at, slash(&back)).finish().expect_success();
    shares.haul("verify").arg(slash(tree.path())).arg(&at).finish().expect_success();
    assert!(!shares.disk("dst/\u{e9}t\u{e9}").exists());
    assert!(fs::symlink_metadata(back.join("dangling")).unwrap().is_file());
    assert!(fs::symlink_metadata(back.join("to-dir")).unwrap().is_dir());
    assert_no_debris(&shares.disk("dst"));
    let again = sync(&[]);
    assert_eq!((again.of("updated"), again.of("copied")), (0, 0), "{again:?}");
}

/// The bytes of a reparse point.
fn point(tag: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = tag.to_le_bytes().to_vec();
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// The data of a junction, or with flags those of a link.
fn names(to: &str, shown: &str, flags: Option<u32>) -> Vec<u8> {
    let [to, shown] =
        [to, shown].map(|name| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    let fields = [0, to.len(), to.len(), shown.len()];
    let mut data: Vec<u8> = fields.into_iter().flat_map(|field| (field as u16).to_le_bytes()).collect();
    data.extend(flags.iter().flat_map(|flags| flags.to_le_bytes()));
    data.extend([to, shown].concat());
    data
}

/// The attribute in which Samba keeps reparse points.
const KEPT: &str = "user.SmbReparse";

/// An attribute on the disk of the server.
fn stored(path: &Path, name: &str) -> String {
    let said = tool(Command::new("getfattr").args(["--absolute-names", "-e", "hex", "-n", name]).arg(path));
    said.split_once('=').unwrap_or_else(|| panic!("{said}")).1.trim().to_owned()
}

fn set(path: &Path, name: &str, value: &str) {
    let _told = tool(Command::new("setfattr").args(["-n", name, "-v", value]).arg(path));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a file of the share a reparse point, on the disk of the server: smbclient makes symbolic links only.
fn make_point(shares: &Shares, path: &str, bytes: &[u8]) {
    shares.smbclient_of(REPARSE_CLIENT, &format!("symlink x \"{path}\""));
    set(&shares.disk(path), KEPT, &format!("0x{}", hex(bytes)));
}

/// The reparse points that are whole.
const WHOLE: [&str; 5] = ["relative", "absolute", "junction", "socket", "fifo"];

fn with_points() -> Shares {
    let shares = with_links();
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("file", "x");
    make_point(&shares, "src/relative", &point(0xA000_000C, &names("file", "shown", Some(1))));
    make_point(&shares, "src/absolute", &point(0xA000_000C, &names("\\??\\C:\\x", "C:\\x", Some(0))));
    make_point(&shares, "src/junction", &point(0xA000_0003, &names("\\??\\C:\\data", "C:\\data", None)));
    make_point(&shares, "src/socket", &point(0x8000_0023, b""));
    make_point(&shares, "src/fifo", &point(0x8000_0014, &0x4F46_4946_u64.to_le_bytes()));
    for name in WHOLE {
        tree.time(name, 1_600_000_000, 0);
    }
    // smbclient would take the attribute of reparse points away.
    let absolute = shares.disk("src/absolute");
    let attributes = stored(&absolute, "user.DOSATTRIB");
    assert!(attributes.contains("20040000"), "{attributes}");
    set(&absolute, "user.DOSATTRIB", &attributes.replacen("20040000", "22040000", 1));
    shares
}

fn reparse_points_go_from_share_to_share_and_are_named_elsewhere() {
    let shares = with_points();
    let (from, to) = (shares.server.at("src/"), shares.server.at("dst/"));
    let copy = || summary(&shares.copy(&from, &to).finish().expect_success());
    let verify = || shares.haul("verify").arg(&from).arg(&to).finish();
    copy().assert_accounted();
    let assert_equal = || {
        for name in WHOLE {
            let [original, copied] = ["src", "dst"].map(|dir| shares.disk(&format!("{dir}/{name}")));
            assert_eq!(stored(&copied, KEPT), stored(&original, KEPT), "{name}");
            let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
            assert_eq!(time(&copied), time(&original), "{name}");
        }
    };
    assert_equal();
    assert!(told(&shares, "dst/absolute").contains("attributes: rHA"), "{}", told(&shares, "dst/absolute"));
    verify().expect_success();
    let second = copy();
    assert_eq!((second.of("updated"), second.of("copied")), (0, 0), "{second:?}");

    // Other data of one tag, and another tag.
    make_again(&shares, "src/junction", &point(0xA000_0003, &names("\\??\\C:\\other", "C:\\other", None)));
    make_again(&shares, "src/socket", &point(0x8000_0014, &0x4F46_4946_u64.to_le_bytes()));
    verify().expect_code(3);
    copy().assert_accounted();
    assert_equal();
    verify().expect_success();

    let elsewhere = shares.scene.join("elsewhere");
    let run = shares.haul("copy").arg(&from).arg(slash(&elsewhere)).finish().expect_code(1);
    for words in ["an absolute path of Windows", "it is a junction", "IO_REPARSE_TAG_NFS"] {
        assert!(run.said().contains(words), "{words}: {run}");
    }
    assert_eq!(fs::read_link(elsewhere.join("relative")).unwrap(), Path::new("file"));
    assert!(elsewhere.join("file").exists() && fs::symlink_metadata(elsewhere.join("junction")).is_err());

    // Its data name content that the server keeps elsewhere.
    make_point(&shares, "src/dedup", &point(0x8000_0013, b"chunks"));
    let run = shares.haul("copy").arg(&from).arg(&to).finish().expect_code(1);
    assert!(run.said().contains("IO_REPARSE_TAG_DEDUP: its content is elsewhere on the server"), "{run}");

    // A device of NFS, with its numbers.
    let null = [&b"CHR\0\0\0\0\0"[..], &[1, 0, 0, 0, 3, 0, 0, 0]].concat();
    make_point(&shares, "src/null", &point(0x8000_0014, &null));
    let run = shares.haul("copy").arg(&from).arg(&to).finish().expect_code(1);
    assert!(run.said().contains("IO_REPARSE_TAG_NFS: haul copies no devices from a share"), "{run}");
    assert!(!shares.disk("dst/null").exists());
}

fn safe_links_keeps_only_links_into_the_tree() {
    let shares = with_points();
    make_point(&shares, "src/drive", &point(0xA000_000C, &names("C:\\x", "C:\\x", Some(0))));
    make_point(&shares, "src/slash", &point(0xA000_000C, &names("/etc/passwd", "/etc/passwd", Some(1))));
    make_point(&shares, "src/above", &point(0xA000_000C, &names("..\\x", "..\\x", Some(1))));
    let (from, to) = (shares.server.at("src/"), shares.server.at("dst/"));
    let run = shares.haul("copy").arg("--safe-links").arg(&from).arg(&to).finish().expect_success();
    assert!(run.err().contains("links that point outside of the tree"), "{run}");
    for name in WHOLE[1..].iter().chain(&["drive", "slash", "above"]) {
        assert!(!shares.disk(&format!("dst/{name}")).exists(), "{name}");
    }
    assert_eq!(target(&shares, "dst/relative"), "file");

    let elsewhere = shares.scene.join("elsewhere");
    let run = shares.haul("copy").arg(&from).arg(slash(&elsewhere)).finish().expect_code(1);
    assert!(run.said().contains("it is a symbolic link whose target has the character /"), "{run}");
    for name in ["drive", "slash"] {
        assert!(fs::symlink_metadata(elsewhere.join(name)).is_err(), "{name}");
    }
}

/// The same for one that is there.
fn make_again(shares: &Shares, path: &str, bytes: &[u8]) {
    let at = shares.disk(path);
    fs::remove_file(&at).unwrap();
    make_point(shares, path, bytes);
    haul_testkit::tree::set_time(&at, 1_700_000_000, 0);
}

fn a_reparse_point_that_is_no_link_is_not_replaced() {
    let shares = with_points();
    let tree = shares.scene.tree("other");
    tree.text("junction/below", "x");
    tree.text("socket", "x");
    tree.link("fifo", "file");
    tree.text("relative", "a file");
    let before: Vec<String> =
        WHOLE[2..].iter().map(|name| stored(&shares.disk(&format!("src/{name}")), KEPT)).collect();
    let run =
        shares.haul("copy").arg(slash(tree.path())).arg(shares.server.at("src/")).finish().expect_code(1);
    assert!(run.said().contains("an entry is in its place that haul does not replace"), "{run}");
    let after: Vec<String> =
        WHOLE[2..].iter().map(|name| stored(&shares.disk(&format!("src/{name}")), KEPT)).collect();
    assert_eq!(after, before);
    assert_eq!(fs::read(shares.disk("src/relative")).unwrap(), b"a file");
    assert_no_debris(&shares.disk("src"));
}

fn a_server_that_makes_no_links_is_told_once() {
    let shares = Shares::new();
    let version = tool(Command::new("/usr/sbin/smbd").arg("-V"));
    if !version.contains("Version 4.17") {
        eprintln!("the Samba of this system makes links: {version}");
        return;
    }
    let tree = linked(&shares);
    let run =
        shares.haul("copy").arg(slash(tree.path())).arg(shares.server.at("dst/")).finish().expect_success();
    assert!(
        run.err().contains("symbolic links could not be set on 6 entries: the server makes none"),
        "{run}"
    );
    assert!(shares.disk("dst/dir/file").exists());
    assert_no_debris(&shares.disk("dst"));
}

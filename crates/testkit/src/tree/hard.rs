//! The tree that holds everything: each group is a trap that some tool of this kind has fallen into.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat};

use super::TestTree;
use crate::needs::on_path;
use crate::tools::{is_root, tool};

const MIB: u64 = 1 << 20;

/// Names that break tools which join strings, split lines, call shells or believe that names are text.
const NAMES: [&[u8]; 42] = [
    b"with space",
    b" leading",
    b"trailing ",
    b"two\nlines",
    b"\n",
    b"tab\there",
    b"carriage\rreturn",
    b"invalid \xff\xfe utf8",
    b"\xc3",
    b"\x01\x1b[31m\x7f",
    b"-rf",
    b"--delete",
    b"~",
    b"~root",
    b"*",
    b"?",
    b"[a-z]",
    b"{a,b}",
    b"double\"quote",
    b"single'quote",
    b"$(touch x)",
    b"$HOME",
    b"`id`",
    b"back\\slash",
    b"\\012",
    b"semi;colon",
    b"&& false",
    b"| false",
    b"> out",
    b"# comment",
    b"host:file",
    b"ssh:",
    b"%41%2f",
    b"...",
    b".hidden",
    b"..hidden",
    b".haulage",
    b".rsync-partial",
    "\u{e9}".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{65e5}\u{672c}\u{8a9e}".as_bytes(),
    "\u{202e}txt".as_bytes(),
];

impl TestTree {
    /// A tree with everything that a tree can contain, as far as this user may create it: see the source.
    #[must_use]
    pub fn hard(root: impl Into<PathBuf>, seed: u64) -> Self {
        let tree = Self::new(root, seed);
        make(&tree);
        tree
    }
}

fn make(tree: &TestTree) {
    names(tree);
    empties(tree);
    depth(tree);
    sizes(tree);
    holes(tree);
    links(tree);
    specials(tree);
    tree.many("many", 700, 0..8192);
    attributes(tree);
    if on_path("setfacl") {
        acls(tree);
    }
    if is_root() {
        owners(tree);
    }
    times(tree);
    modes(tree);
}

fn bytes(name: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}

fn names(tree: &TestTree) {
    let long = [b'n'; 255];
    for (number, name) in NAMES.into_iter().chain([&long[..]]).enumerate() {
        tree.file(Path::new("names").join(bytes(name)), number as u64 * 7);
        tree.file(Path::new("directories").join(bytes(name)).join("inside"), 3);
        tree.link(Path::new("links/odd").join(bytes(name)), bytes(name));
    }
}

fn empties(tree: &TestTree) {
    tree.file("empty/file", 0);
    tree.dir("empty/directory");
    tree.dir("empty/in/empty/in/empty");
}

fn depth(tree: &TestTree) {
    let mut path = PathBuf::from("deep");
    for level in 0..40 {
        path.push(format!("{level:02}-and-a-name-that-is-not-short"));
        tree.file(path.join("file"), 100 + level);
    }
}

/// Lengths around the ends of slices, pages and blocks.
fn sizes(tree: &TestTree) {
    let around = |len: u64| [len - 1, len, len + 1];
    for len in [1024, 4096, 65_536, MIB, 4 * MIB, 8 * MIB].into_iter().flat_map(around).chain([0, 1, 2]) {
        tree.file(format!("sizes/{len}"), len);
    }
    tree.file("sizes/big", 50 * MIB + 37);
}

fn holes(tree: &TestTree) {
    let kib = |from: u64, to: u64| from * 1024..to * 1024;
    tree.sparse("holes/leading", 9 * MIB, &[kib(8192, 9216)]);
    tree.sparse("holes/middle", 14 * MIB, &[kib(0, 64), kib(13 * 1024, 14 * 1024)]);
    tree.sparse("holes/trailing", 12 * MIB + 5, &[kib(0, 128)]);
    tree.sparse("holes/all", 64 * MIB, &[]);
    tree.sparse("holes/small", 100_000, &[kib(64, 68)]);
    tree.sparse("holes/checkered", 6 * MIB, &(0..24).map(|n| kib(n * 256, n * 256 + 64)).collect::<Vec<_>>());
    // Data that is all zeros is data or hole as the tool likes; the content must be right.
    tree.text("holes/zeros", vec![0; 300_000]);
    fs::hard_link(tree.join("holes/middle"), tree.join("holes/middle-again")).unwrap();
}

fn links(tree: &TestTree) {
    tree.link("links/file", "../sizes/1");
    tree.link("links/directory", "../empty");
    tree.link("links/dangling", "no/such/file");
    tree.link("links/absolute", "/etc/passwd");
    tree.link("links/upwards", "../../../../../../../../etc");
    tree.link("links/itself", "itself");
    tree.link("links/loop-a", "loop-b");
    tree.link("links/loop-b", "loop-a");
    tree.link("links/root", "/");
    tree.link("links/long", "x/".repeat(500));
    tree.link("links/invalid", bytes(b"\xff\xfe\n"));
    let hard = |from: &str, to: &str| {
        tree.dir(Path::new(to).parent().unwrap());
        fs::hard_link(tree.join(from), tree.join(to)).unwrap();
    };
    tree.file("linked/first", 1000);
    hard("linked/first", "linked/second");
    hard("linked/first", "linked-too/far/third");
    hard("linked/first", "a-linked-before/fourth");
    tree.file("linked/big", 9 * MIB);
    hard("linked/big", "linked-too/big");
    tree.file("linked/empty", 0);
    hard("linked/empty", "linked-too/empty");
}

fn specials(tree: &TestTree) {
    let make = |name: &str, kind: FileType, mode: u32, device: u64| {
        mknodat(CWD, tree.join(name), kind, Mode::from_raw_mode(mode), device)
            .unwrap_or_else(|error| panic!("cannot make {name}: {error}"));
    };
    tree.dir("special");
    make("special/fifo", FileType::Fifo, 0o640, 0);
    // A path to a socket is short; the directory of the tree need not be.
    let here = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(here.path().join("s")).unwrap());
    let moved =
        Command::new("mv").arg("--").arg(here.path().join("s")).arg(tree.join("special/socket")).status();
    assert!(moved.unwrap().success(), "a socket can be moved into the tree");
    if is_root() {
        make("special/null", FileType::CharacterDevice, 0o666, makedev(1, 3));
        make("special/disk", FileType::BlockDevice, 0o600, makedev(7, 99));
    }
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())
        .unwrap_or_else(|error| panic!("cannot set {name} of {path:?}: {error}"));
}

/// `cap_net_raw` as effective and permitted, as `setcap` writes it: a change of owner drops it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn attributes(tree: &TestTree) {
    let file = tree.file("attributes/file", 500);
    set_attribute(&file, "user.text", b"value");
    set_attribute(&file, "user.empty", b"");
    set_attribute(&file, "user.binary", &[0, 255, 10, 0, 61]);
    set_attribute(&file, "user.long", &[b'v'; 2000]);
    set_attribute(&tree.file("attributes/empty", 0), "user.of", b"an empty file");
    set_attribute(&tree.file("attributes/big", 5 * MIB), "user.of", b"a file of two slices");
    set_attribute(&tree.dir("attributes/directory"), "user.of", b"a directory");
    if is_root() {
        set_attribute(&file, "trusted.secret", b"for root");
        set_attribute(&tree.link("attributes/link", "file"), "trusted.of", b"a link");
        let program = tree.file("attributes/capable", 700);
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        lchown(&program, Some(1000), Some(1000)).unwrap();
        set_attribute(&program, "security.capability", &CAPABILITY);
    }
}

fn acls(tree: &TestTree) {
    let set = |rules: &str, path: &Path| tool(Command::new("setfacl").args(["-m", rules, "--"]).arg(path));
    set("u:1234:rw,g:4321:r,m:rwx", &tree.file("acl/file", 10));
    let directory = tree.dir("acl/directory");
    tree.file("acl/directory/made-before-the-default", 10);
    tree.dir("acl/directory/also-before");
    set("u:1234:rwx,d:u:1234:rwx,d:g:77:---,d:o::---", &directory);
    tree.file("acl/directory/inherits", 10);
    tree.file("acl/directory/below/inherits-too", 5 * MIB);
    tree.link("acl/directory/link", "inherits");
}

fn owners(tree: &TestTree) {
    let ids = [(1, 1), (0, 65534), (65534, 0), (1000, 1001), (4_000_000_000, 4_000_000_001)];
    for (number, (uid, gid)) in ids.into_iter().enumerate() {
        let directory = format!("owners/{number}");
        let of = [
            tree.file(format!("{directory}/file"), 20),
            tree.file(format!("{directory}/setuid"), 20),
            tree.link(format!("{directory}/link"), "file"),
            tree.dir(directory),
        ];
        for path in &of {
            lchown(path, Some(uid), Some(gid)).unwrap();
        }
        fs::set_permissions(&of[1], Permissions::from_mode(0o6755)).unwrap();
    }
}

/// Seconds and nanoseconds: to the last digit, before 1970, after 2038.
const TIMES: [(&str, i64, u32); 9] = [
    ("nanosecond", 1_600_000_000, 1),
    ("last-nanosecond", 1_600_000_000, 999_999_999),
    ("zero", 0, 0),
    ("before-1970", -1, 500_000_000),
    ("long-before-1970", -1_500_000_000, 123_456_789),
    ("2038", 2_147_483_648, 7),
    ("2040", 2_208_988_800, 987_654_321),
    ("2100", 4_102_444_800, 0),
    ("now-ish", 1_760_000_000, 111_111_111),
];

fn times(tree: &TestTree) {
    for (name, seconds, nanoseconds) in TIMES {
        tree.file(format!("times/{name}/file"), 5);
        tree.link(format!("times/{name}/link"), "file");
        for below in ["/file", "/link", ""] {
            tree.time(format!("times/{name}{below}"), seconds, nanoseconds);
        }
    }
    tree.time("times", 1_234_567_890, 123_456_789);
    tree.time("sizes/big", 1_234_567_890, 987_654_321);
}

/// Last, as some of the directories take no more files after it.
fn modes(tree: &TestTree) {
    let set = |path: &str, mode: u32| {
        fs::set_permissions(tree.join(path), Permissions::from_mode(mode)).unwrap();
    };
    for mode in [0o000, 0o200, 0o400, 0o444, 0o600, 0o666, 0o777, 0o4755, 0o2755, 0o6711, 0o1644] {
        let name = format!("modes/files/{mode:04o}");
        tree.file(&name, 30);
        set(&name, mode);
    }
    for mode in [0o000, 0o111, 0o500, 0o555, 0o700, 0o777, 0o1777, 0o2775, 0o3770] {
        let name = format!("modes/directories/{mode:04o}");
        tree.file(format!("{name}/file"), 30);
        tree.file(format!("{name}/directory/file"), 5 * MIB / 4);
        tree.link(format!("{name}/link"), "file");
        set(&format!("{name}/directory"), mode);
        set(&name, mode);
    }
}

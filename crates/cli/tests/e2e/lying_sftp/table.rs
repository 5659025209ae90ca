//! The lies: kind of answer, field, value.

use std::fmt;

use haul_testkit::Care;
use haul_testkit::lying_sftp::{Field, ServerLie};

use super::ESCAPE;

/// Which end the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerRole {
    /// The source.
    Pull,
    /// The destination.
    Push,
}

/// The part of a lie that nobody can detect, because only the server's own word tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Believed {
    Nothing,
    Owner,
    Mode,
    Times,
    /// The entries, or their content.
    Tree,
}

/// A lie, and how it meets the program.
#[derive(Clone, Debug)]
pub(super) struct LieCase {
    pub(super) lie: ServerLie,
    pub(super) way: ServerRole,
    pub(super) options: &'static [&'static str],
    believed: Believed,
}

impl fmt::Display for LieCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lie = self.lie.to_string();
        write!(f, "{:?} {} {:?}", self.way, lie.get(..100).unwrap_or(&lie), self.options)
    }
}

impl LieCase {
    /// The comparison after exit code 0; none where the tree itself is the server's word.
    pub(super) fn care(&self) -> Option<Care> {
        let care = Care { hard_links: self.way == ServerRole::Push, ..Care::of_sftp() };
        match self.believed {
            Believed::Nothing => Some(care),
            Believed::Owner => Some(Care { owners: false, ..care }),
            Believed::Mode => Some(Care { modes: false, ..care }),
            Believed::Times => Some(Care { directory_times: false, link_times: false, ..care }),
            Believed::Tree => None,
        }
    }
}

/// Collects lies.
struct LieTable {
    way: ServerRole,
    options: &'static [&'static str],
    all: Vec<LieCase>,
}

impl LieTable {
    fn new(way: ServerRole) -> Self {
        Self { way, options: &[], all: Vec::new() }
    }

    fn add(&mut self, asked: &str, every: bool, field: Field, number: u64, bytes: &[u8], believed: Believed) {
        let lie = ServerLie { asked: asked.to_owned(), every, field, number, bytes: bytes.to_vec() };
        self.all.push(LieCase { lie, way: self.way, options: self.options, believed });
    }

    /// The first answer of each kind, with each of these numbers.
    fn first(&mut self, asked: &[&str], field: Field, numbers: &[u64]) {
        for asked in asked {
            numbers.iter().for_each(|number| self.add(asked, false, field, *number, b"", Believed::Nothing));
        }
    }

    /// Every answer of each kind, with each of these numbers.
    fn every(&mut self, asked: &[&str], field: Field, numbers: &[u64]) {
        for asked in asked {
            numbers.iter().for_each(|number| self.add(asked, true, field, *number, b"", Believed::Nothing));
        }
    }

    fn bytes(&mut self, asked: &[&str], field: Field, values: &[&[u8]]) {
        for asked in asked {
            values.iter().for_each(|bytes| self.add(asked, false, field, 4, bytes, Believed::Nothing));
        }
    }

    fn believed(&mut self, asked: &str, field: Field, numbers: &[u64], believed: Believed) {
        numbers.iter().for_each(|number| self.add(asked, true, field, *number, b"", believed));
    }
}

const MAX: u64 = u32::MAX as u64;
const HUGE: u64 = 1 << 31;
/// The requests to a source, and to a destination.
const READ: [&str; 9] =
    ["realpath", "limits", "lstat", "opendir", "readdir", "readlink", "open", "read", "fstat"];
const WRITTEN: [&str; 17] = [
    "realpath",
    "limits",
    "lstat",
    "stat",
    "opendir",
    "readdir",
    "open",
    "write",
    "fsetstat",
    "setstat",
    "fsync",
    "posix-rename",
    "remove",
    "rmdir",
    "mkdir",
    "hardlink",
    "symlink",
];
/// Those that stand for all where the kind of the answer says no more.
const SOME: [&str; 4] = ["realpath", "lstat", "open", "readdir"];
const STATUSES: [u64; 5] = [0, 1, 2, 3, MAX];
const HANDLES: [&[u8]; 5] = [b"", &[1; 256], &[1; 257], &[1; 65_536], b"none"];

/// Lengths, kinds and numbers of packets, versions and extensions.
pub(super) fn packets() -> Vec<LieCase> {
    let mut all = Vec::new();
    for (way, asked) in [(ServerRole::Pull, &READ[..]), (ServerRole::Push, &WRITTEN[..])] {
        let mut table = LieTable::new(way);
        table.first(&["init", "lstat", "readdir"], Field::Length, &[0, 1, 4, 5, 256 * 1024 + 1, HUGE, MAX]);
        table.first(&["init", "lstat", "readdir"], Field::LengthBeyond, &[1]);
        table.first(&SOME, Field::Kind, &[0, 2, 102, 255]);
        table.first(asked, Field::Kind, &[103]);
        table.first(&SOME, Field::Id, &[1, HUGE]);
        table.first(&["lstat", "readdir"], Field::FormerId, &[0]);
        table.first(&SOME, Field::Twice, &[0]);
        table.first(&["lstat", "readdir"], Field::Cut, &[0, 1, 5, 9, 12]);
        table.every(&["lstat", "readdir"], Field::Cut, &[9]);
        table.first(&SOME, Field::Tail, &[7]);
        table.first(asked, Field::End, &[0]);
        table.every(&["open"], Field::End, &[0]);
        let slow = if way == ServerRole::Pull { ["readlink", "read"] } else { ["write", "fsync"] };
        table.first(&slow, Field::Never, &[0]);
        table.first(&["realpath", "lstat", "readdir"], Field::Never, &[0]);
        table.every(&["init", "open", "close"], Field::Never, &[0]);
        table.every(&["init"], Field::Version, &[0, 2, 4, MAX]);
        table.bytes(&["init"], Field::Extension, &[b"", b"limits@openssh.com", ESCAPE, &[b'x'; 70_000]]);
        table.add("init", true, Field::Extension, 0, b"odd", Believed::Nothing);
        table.every(&["init"], Field::Extensions, &[20_000]);
        table.every(&["limits"], Field::Numbers, &[0, 1, 1025, HUGE, u64::MAX]);
        all.extend(table.all);
    }
    all
}

/// The answers of a source.
pub(super) fn of_a_source() -> Vec<LieCase> {
    let mut table = LieTable::new(ServerRole::Pull);
    for asked in READ {
        for status in STATUSES {
            // Something that vanished, and a listing that ends early, are the server's to tell.
            let tree = status == 2 || status == 1 && asked == "readdir";
            let believed = if tree { Believed::Tree } else { Believed::Nothing };
            table.add(asked, true, Field::Status, status, b"", believed);
        }
        table.add(asked, false, Field::Status, 4, ESCAPE, Believed::Nothing);
        // So is a part of a listing without names.
        let believed = if asked == "readdir" { Believed::Tree } else { Believed::Nothing };
        table.add(asked, true, Field::NoNames, 0, b"", believed);
    }
    table.bytes(&["open", "opendir"], Field::Status, &[&[b'w'; 200_000]]);
    table.first(&["open", "lstat"], Field::WordsLength, &[HUGE, MAX]);
    table.bytes(&["open", "opendir"], Field::Handle, &HANDLES);
    table.first(&["open", "opendir"], Field::FormerHandle, &[0]);
    table.every(&["open", "opendir"], Field::FormerHandle, &[0]);
    table.first(&["open", "read"], Field::StringLength, &[0, 1, HUGE, MAX]);
    table.first(&["read"], Field::MoreData, &[1]);
    table.every(&["read"], Field::MoreData, &[1, 100_000]);
    table.first(&["read"], Field::LessData, &[500]);
    table.every(&["read"], Field::LessData, &[1, 1 << 20]);
    table.first(&["readdir", "readlink", "realpath"], Field::Count, &[0, 1, 1000, HUGE, MAX]);
    table.every(&["readdir"], Field::Count, &[0, 1]);
    table.first(&["readdir", "readlink", "realpath"], Field::NameLength, &[0, HUGE, MAX]);
    let few: [&[u8]; 10] = [
        b"",
        b"..",
        b"../evil",
        b"/evil",
        b"../outside/precious",
        b"nul\0nul",
        ESCAPE,
        b".haul-0123456789abcdef.part",
        b"dir",
        &[b'n'; 65_536],
    ];
    let more: [&[u8]; 11] = [
        b".",
        b"a/evil",
        b"dir/../../evil",
        b"\0",
        b".haul-0123456789abcdef.journal",
        &[b'n'; 255],
        &[b'n'; 256],
        b"outside",
        b"\xff\xfe",
        b"-rf",
        b"~",
    ];
    for bytes in few {
        for field in [Field::MoreFile, Field::MoreDirectory, Field::MoreLink] {
            // Files that haul stages are left out of every source.
            table.add("readdir", true, field, 0, bytes, Believed::Tree);
        }
        table.add("readdir", false, Field::Name, 0, bytes, Believed::Tree);
        table.add("readlink", false, Field::Name, 0, bytes, Believed::Tree);
        table.add("realpath", true, Field::Name, 0, bytes, Believed::Nothing);
    }
    for bytes in more {
        table.add("readdir", true, Field::MoreFile, 0, bytes, Believed::Tree);
        table.add("readdir", false, Field::Name, 0, bytes, Believed::Tree);
    }
    table.bytes(&["readdir"], Field::Shown, &[ESCAPE, &[b's'; 100_000]]);
    table.every(&["readdir"], Field::Again, &[0]);
    table.every(&["readdir"], Field::Nothing, &[0]);
    table.believed("readdir", Field::Others, &[300], Believed::Tree);
    table.believed("readdir", Field::Stuffed, &[30], Believed::Tree);
    for asked in ["readdir", "lstat", "fstat"] {
        table.every(&[asked], Field::Flags, &[1, 15, MAX]);
        table.every(&[asked], Field::Bare, &[0]);
        table.first(&[asked], Field::Size, &[4, 1 << 63]);
        table.every(&[asked], Field::Size, &[0, 1 << 40, 1 << 50, 1 << 63, u64::MAX]);
        table.every(&[asked], Field::Extended, &[1, HUGE, MAX]);
        table.believed(asked, Field::Owner, &[12, MAX - 1, MAX], Believed::Owner);
        table.believed(asked, Field::Times, &[0, HUGE, MAX], Believed::Times);
        table.add(asked, false, Field::Mode, 0o106_755, b"", Believed::Mode);
        let kinds =
            [0, 0o107_777, 0o040_755, 0o120_777, 0o020_666, 0o060_666, 0o140_755, 0o010_644, 0o160_000, MAX];
        table.believed(asked, Field::Mode, &kinds, Believed::Tree);
    }
    table.believed("read", Field::FlippedData, &[0], Believed::Tree);
    table.all
}

/// The answers of a destination.
pub(super) fn of_a_destination() -> Vec<LieCase> {
    let mut table = LieTable::new(ServerRole::Push);
    for asked in WRITTEN {
        table.every(&[asked], Field::Status, &STATUSES);
        table.add(asked, false, Field::Status, 4, ESCAPE, Believed::Nothing);
        table.every(&[asked], Field::NoNames, &[0]);
    }
    table.bytes(&["open", "opendir"], Field::Handle, &HANDLES);
    table.first(&["open", "opendir"], Field::FormerHandle, &[0]);
    table.every(&["open", "opendir"], Field::FormerHandle, &[0]);
    table.first(&["open"], Field::StringLength, &[0, 1, HUGE, MAX]);
    for bytes in [&b".."[..], b"/evil", b"../evil", b"", b"nul\0", ESCAPE, &[b'n'; 65_536]] {
        table.add("readdir", false, Field::Name, 0, bytes, Believed::Nothing);
        table.add("readdir", true, Field::MoreFile, 0, bytes, Believed::Nothing);
        table.add("realpath", true, Field::Name, 0, bytes, Believed::Nothing);
    }
    table.bytes(&["readdir"], Field::MoreFile, &[b".haul-0000000000000000.part", b".haul-../../evil.part"]);
    table.every(&["readdir"], Field::Again, &[0]);
    table.every(&["readdir"], Field::Nothing, &[0]);
    table.believed("readdir", Field::Others, &[300], Believed::Nothing);
    table.believed("readdir", Field::Stuffed, &[30], Believed::Nothing);
    table.first(&["readdir", "realpath"], Field::Count, &[0, 1000, HUGE, MAX]);
    for asked in ["lstat", "stat"] {
        table.every(&[asked], Field::Flags, &[15, MAX]);
        table.every(&[asked], Field::Bare, &[0]);
        table.every(&[asked], Field::Size, &[0, 1000, 1 << 63, u64::MAX]);
        table.every(&[asked], Field::Owner, &[0, 12, MAX]);
        table.every(&[asked], Field::Times, &[0, 1_600_000_000, MAX]);
        table.every(&[asked], Field::Mode, &[0, 0o100_644, 0o040_755, 0o120_777, 0o020_666, 0o010_644, MAX]);
    }
    // Data that was not written at all is found by reading back; metadata are the server's word.
    table.options = &["--verify", "disk"];
    table.every(&["read"], Field::MoreData, &[1]);
    table.every(&["read"], Field::LessData, &[1, 1 << 20]);
    table.first(&["read"], Field::FlippedData, &[0]);
    table.every(&["read"], Field::FlippedData, &[0]);
    table.every(&["read"], Field::Status, &[0, 1, 4]);
    table.first(&["write"], Field::Pretend, &[0]);
    table.every(&["write"], Field::Pretend, &[0]);
    table.believed("fsetstat", Field::Pretend, &[0], Believed::Tree);
    table.all
}

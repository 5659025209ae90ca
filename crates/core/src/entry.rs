//! The results of a scan: a name and its metadata.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::digest::MAX_FILE_LEN;
use crate::path::RelPath;
use crate::staging::has_staging_name;

/// The length of a stream whose end is not known yet. No file has it: it is beyond [`MAX_FILE_LEN`].
pub const GROWING: u64 = u64::MAX;

/// The inode number of a stream, which is no file of the source.
const STREAM: u64 = u64::MAX;

/// A point in time as file systems store it: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC; negative before it.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

impl Timestamp {
    /// The time by the local clock.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nsec: since.subsec_nanos() }
    }

    /// The time this many nanoseconds after 1970, or before it if negative; `None` if the seconds do not fit.
    #[must_use]
    pub fn from_nanoseconds(all: i128) -> Option<Self> {
        let sec = i64::try_from(all.div_euclid(1_000_000_000)).ok()?;
        Some(Self { sec, nsec: all.rem_euclid(1_000_000_000) as u32 })
    }

    /// The time, cut to a unit in nanoseconds that divides a second; 0: not cut.
    #[must_use]
    pub fn cut(self, unit: u32) -> Self {
        Self { nsec: self.nsec - self.nsec.checked_rem(unit).unwrap_or_default(), ..self }
    }

    /// Whether the seconds of both differ by at most `window`. A negative `window` means equal to the nanosecond.
    #[must_use]
    pub fn is_within(self, window: i64, other: Self) -> bool {
        if window < 0 { self == other } else { self.sec.abs_diff(other.sec) <= window.unsigned_abs() }
    }
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file; [`Entry::len`] is its length in bytes.
    File,
    /// A directory.
    Dir,
    /// A symbolic link with its target, byte for byte.
    Symlink(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device with its device number (`st_rdev`).
    CharDevice(u64),
    /// A block device with its device number (`st_rdev`).
    BlockDevice(u64),
}

/// The names of an owner and a group at the source, for `--owner-by-name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OwnerNames {
    /// The user's name; empty where the number has none.
    #[serde(with = "serde_bytes")]
    pub user: Vec<u8>,
    /// The group's name; empty where the number has none.
    #[serde(with = "serde_bytes")]
    pub group: Vec<u8>,
}

/// An extended attribute: name with its namespace, and value. POSIX ACLs are `system.posix_acl_access` and
/// `system.posix_acl_default`, carried as the kernel gives them.
pub type Xattr = (serde_bytes::ByteBuf, serde_bytes::ByteBuf);

/// One name below a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path below the root, the same at both ends.
    pub path: RelPath,
    /// The kind.
    pub kind: EntryKind,
    /// The length of the content in bytes; 0 for entries that are not files.
    pub len: u64,
    /// The time of the last modification of the content.
    pub mtime: Timestamp,
    /// The time of the last access, before haul read the content.
    pub atime: Timestamp,
    /// The time of the last change of the inode, in content or metadata. No program can set it. `None` if the end does
    /// not report it.
    pub ctime: Option<Timestamp>,
    /// The permission bits with set-user-ID, set-group-ID and sticky: `st_mode & 0o7777`.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// The names of owner and group, if the scan was asked for them.
    pub names: Option<Box<OwnerNames>>,
    /// The device of its file system (`st_dev`); identifies hard links together with `ino`.
    pub dev: u64,
    /// The inode number at its own end.
    pub ino: u64,
    /// The number of names (hard links) of the inode.
    pub nlink: u32,
    /// The bytes that the file system has allocated; fewer than `len` if the file is sparse or compressed on disk.
    pub allocated: u64,
    /// The extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
}

impl Entry {
    /// An entry with these fields and defaults for all others: times 1970-01-01, no permissions, owner and group 0, one
    /// name, no holes, no inode.
    #[must_use]
    pub fn new(path: RelPath, kind: EntryKind, len: u64) -> Self {
        Self {
            path,
            kind,
            len,
            mtime: Timestamp::default(),
            atime: Timestamp::default(),
            ctime: None,
            mode: 0,
            uid: 0,
            gid: 0,
            names: None,
            dev: 0,
            ino: 0,
            nlink: 1,
            allocated: len,
            xattrs: Vec::new(),
        }
    }

    /// The file that a stream of `len` bytes becomes; [`GROWING`] until the end of the stream is known. As a file that
    /// a shell redirects output to, it takes nothing over from a source but leaves its mode to the umask.
    #[must_use]
    pub fn stream(path: RelPath, len: u64) -> Self {
        Self { mode: 0o666, ino: STREAM, ..Self::new(path, EntryKind::File, len) }
    }

    /// Whether it is the file that a stream becomes.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.is_file() && self.ino == STREAM
    }

    /// Whether it is a stream whose end is not known yet.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.is_stream() && self.len == GROWING
    }

    /// As [`Entry::check`], for a sink with [`crate::SinkCaps::growing`]: a stream may be growing.
    ///
    /// # Errors
    /// The reason, if a value is invalid.
    pub fn check_growing(&self) -> Result<(), &'static str> {
        if self.is_growing() { self.check_but_length() } else { self.check() }
    }

    /// Checks for values that no file system reports. A peer or a store may send them, and the system calls that set
    /// them would take them for something else: an ID of all ones means "do not change", and so do some numbers of
    /// nanoseconds beyond a second.
    ///
    /// # Errors
    /// The reason, if a value is invalid.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.len > MAX_FILE_LEN {
            return Err("it is longer than 16 PiB, the longest file that haul can prove");
        }
        self.check_but_length()
    }

    fn check_but_length(&self) -> Result<(), &'static str> {
        if self.uid == u32::MAX || self.gid == u32::MAX {
            return Err("its owner or group is 4294967295, which is nobody's number");
        }
        if [self.mtime, self.atime].iter().any(|time| time.nsec >= 1_000_000_000) {
            return Err("one of its times has more nanoseconds than a second has");
        }
        if self.mode & !0o7777 != 0 {
            return Err("its mode has more than permission bits");
        }
        if has_staging_name(&self.path) {
            return Err("its name is one of those under which haul stages files");
        }
        Ok(())
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == EntryKind::Dir
    }

    /// Whether the file has holes (its blocks do not cover its length).
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        self.is_file() && self.allocated < self.len
    }

    /// Whether both are one file or directory, whatever paths lead to it; `false` if an end does not tell.
    #[must_use]
    pub fn is_one_with(&self, other: &Self) -> bool {
        self.ctime.is_some() && (self.ctime, self.ino) == (other.ctime, other.ino)
    }

    /// The state of the source file that its slices belong to. A stream has the same identity at any length: its slices
    /// are compared by content.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let len = if self.is_stream() { GROWING } else { self.len };
        Identity { len, mtime: self.mtime, ctime: self.ctime, ino: self.ino }
    }

    /// The approximate size of this entry in memory and on the wire, in bytes, by which queues are bounded.
    #[must_use]
    pub fn weight(&self) -> usize {
        let target = if let EntryKind::Symlink(to) = &self.kind { to.len() } else { 0 };
        let xattrs: usize = self.xattrs.iter().map(|(n, v)| n.len() + v.len() + 48).sum();
        192 + self.path.as_bytes().len() + target + xattrs
    }
}

/// One state of a source file. A file is resumed only if all fields are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Change time, which reveals changed content whose modification time was set back; `None` if the source has none.
    pub ctime: Option<Timestamp>,
    /// Inode number at the source.
    pub ino: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_file_system_reports_are_refused() {
        let path = |of: &str| RelPath::new(of.as_bytes()).unwrap();
        let good = Entry::new(path("a/b"), EntryKind::File, MAX_FILE_LEN);
        assert_eq!(good.check(), Ok(()));
        let odd = Timestamp { sec: 0, nsec: 0x3fff_ffff };
        for bad in [
            Entry { uid: u32::MAX, ..good.clone() },
            Entry { gid: u32::MAX, ..good.clone() },
            Entry { mtime: odd, ..good.clone() },
            Entry { atime: odd, ..good.clone() },
            Entry { mode: 0o100_644, ..good.clone() },
            Entry { len: MAX_FILE_LEN + 1, ..good.clone() },
            Entry { path: path(".haul-0123456789abcdef.part/x"), ..good.clone() },
            Entry { path: path("a/.haul-0123456789abcdef.journal"), ..good.clone() },
        ] {
            assert!(bad.check().is_err() && bad.check_growing().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_is_one_file_at_any_length_and_grows_only_where_that_is_expected() {
        let stream = |len| Entry::stream(RelPath::new(b"a").unwrap(), len);
        assert!(stream(GROWING).is_growing() && stream(5).is_stream() && !stream(5).is_growing());
        assert_eq!(stream(GROWING).identity(), stream(5).identity());
        assert!(stream(GROWING).check().is_err() && stream(GROWING).check_growing().is_ok());
        assert!(stream(5).check().is_ok());
        let file = Entry::new(RelPath::new(b"a").unwrap(), EntryKind::File, GROWING);
        assert!(!file.is_growing() && file.check_growing().is_err(), "a length that somebody made up");
        let dir = Entry { kind: EntryKind::Dir, ..stream(GROWING) };
        assert!(!dir.is_stream() && dir.check_growing().is_err());
    }
}

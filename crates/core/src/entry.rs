//! What a scan finds: one name and everything about it but its content.

use serde::{Deserialize, Serialize};

use crate::digest::MAX_FILE_LEN;
use crate::path::RelPath;
use crate::staging::has_staging_name;

/// A point in time as file systems keep it: whole seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC; negative before it.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

impl Timestamp {
    /// Whether the seconds of both differ by no more than `window`. Below 0, both have to be the same to the nanosecond.
    #[must_use]
    pub fn is_within(self, window: i64, other: Self) -> bool {
        if window < 0 { self == other } else { self.sec.abs_diff(other.sec) <= window.unsigned_abs() }
    }
}

/// What kind of thing a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file; [`Entry::len`] is its length in bytes.
    File,
    /// A directory.
    Dir,
    /// A symbolic link and where it points, byte for byte. It is never followed.
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
    /// Where it is below the root of its end. It has the same path at both ends.
    pub path: RelPath,
    /// What it is.
    pub kind: EntryKind,
    /// Length of the content in bytes; 0 for what is no file.
    pub len: u64,
    /// When the content was last modified.
    pub mtime: Timestamp,
    /// When it was last read, before haul read it.
    pub atime: Timestamp,
    /// When its inode was last changed, in content or metadata. Nobody can set it. `None` where its end does not tell.
    pub ctime: Option<Timestamp>,
    /// Permission bits with set-user-ID, set-group-ID and sticky: `st_mode & 0o7777`.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Owner and group by name, where the scan was asked for them.
    pub names: Option<Box<OwnerNames>>,
    /// Device of the file system it lives on (`st_dev`); tells hard links together with `ino`.
    pub dev: u64,
    /// Inode number at its own end.
    pub ino: u64,
    /// How many names the inode has.
    pub nlink: u32,
    /// Bytes that the file system has allocated; below `len` the file is sparse (or compressed on disk).
    pub allocated: u64,
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
}

impl Entry {
    /// One of which no more is known than its name, kind and length: both times at 1970-01-01, no permissions, owner
    /// and group 0, one name, no holes, no inode.
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

    /// Checks what no file system can have told: a peer or a store made it up, to be taken for something else by the system
    /// calls that set it. (An ID of all ones means "leave it", and so do numbers of nanoseconds beyond a second.)
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.uid == u32::MAX || self.gid == u32::MAX {
            return Err("its owner or group is 4294967295, which is nobody's number");
        }
        if [self.mtime, self.atime].iter().any(|time| time.nsec >= 1_000_000_000) {
            return Err("one of its times has more nanoseconds than a second has");
        }
        if self.mode & !0o7777 != 0 {
            return Err("its mode has more than permission bits");
        }
        if self.len > MAX_FILE_LEN {
            return Err("it is longer than 16 PiB, the longest file that haul can prove");
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

    /// What ties staged slices to one state of one source file.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { len: self.len, mtime: self.mtime, ctime: self.ctime, ino: self.ino }
    }

    /// A rough size of this entry in memory and on the wire, in bytes; queues are bounded by it.
    #[must_use]
    pub fn weight(&self) -> usize {
        let target = if let EntryKind::Symlink(to) = &self.kind { to.len() } else { 0 };
        let xattrs: usize = self.xattrs.iter().map(|(n, v)| n.len() + v.len() + 48).sum();
        192 + self.path.as_bytes().len() + target + xattrs
    }
}

/// What ties staged slices to one state of one source file: a resumed file goes on only if all of it is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Change time, which tells of content that was changed and had its modification time set back; `None` where the
    /// source has none.
    pub ctime: Option<Timestamp>,
    /// Inode number at the source.
    pub ino: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_no_file_system_tells() {
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
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}

//! The form of the file.
//!
//! * [`MAGIC`], with the version of the form;
//! * blocks of about [`BLOCK`] bytes: records, one after the other, in postcard. A folder comes before what is in it,
//!   which is in the order of the names; folders are in the order of their paths;
//! * a [`Footer`], in postcard: what the index is of, and which folder and name each block begins with;
//! * the length of the footer (u64, little-endian) and BLAKE3 of all before (32 bytes).
//!
//! All of it is hashed before any of it counts. Even so each length is checked before memory is taken.

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, RelPath, Timestamp};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// How a file begins.
pub(crate) const MAGIC: &[u8; 8] = b"HAULIDX1";
/// Bytes of the length of the footer and of the hash.
pub(crate) const TRAILER: u64 = 8 + 32;
/// Bytes after which a block ends: finding a folder decodes half of that, on average.
pub(crate) const BLOCK: usize = 32 * 1024;
/// An entry that is larger, by its attributes say, is not kept, and so neither is its folder.
pub(crate) const MAX_ENTRY: usize = 1024 * 1024;
/// Bytes of the largest block: one that was almost full, and an entry.
pub(crate) const MAX_BLOCK: usize = BLOCK + 2 * MAX_ENTRY;

/// What tells that the names in a folder are the same as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// Device of its file system.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// When a name was last added, taken away or given to something else.
    pub mtime: Timestamp,
    /// The same, and when its own metadata was last changed; nobody can set it back.
    pub ctime: Timestamp,
}

/// A folder that was listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folder {
    /// What it was before it was listed.
    pub(crate) stamp: Stamp,
    /// When it was listed, in seconds since 1970 by the clock of this machine.
    pub(crate) read: i64,
    /// How many of the names in it are no part of the source.
    pub(crate) hidden: u64,
}

/// Something in a folder, as it was when the folder was listed: an [`Entry`] without its path, and without names of
/// owners, which belong to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) name: ByteBuf,
    kind: EntryKind,
    len: u64,
    mtime: Timestamp,
    atime: Timestamp,
    mode: u32,
    uid: u32,
    gid: u32,
    dev: u64,
    ino: u64,
    nlink: u32,
    allocated: u64,
    xattrs: Vec<Xattr>,
}

impl Seen {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            name: ByteBuf::from(entry.path.name()),
            kind: entry.kind.clone(),
            len: entry.len,
            mtime: entry.mtime,
            atime: entry.atime,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            dev: entry.dev,
            ino: entry.ino,
            nlink: entry.nlink,
            allocated: entry.allocated,
            xattrs: entry.xattrs.clone(),
        }
    }

    /// The entry in this folder; `None` if the name is none.
    pub(crate) fn entry(self, folder: &RelPath) -> Option<Entry> {
        Some(Entry {
            path: folder.join(&self.name).ok()?,
            kind: self.kind,
            len: self.len,
            mtime: self.mtime,
            atime: self.atime,
            ctime: None,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            names: None,
            dev: self.dev,
            ino: self.ino,
            nlink: self.nlink,
            allocated: self.allocated,
            xattrs: self.xattrs,
        })
    }

    /// Its device, where devices are numbered anew.
    pub(crate) fn renumber(&mut self, from: u64, to: u64) {
        if self.dev == from {
            self.dev = to;
        }
    }
}

/// One record in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record {
    /// What follows is in this folder.
    Folder(RelPath, Folder),
    /// In the folder before.
    Seen(Seen),
}

/// Where a block is and what it begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The folder that the first record is, or is in.
    pub(crate) folder: RelPath,
    /// Its name in that folder; `None` if it is the folder.
    pub(crate) name: Option<ByteBuf>,
    /// Folders before the block.
    pub(crate) folders: u64,
}

impl Block {
    /// What blocks are found by.
    pub(crate) fn key(&self) -> (&RelPath, Option<&[u8]>) {
        (&self.folder, self.name.as_ref().map(|name| &name[..]))
    }
}

/// What is told at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// The source: its path on this machine.
    pub(crate) source: ByteBuf,
    /// The device that its root is on. Devices of network file systems are numbered anew when they are mounted.
    pub(crate) dev: u64,
    /// How many folders there are.
    pub(crate) folders: u64,
    pub(crate) blocks: Vec<Block>,
}

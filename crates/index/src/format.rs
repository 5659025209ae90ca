//! The file format.
//!
//! * [`MAGIC`], with the version of the format;
//! * blocks of about [`BLOCK`] bytes: records in sequence, in postcard. A directory precedes its entries, which are
//!   sorted by name; directories are sorted by path;
//! * a [`Footer`], in postcard: the source of the index, and the first key of each block;
//! * the length of the footer (u64, little-endian) and the BLAKE3 hash of everything before (32 bytes).
//!
//! The hash of the whole file is verified before any of it is used. Each length is checked before memory is
//! allocated all the same.

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, RelPath, Timestamp};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8; 8] = b"HAULIDX1";
/// Bytes of the footer length and of the hash.
pub(crate) const TRAILER: u64 = 8 + 32;
/// Bytes after which a block ends. A directory lookup decodes half a block on average.
pub(crate) const BLOCK: usize = 32 * 1024;
/// A larger entry, for instance with long attributes, is not kept, and neither is its directory.
pub(crate) const MAX_ENTRY: usize = 1024 * 1024;
/// The largest block in bytes: an almost full one plus an entry.
pub(crate) const MAX_BLOCK: usize = BLOCK + 2 * MAX_ENTRY;

/// Identifies the state of a directory: with an equal stamp it has the same names as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// Device of its file system.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// When a name was last added, removed or replaced.
    pub mtime: Timestamp,
    /// When its names or metadata last changed; nobody can set it back.
    pub ctime: Timestamp,
}

/// A directory that was listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexedDirectory {
    /// Its stamp before it was listed.
    pub(crate) stamp: Stamp,
    /// When it was listed, in seconds since 1970 by the local clock.
    pub(crate) read: i64,
    /// The number of names in it that are not part of the source.
    pub(crate) hidden: u64,
}

/// An entry of a directory at the time of the listing: an [`Entry`] without its path and without owner names, which
/// depend on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenEntry {
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

impl SeenEntry {
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

    /// The entry in this directory; `None` if the name is invalid.
    pub(crate) fn entry(self, directory: &RelPath) -> Option<Entry> {
        Some(Entry {
            path: directory.join(&self.name).ok()?,
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

    /// Replaces the device number, where devices were renumbered.
    pub(crate) fn renumber(&mut self, from: u64, to: u64) {
        if self.dev == from {
            self.dev = to;
        }
    }
}

/// One record in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum IndexRecord {
    /// A directory; the next records are in it.
    IndexedDirectory(RelPath, IndexedDirectory),
    /// An entry in the preceding directory.
    Seen(SeenEntry),
}

/// The position of a block and its first key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexBlock {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The directory of its first record.
    pub(crate) directory: RelPath,
    /// The name of that record; `None` if it is the directory itself.
    pub(crate) name: Option<ByteBuf>,
    /// Directories before the block.
    pub(crate) directories: u64,
}

impl IndexBlock {
    /// The key that blocks are searched by.
    pub(crate) fn key(&self) -> (&RelPath, Option<&[u8]>) {
        (&self.directory, self.name.as_ref().map(|name| &name[..]))
    }
}

/// The end of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// The path of the source.
    pub(crate) source: ByteBuf,
    /// The device of its root. Network file systems get new device numbers with each mount.
    pub(crate) dev: u64,
    /// The number of directories.
    pub(crate) directories: u64,
    pub(crate) blocks: Vec<IndexBlock>,
}

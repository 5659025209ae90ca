//! What is in a tree, and how to cut it into parts.
//!
//! A [`Collector`] takes the parts of a scan as they come, in any order, and keeps little of each entry: counts, the
//! largest few, and one line of every entry in a list that is sorted by path outside of memory ([`haul_spool::Sorter`]).
//! When the scan has ended, one pass over that list, in which a folder comes right before what is in it, tells the
//! figures of folders and cuts the tree into parts ([`split`]). Names of one file are found by a second such list,
//! sorted by inode, and names that differ only in case by a third ([`target`]).
//!
//! So memory is a few lists of 8 MiB, 32 KiB more for each 8 MiB of list on the disk, what is asked for by number
//! (the largest so many), and, while the tree is cut, some 50 bytes for each file of several names until all of them
//! were seen.

mod collect;
mod folders;
mod histogram;
mod links;
mod order;
pub mod split;
pub mod target;
mod top;

use haul_core::{Error, RelPath, Result};

pub use collect::Collector;
pub use histogram::Bucket;
pub use split::{Part, Split};
pub use target::{Reason, Target};

/// A file of at most so many bytes is small: what it costs is mostly its name. As in `haul-probe`.
pub const SMALL: u64 = 1024 * 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// How many of the largest, widest and deepest are named.
    pub top: usize,
    /// What the names are to fit.
    pub target: Option<Target>,
    /// How the tree is cut.
    pub split: Option<Split>,
}

/// Takes what may be longer than memory.
pub trait Output {
    /// The target cannot hold this entry under this name.
    fn unfit(&mut self, path: &RelPath);

    /// The entry is in part number `part`, counted from 0. A folder is told only if nothing was found in it.
    ///
    /// # Errors
    /// If it cannot be kept; that ends the planning.
    fn part(&mut self, part: usize, path: &RelPath) -> Result<()>;
}

/// Counts of a tree. A file of several names counts once in all that is about content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Names of any kind, the root included.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Bytes of content in them, holes included.
    pub bytes: u64,
    /// Folders, the root included.
    pub folders: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub specials: u64,
    /// Entries that the rules left out.
    pub excluded: u64,
    /// What could not be looked at.
    pub errors: u64,
    /// Files with fewer blocks than their length takes.
    pub sparse_files: u64,
    /// Bytes in their holes: what need not be sent or stored.
    pub hole_bytes: u64,
    /// Files of at most [`SMALL`] bytes.
    pub small_files: u64,
    /// Bytes in them.
    pub small_bytes: u64,
}

impl Tally {
    /// Counts the content of one file.
    fn file(&mut self, len: u64, allocated: u64) {
        self.files += 1;
        self.bytes += len;
        if len <= SMALL {
            self.small_files += 1;
            self.small_bytes += len;
        }
        let data = data_len(len, allocated);
        if data < len {
            self.sparse_files += 1;
            self.hole_bytes += len - data;
        }
    }
}

/// Something with a figure: bytes of a file, entries in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// What it is.
    pub path: RelPath,
    /// The figure.
    pub figure: u64,
}

/// What is below a folder, at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The folder.
    pub path: RelPath,
    /// Bytes in files, without holes; one of several names counts where its first name is.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// Files of which more than one name is in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardLinks {
    /// The files.
    pub files: u64,
    /// Their names in the tree.
    pub names: u64,
    /// Bytes that would come on top if each name became a file of its own.
    pub saved_bytes: u64,
    /// Files that have names outside of what was looked at, which a copy does not link.
    pub outside: u64,
    /// Those that save most, each by its first name.
    pub largest: Vec<Ranked>,
}

/// Names that do not fit the target for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Why.
    pub reason: Reason,
    /// How many.
    pub count: u64,
    /// The first of them that were found.
    pub examples: Vec<RelPath>,
}

/// What is in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The counts.
    pub tally: Tally,
    /// Files by size, the smallest first, from the first size that there is to the last.
    pub histogram: Vec<Bucket>,
    /// The largest files, by bytes.
    pub largest_files: Vec<Ranked>,
    /// The largest folders by the bytes below them; the root is left out.
    pub largest_folders: Vec<Folder>,
    /// The folders with the most entries in them, not counting what is below those.
    pub widest_folders: Vec<Ranked>,
    /// The folders furthest below the root, by the number of steps.
    pub deepest_folders: Vec<Ranked>,
    /// The longest name, by bytes.
    pub longest_name: Option<Ranked>,
    /// The longest path below the root, by bytes.
    pub longest_path: Option<Ranked>,
    /// Files of several names.
    pub hard_links: HardLinks,
    /// What the target cannot hold, by reason, the most frequent first.
    pub unfit: Vec<Unfit>,
    /// The parts, in the order of their numbers.
    pub parts: Vec<Part>,
}

/// Bytes of a file without its holes. Of small files that cannot be told, as their content may be elsewhere than in
/// blocks.
fn data_len(len: u64, allocated: u64) -> u64 {
    if len <= SMALL { len } else { len.min(allocated) }
}

/// A list outside of memory failed.
fn list_failed(error: &std::io::Error) -> Error {
    Error::list("entries", error)
}

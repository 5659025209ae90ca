//! Counts of a tree.

/// The largest small file in bytes: its cost is mostly its name. As in `haul-probe`.
pub const SMALL: u64 = 1024 * 1024;

/// Counts of a tree, under the names of `haul plan --json`. The content of a hard-linked file counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Names of any kind, the root included.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Bytes of content in them, holes included.
    pub bytes: u64,
    /// Directories, the root included.
    #[serde(rename = "folders")]
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub specials: u64,
    /// Entries that the filter rules exclude.
    pub excluded: u64,
    /// Entries that could not be read.
    pub errors: u64,
    /// Files with fewer blocks than their length takes.
    pub sparse_files: u64,
    /// Bytes in their holes, which need not be sent or stored.
    pub hole_bytes: u64,
    /// Files of at most [`SMALL`] bytes.
    pub small_files: u64,
    /// Bytes in them.
    pub small_bytes: u64,
}

impl Tally {
    /// Counts the content of one file.
    pub(crate) fn file(&mut self, len: u64, allocated: u64) {
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

/// The bytes of a file without its holes. A small file counts in full: its content may be stored outside of blocks.
pub(crate) fn data_len(len: u64, allocated: u64) -> u64 {
    if len <= SMALL { len } else { len.min(allocated) }
}

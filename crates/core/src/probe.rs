//! What a probe asks of an end, and the figures that come back.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::Timestamp;
use crate::location::Place;
use crate::path::RelPath;
use crate::text::shown;

/// Parts of files in one task at most.
pub const MAX_SAMPLES: usize = 1024;

/// A part of a file that is read for a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The file.
    pub path: RelPath,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// Bytes to read at most.
    pub len: u32,
    /// Whether it is a whole small file: those are counted, of others bytes are.
    pub small: bool,
}

/// Something to be measured or looked up where an end is. Each is done within a few seconds and leaves nothing behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeTask {
    /// Reads parts of files from the disk, and tries the processor on what is in them.
    Read {
        /// The source.
        place: Place,
        /// What is read, at most [`MAX_SAMPLES`].
        samples: Vec<Sample>,
    },
    /// Writes and syncs in the folder that the destination will be in, in files without a name.
    Write {
        /// The destination.
        place: Place,
    },
    /// Looks at the machine and at the file system of an end.
    Facts {
        /// The end.
        place: Place,
        /// The address of the machine at the other end of the link, where it is known.
        other: Option<String>,
    },
    /// What time it is there.
    Clock,
    /// How long its processors have worked.
    Work,
}

/// What came of a [`ProbeTask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeResult {
    /// To [`ProbeTask::Read`].
    Read(ReadFigures),
    /// To [`ProbeTask::Write`].
    Write(WriteFigures),
    /// To [`ProbeTask::Facts`].
    Facts(Box<Facts>),
    /// To [`ProbeTask::Clock`].
    Clock(Timestamp),
    /// To [`ProbeTask::Work`].
    Work(Work),
}

/// How long the processors of a machine have worked since it was started, in ticks of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// All that they did, and what a hypervisor kept from them.
    pub busy: u64,
    /// The same and the time in which they had nothing to do.
    pub total: u64,
}

impl Work {
    /// The share of the time since `before` in which they were busy, 0 to 1.
    #[must_use]
    pub fn share_since(&self, before: &Self) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1);
        (self.busy.saturating_sub(before.busy) as f64 / total as f64).min(1.0)
    }
}

/// How fast a source gives its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFigures {
    /// Bytes that were read for it.
    pub sampled_bytes: u64,
    /// Bytes per second of large files; `None` where there were none to read.
    pub bytes_per_second: Option<u64>,
    /// Small files per second, opened and read; `None` where there were none.
    pub files_per_second: Option<u64>,
    /// What the processor does with the content.
    pub cpu: CpuFigures,
}

/// How fast a destination takes content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFigures {
    /// Why nothing was written, if nothing was.
    #[serde(deserialize_with = "shown")]
    pub skipped: Option<String>,
    /// Bytes per second, written and synced.
    pub bytes_per_second: Option<u64>,
    /// Small files per second, made, written and given up, not synced one by one.
    pub files_per_second: Option<u64>,
    /// Microseconds that it takes to sync a few bytes.
    pub sync_micros: Option<u64>,
    /// What the processor does; nothing about compression.
    pub cpu: CpuFigures,
}

/// What one core of a machine does in a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFigures {
    /// Cores that this process may use.
    pub cores: u32,
    /// Bytes hashed with BLAKE3.
    pub hash: u64,
    /// Bytes encrypted with AES-128-GCM.
    pub aes: u64,
    /// What compression does to the sample.
    pub compress: Vec<CompressFigures>,
}

/// What one way to compress does to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressFigures {
    /// The way.
    pub method: Method,
    /// Bytes per second that one core takes in.
    pub bytes_per_second: u64,
    /// Bytes that come out for each thousand that go in.
    pub permille: u32,
}

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// LZ4, block format.
    Lz4,
    /// Zstandard at this level.
    Zstd(i32),
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// What an end is like. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The system's name and release.
    #[serde(deserialize_with = "shown")]
    pub system: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Whether the processor has instructions for AES.
    pub aes: bool,
    /// How the first core's frequency is governed, and by which driver.
    #[serde(deserialize_with = "shown")]
    pub governor: Option<(String, String)>,
    /// Files that this process may have open at once.
    pub open_files: u64,
    /// Settings of the network, under their names below `net`: `ipv4.tcp_rmem` and others.
    #[serde(deserialize_with = "shown")]
    pub network: BTreeMap<String, String>,
    /// The way to the machine at the other end.
    pub route: Option<Route>,
    /// The addresses that the ssh login came from and to.
    #[serde(deserialize_with = "shown")]
    pub ssh: Option<(String, String)>,
    /// Settings of sshd, where they may be read.
    #[serde(deserialize_with = "shown")]
    pub sshd: BTreeMap<String, String>,
    /// The folder that was looked at: the end's own, or the nearest one above it that exists.
    #[serde(deserialize_with = "shown")]
    pub folder: String,
    /// Whether this user may write into the folder.
    pub writable: bool,
    /// The mount that it is on.
    pub mount: Option<Mount>,
    /// What fits in still.
    pub space: Option<Space>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is mounted.
    #[serde(deserialize_with = "shown")]
    pub point: String,
    /// Its type, as `ext4` or `nfs4`.
    #[serde(deserialize_with = "shown")]
    pub kind: String,
    /// Its options, of the mount and of the file system.
    #[serde(deserialize_with = "shown")]
    pub options: Vec<String>,
}

/// What fits into a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Files that may still be made.
    pub free_inodes: u64,
    /// Files in all; 0 where the file system does not count them.
    pub inodes: u64,
}

/// The way that packets to another machine take, as this one knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The other machine's address.
    #[serde(deserialize_with = "shown")]
    pub to: String,
    /// The interface.
    #[serde(deserialize_with = "shown")]
    pub interface: String,
    /// Bytes in its packets at most.
    pub interface_mtu: u32,
    /// Bytes in packets on the whole way, as far as the kernel has learned.
    pub path_mtu: u32,
    /// The interface's speed in Mbit/s, where it tells.
    pub megabits: Option<u64>,
}

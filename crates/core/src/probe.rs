//! Tasks of `haul probe` for an end, and their results.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::Timestamp;
use crate::location::Place;
use crate::path::RelPath;
use crate::text::shown;

/// The most samples in one task.
pub const MAX_SAMPLES: usize = 1024;

/// A range of a file to read for a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSample {
    /// The file.
    pub path: RelPath,
    /// The offset in bytes.
    pub offset: u64,
    /// The most bytes to read.
    pub len: u32,
    /// Whether the sample is a whole small file, which counts as a file and not by its bytes.
    pub small: bool,
}

/// A measurement or lookup on the host of an end. Each takes a few seconds and leaves nothing behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeTask {
    /// Reads samples from disk, and measures hashing, encryption and compression of their content.
    Read {
        /// The source.
        place: Place,
        /// The samples, at most [`MAX_SAMPLES`].
        samples: Vec<ReadSample>,
    },
    /// Writes and syncs unnamed files in the directory of the destination.
    Write {
        /// The destination.
        place: Place,
    },
    /// Collects facts about the host and the file system of an end.
    Facts {
        /// The end.
        place: Place,
        /// The address of the host at the other end of the link, if known.
        other: Option<String>,
    },
    /// Reads the clock of the host.
    Clock,
    /// Reads the CPU times of the host.
    Work,
}

/// The result of a [`ProbeTask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeResult {
    /// Of [`ProbeTask::Read`].
    Read(ReadFigures),
    /// Of [`ProbeTask::Write`].
    Write(WriteFigures),
    /// Of [`ProbeTask::Facts`].
    Facts(Box<Facts>),
    /// Of [`ProbeTask::Clock`].
    Clock(Timestamp),
    /// Of [`ProbeTask::Work`].
    Work(CpuTicks),
}

/// The CPU times of a host since it booted, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// The busy time, with the time that a hypervisor took (steal).
    pub busy: u64,
    /// The busy and the idle time.
    pub total: u64,
}

impl CpuTicks {
    /// The busy share of the time since `before`, 0 to 1.
    #[must_use]
    pub fn share_since(&self, before: &Self) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1);
        (self.busy.saturating_sub(before.busy) as f64 / total as f64).min(1.0)
    }
}

/// The read speed of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFigures {
    /// The bytes read for the measurement.
    pub sampled_bytes: u64,
    /// The read rate of large files in bytes per second; `None` if there were none.
    pub bytes_per_second: Option<u64>,
    /// Small files opened and read per second; `None` if there were none.
    pub files_per_second: Option<u64>,
    /// The CPU figures for the content.
    pub cpu: CpuFigures,
}

/// The write speed of a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFigures {
    /// The reason why nothing was written, if so.
    #[serde(deserialize_with = "shown")]
    pub skipped: Option<String>,
    /// The rate of writing and syncing in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Small files created and written per second, without a sync for each.
    pub files_per_second: Option<u64>,
    /// The duration of a sync of a few bytes, in microseconds.
    pub sync_micros: Option<u64>,
    /// The CPU figures, without compression.
    pub cpu: CpuFigures,
}

/// The speed of one core of a host, per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFigures {
    /// The number of cores that this process may use.
    pub cores: u32,
    /// Bytes hashed with BLAKE3.
    pub hash: u64,
    /// Bytes encrypted with AES-128-GCM.
    pub aes: u64,
    /// The compression of the sample.
    pub compress: Vec<CompressFigures>,
}

/// The result of one compression method on a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressFigures {
    /// The method.
    pub method: ProbedMethod,
    /// The input rate of one core in bytes per second.
    pub bytes_per_second: u64,
    /// The compressed size in thousandths of the input.
    pub permille: u32,
}

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbedMethod {
    /// LZ4, block format.
    Lz4,
    /// Zstandard at this level.
    Zstd(i32),
}

impl fmt::Display for ProbedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// Facts about the host of an end. Unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The name and release of the operating system.
    #[serde(deserialize_with = "shown")]
    pub system: String,
    /// The number of cores that this process may use.
    pub cores: u32,
    /// Whether the CPU has AES instructions.
    pub aes: bool,
    /// The frequency governor of the first core, and its driver.
    #[serde(deserialize_with = "shown")]
    pub governor: Option<(String, String)>,
    /// The limit of open files of this process.
    pub open_files: u64,
    /// Network settings by their names below `net`, such as `ipv4.tcp_rmem`.
    #[serde(deserialize_with = "shown")]
    pub network: BTreeMap<String, String>,
    /// The route to the host at the other end.
    pub route: Option<Route>,
    /// The source and destination address of the ssh login.
    #[serde(deserialize_with = "shown")]
    pub ssh: Option<(String, String)>,
    /// The settings of sshd, if readable.
    #[serde(deserialize_with = "shown")]
    pub sshd: BTreeMap<String, String>,
    /// The examined directory: the root of the end, or the nearest existing directory above it.
    #[serde(deserialize_with = "shown")]
    pub directory: String,
    /// Whether the user may write to the directory.
    pub writable: bool,
    /// The mount of the directory.
    pub mount: Option<MountedFs>,
    /// The free space.
    pub space: Option<Space>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedFs {
    /// The mount point.
    #[serde(deserialize_with = "shown")]
    pub point: String,
    /// The file system type, such as `ext4` or `nfs4`.
    #[serde(deserialize_with = "shown")]
    pub kind: String,
    /// The options of the mount and of the file system.
    #[serde(deserialize_with = "shown")]
    pub options: Vec<String>,
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The bytes that this user may still write.
    pub free_bytes: u64,
    /// The total size in bytes.
    pub bytes: u64,
    /// The free inodes.
    pub free_inodes: u64,
    /// The total number of inodes; 0 if the file system does not count them.
    pub inodes: u64,
}

/// The route to another host, as this host knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The address of the other host.
    #[serde(deserialize_with = "shown")]
    pub to: String,
    /// The network interface.
    #[serde(deserialize_with = "shown")]
    pub interface: String,
    /// The MTU of the interface.
    pub interface_mtu: u32,
    /// The path MTU, as far as the kernel has discovered it.
    pub path_mtu: u32,
    /// The speed of the interface in Mbit/s, if known.
    pub megabits: Option<u64>,
}

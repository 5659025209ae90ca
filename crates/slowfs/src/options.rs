//! How a mount behaves.

use std::time::Duration;

/// The behaviour of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Delay of requests for names and attributes.
    pub meta: Duration,
    /// Delay of requests that read, write or sync content.
    pub data: Duration,
    /// How long the kernel may cache names and attributes.
    pub cache: Duration,
    /// Whether listings return attributes too (`READDIRPLUS`, as NFS does). The kernel uses them for as long as `cache`
    /// says.
    pub plus: bool,
    /// Whether the file system has extended attributes. NFS has none before version 4.2.
    pub xattrs: bool,
    /// Whether names are case-insensitive but case-preserving, as on FAT, SMB and APFS.
    pub folds_case: bool,
    /// The resolution of times in nanoseconds. Times are rounded down; 0 and 1 keep full resolution.
    pub time_unit: u64,
}

impl Default for MountOptions {
    fn default() -> Self {
        let no = Duration::ZERO;
        Self { meta: no, data: no, cache: no, plus: false, xattrs: true, folds_case: false, time_unit: 0 }
    }
}

impl MountOptions {
    /// Behaves like a remote NFS server before version 4.2: each request takes `delay`, listings return attributes that
    /// are cached for three seconds (`acregmin` of nfs(5)), and there are no extended attributes.
    #[must_use]
    pub fn nfs(delay: Duration) -> Self {
        Self {
            meta: delay,
            data: delay,
            cache: Duration::from_secs(3),
            plus: true,
            xattrs: false,
            ..Self::default()
        }
    }
}

//! Making files durable, and finding those that are not.
//!
//! `syncfs` writes back a whole file system at once, but its success certifies no single file. The kernel reports a
//! failed write-back of a file system once to each open file description, and only if the description was open when it
//! failed, or nobody has asked since. So the `syncfs` of another program, or an earlier one of this run, can consume
//! the error. The error of an inode, however, is reported to every description that was open, no matter who else asks.
//! So each file is checked on its own descriptor, even after a `syncfs` that succeeded.
//!
//! `fdatasync` checks a file, but on ext4 and XFS it flushes the cache of the disk for each file, even if nothing is
//! left to be written. After a successful `syncfs`, `sync_file_range` with `WAIT_BEFORE | WRITE | WAIT_AFTER` is
//! enough: it reports the same error of the inode (`file_check_and_advance_wb_err` in the kernel) without another
//! commit and flush. Stacked file systems keep the pages in an inode below, which it does not check; so it is used only
//! where it is known to work.

use haul_core::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use haul_core::Ops;

use crate::path::stat::Device;

/// Up to this many files are synced one by one, more through their file system.
const SYNC_EACH: usize = 3;

/// File systems whose inodes report write-back errors to `sync_file_range` (`linux/magic.h`): ext2 to ext4, XFS, Btrfs,
/// F2FS, tmpfs, NFS, FUSE. Stacked file systems such as overlayfs do not.
const REPORTING: [u32; 7] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x6969, 0x6573_5546];

/// The system calls that make files durable. Tests replace them by failing ones.
pub(crate) trait Disk: Send + Sync {
    /// `syncfs` of the file system of `file`.
    fn sync_file_system(&self, file: &File) -> io::Result<()>;
    /// `fdatasync` of the file.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Whether the content of the file reached the disk, after its file system was synced. `None` if that cannot be
    /// told.
    fn was_written(&self, file: &File, device: Device) -> Option<io::Result<()>>;
}

/// The system calls of the kernel.
#[derive(Default)]
pub(crate) struct Kernel {
    /// Whether `sync_file_range` reports errors, by file system.
    reporting: Mutex<HashMap<Device, bool>>,
}

impl Disk for Kernel {
    fn sync_file_system(&self, file: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(file)?)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn was_written(&self, file: &File, device: Device) -> Option<io::Result<()>> {
        self.is_reporting(file, device).then(|| wait_for_range(file))
    }
}

impl Kernel {
    fn is_reporting(&self, file: &File, device: Device) -> bool {
        let mut known = self.reporting.lock();
        *known.entry(device).or_insert_with(|| {
            // 32 bits, sign-extended on some architectures.
            rustix::fs::fstatfs(file).is_ok_and(|fs| REPORTING.contains(&(fs.f_type as u32)))
        })
    }
}

/// Waits for the write-back of a file, and reports its error.
#[allow(unsafe_code)]
fn wait_for_range(file: &File) -> io::Result<()> {
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers only; the descriptor is open as long as `file` is.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the files of an end durable.
pub(crate) struct Syncer {
    disk: Box<dyn Disk>,
    ops: Arc<Ops>,
    /// The file systems with a file that could not be synced. That was reported, or the file was sent again.
    known: Mutex<HashSet<Device>>,
}

/// The file systems that were synced for a group of files. Each file still needs [`Syncer::certify`].
#[derive(Debug, Default)]
pub(crate) struct Synced(HashSet<Device>);

impl Syncer {
    pub(crate) fn new(disk: Box<dyn Disk>, ops: Arc<Ops>) -> Self {
        Self { disk, ops, known: Mutex::default() }
    }

    /// Syncs the file systems of many files at once. A few files are left to be synced one by one, and so are all files
    /// of a file system whose sync failed: only the files themselves report which of them are lost.
    pub(crate) fn group<'a>(&self, files: impl Iterator<Item = (&'a File, Device)> + Clone) -> Synced {
        let mut synced = HashSet::new();
        if files.clone().nth(SYNC_EACH).is_none() {
            return Synced(synced);
        }
        let mut tried = HashSet::new();
        for (file, device) in files {
            if tried.insert(device) {
                self.ops.one();
                if self.disk.sync_file_system(file).is_ok() {
                    synced.insert(device);
                }
            }
        }
        Synced(synced)
    }

    /// Whether the content of a file is durable, asked on its own descriptor.
    ///
    /// # Errors
    /// The write-back error of the file.
    pub(crate) fn certify(&self, synced: &Synced, file: &File, device: Device) -> io::Result<()> {
        if synced.0.contains(&device)
            && let Some(answer) = self.disk.was_written(file, device)
        {
            return answer.inspect_err(|_| self.know(device));
        }
        self.file(file, device)
    }

    /// Syncs one file on its own descriptor.
    ///
    /// # Errors
    /// The write-back error of the file.
    pub(crate) fn file(&self, file: &File, device: Device) -> io::Result<()> {
        self.ops.one();
        self.disk.sync_file(file).inspect_err(|_| self.know(device))
    }

    fn know(&self, device: Device) {
        self.known.lock().insert(device);
    }

    /// Syncs a file system for names and directories. `handle` was open all the time, so it gets the error of each file
    /// that could not be synced. If that error is known, the second answer counts.
    ///
    /// # Errors
    /// A write-back error that is not known.
    pub(crate) fn names(&self, handle: &File, device: Device) -> io::Result<()> {
        self.ops.one();
        let answer = self.disk.sync_file_system(handle);
        let known = self.known.lock().contains(&device);
        if answer.is_err() && known { self.disk.sync_file_system(handle) } else { answer }
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;

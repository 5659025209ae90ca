//! Making files durable, and finding out which of them are not.
//!
//! `syncfs` writes back a whole file system at once, but its success certifies no file. The kernel reports a failed
//! write-back of a file system once to each open file description, and only if that was open when it failed or if
//! nobody has asked since: the `syncfs` of another program, or an earlier one here, can take the error away. What holds
//! for a file is the error of its own inode, and that is reported to the description through which it was written,
//! whoever else asks. So each file is asked about on its own descriptor, also after a `syncfs` that succeeded.
//!
//! `fdatasync` is that question, but ext4 and XFS flush the disk's cache for each file even if nothing is left to be
//! written. After a `syncfs` that succeeded `sync_file_range` with `WAIT_BEFORE | WRITE | WAIT_AFTER` does: it reports the
//! same error of the inode (`file_check_and_advance_wb_err` in the kernel) and neither commits nor flushes, which `syncfs` has done.
//! Stacked file systems keep the pages in the inode below, where it does not look; so it is used only where it
//! is known to work.

use haul_core::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use haul_core::Ops;

/// Up to this many files are synced one by one, more by their file system.
const SYNC_EACH: usize = 3;

/// File systems whose inodes report their own write-back errors to `sync_file_range` (`linux/magic.h`): ext2 to ext4,
/// XFS, Btrfs, F2FS, tmpfs, NFS, FUSE. No stacked one such as overlayfs.
const REPORTING: [u32; 7] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x6969, 0x6573_5546];

/// The number of a device: major, minor.
pub(super) type Device = (u32, u32);

/// The system calls that make files durable. Tests put failing ones in their place.
pub(super) trait Disk: Send + Sync {
    /// `syncfs` of the file system that `file` is on.
    fn sync_file_system(&self, file: &File) -> io::Result<()>;
    /// `fdatasync` of the file.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Whether what was written back of the file arrived, as far as its file system was synced before. `None`: this
    /// cannot tell.
    fn was_written(&self, file: &File, device: Device) -> Option<io::Result<()>>;
}

/// The real ones.
#[derive(Default)]
pub(super) struct Kernel {
    /// The file systems for which `sync_file_range` is known to tell.
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

/// Waits for what is being written back of a file, and reports the error of it.
#[allow(unsafe_code)]
fn wait_for_range(file: &File) -> io::Result<()> {
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers only; the descriptor is open as long as `file` is.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the files of an end durable.
pub(super) struct Syncer {
    disk: Box<dyn Disk>,
    ops: Arc<Ops>,
    /// Where a file could not be synced: it was told of, or sent again.
    known: Mutex<HashSet<Device>>,
}

/// What was done for a group of files. Each of them still has to be asked about by [`Syncer::certify`].
#[derive(Debug, Default)]
pub(super) struct Synced(HashSet<Device>);

impl Syncer {
    pub(super) fn new(disk: Box<dyn Disk>, ops: Arc<Ops>) -> Self {
        Self { disk, ops, known: Mutex::default() }
    }

    /// Writes back the file systems of many files at once. A few files are left to be synced one by one, and so is all
    /// of a file system whose sync failed: only its files themselves tell which of them it concerns.
    pub(super) fn group<'a>(&self, files: impl Iterator<Item = (&'a File, Device)> + Clone) -> Synced {
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

    /// Whether the content of this file is durable: the answer of its own descriptor.
    pub(super) fn certify(&self, synced: &Synced, file: &File, device: Device) -> io::Result<()> {
        if synced.0.contains(&device)
            && let Some(answer) = self.disk.was_written(file, device)
        {
            return answer.inspect_err(|_| self.know(device));
        }
        self.file(file, device)
    }

    /// Syncs one file by its own descriptor.
    pub(super) fn file(&self, file: &File, device: Device) -> io::Result<()> {
        self.ops.one();
        self.disk.sync_file(file).inspect_err(|_| self.know(device))
    }

    fn know(&self, device: Device) {
        self.known.lock().insert(device);
    }

    /// Syncs a file system for names and folders. `handle` was open all the time, so it is told of each file that could not
    /// be synced; where that is known already, what counts is the answer after it.
    pub(super) fn names(&self, handle: &File, device: Device) -> io::Result<()> {
        self.ops.one();
        let answer = self.disk.sync_file_system(handle);
        let known = self.known.lock().contains(&device);
        if answer.is_err() && known { self.disk.sync_file_system(handle) } else { answer }
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;

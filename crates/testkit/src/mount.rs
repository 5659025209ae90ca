//! Small file systems for a test, on loop devices or in memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::needs::tool;
use crate::scratch::Scratch;

/// The kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 on a loop device.
    Ext4,
    /// ext4 with inodes of 128 bytes, as in ext3: times in seconds, from 1901 to 2038.
    Ext4Seconds,
    /// XFS, with reflinks, on a loop device.
    Xfs,
    /// Btrfs on a loop device.
    Btrfs,
    /// tmpfs.
    Tmpfs,
}

/// A mounted file system. Unmounted on drop.
#[derive(Debug)]
pub struct TestMount {
    at: PathBuf,
    // Holds the image; dropped after the unmount.
    _scratch: Option<Scratch>,
}

impl TestMount {
    /// Creates a file system of `bytes` and mounts it in a directory of its own. XFS needs at least 300 MiB.
    #[must_use]
    pub fn new(kind: FileSystem, bytes: u64) -> Self {
        let scratch = Scratch::new();
        let at = scratch.join("mnt");
        fs::create_dir(&at).unwrap();
        if kind == FileSystem::Tmpfs {
            mount_tmpfs(&at, bytes);
            return Self { at, _scratch: Some(scratch) };
        }
        let image = scratch.join("image");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        make(kind, &image);
        tool(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at));
        Self { at, _scratch: Some(scratch) }
    }

    /// FAT, by the kernel or by fusefat, which supports small files only. Times in units of 2 s, case-insensitive
    /// names.
    #[must_use]
    pub fn fat(bytes: u64) -> Self {
        let by_kernel = fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("\tvfat\n"));
        let mount: &[&str] = if by_kernel { &["mount", "-o", "loop"] } else { &["fusefat", "-o", "rw+"] };
        Self::without_case(&["mkfs.vfat", "-F", "32"], mount, bytes)
    }

    /// NTFS, by lowntfs-3g. Times in units of 100 ns, case-insensitive names.
    #[must_use]
    pub fn ntfs(bytes: u64) -> Self {
        Self::without_case(&["mkfs.ntfs", "-q", "-F"], &["lowntfs-3g", "-o", "ignore_case"], bytes)
    }

    fn without_case(make: &[&str], mount: &[&str], bytes: u64) -> Self {
        let scratch = Scratch::new();
        let (at, image) = (scratch.join("mnt"), scratch.join("image"));
        fs::create_dir(&at).unwrap();
        File::create(&image).unwrap().set_len(bytes).unwrap();
        tool(Command::new(make[0]).args(&make[1..]).arg(&image));
        tool(Command::new(mount[0]).args(&mount[1..]).arg(&image).arg(&at));
        Self { at, _scratch: Some(scratch) }
    }

    /// Mounts a tmpfs of `bytes` at the directory `at`.
    #[must_use]
    pub fn tmpfs_at(at: &Path, bytes: u64) -> Self {
        mount_tmpfs(at, bytes);
        Self { at: at.to_owned(), _scratch: None }
    }

    /// Resizes a tmpfs.
    pub fn resize_tmpfs(&self, bytes: u64) {
        tool(Command::new("mount").args(["-o", &format!("remount,size={bytes}")]).arg(&self.at));
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The path of `name` below the mount point.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at.join(name)
    }

    /// The number of used bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        tool(Command::new("sync").arg("-f").arg(&self.at));
        let stat = rustix::fs::statvfs(&self.at).unwrap();
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }
}

/// Creates a file system in the file `image`, with the size of the file.
pub(crate) fn make(kind: FileSystem, image: &Path) {
    let (make, options): (&str, &[&str]) = match kind {
        FileSystem::Xfs => ("mkfs.xfs", &["-q", "-m", "reflink=1"]),
        FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        FileSystem::Ext4Seconds => ("mkfs.ext4", &["-q", "-F", "-I", "128", "-m", "0"]),
        FileSystem::Ext4 | FileSystem::Tmpfs => ("mkfs.ext4", &["-q", "-F", "-I", "256", "-m", "0"]),
    };
    tool(Command::new(make).args(options).arg(image));
}

fn mount_tmpfs(at: &Path, bytes: u64) {
    let options = format!("size={bytes},mode=755");
    tool(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at));
}

impl Drop for TestMount {
    fn drop(&mut self) {
        let umount = |lazily: bool| {
            let mut command = Command::new("umount");
            if lazily {
                command.arg("-l");
            }
            let status = command.arg(&self.at).stdin(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        // Busy only if a failed test left a file open. A detached mount ends with that process.
        if !umount(false) {
            umount(true);
        }
    }
}

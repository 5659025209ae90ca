//! A disk that loses power, and whose operations fail.
//!
//! It is one file of a file system in user space (FUSE), below a loop device. Writes go into a volatile cache and become
//! durable with the next flush, as on a real disk. At a cut the disk keeps any subset of the block writes that were
//! not flushed, and answers `EIO` from then on, till the file system is mounted again.
//!
//! ```no_run
//! use haul_testkit::{CrashDisk, DiskFault, DiskOp, FileSystem, Keep, Trigger};
//! let mut disk = CrashDisk::new(FileSystem::Ext4, 320 << 20);
//! disk.cut_at(Trigger::Flush(3), Keep::Random(7));
//! // ... a program writes below disk.path(); kill whatever still has files open there, then:
//! disk.remount();
//! // ... the file system now has the state after the power cut.
//! disk.fail(DiskFault::of(DiskOp::Write).content_only().skip(5).times(20));
//! // ... a run that is to fail
//! disk.heal();
//! // ... a run that is to succeed, on the same mount
//! ```
//!
//! Cut power only when whoever writes to the disk can be stopped: a machine without power runs no programs.

mod cache;
mod image;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};

pub use cache::{BLOCK, DiskCounts, DiskFault, DiskOp, Keep, Trigger};

use crate::content;
use crate::mount::{FileSystem, make};
use crate::needs::tool;
use crate::process::comes_true;
use crate::scratch::Scratch;
use crate::tools::write_program;
use cache::{DiskBlocks, DiskCache};
use image::Image;

/// Bytes in a request of the loop device: one request of FUSE, which takes up to 1 MiB.
const LONGEST_REQUEST: usize = 512 << 10;

/// How long a file system may take to let go of its device.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// A file system on a disk that can fail and lose power. Unmounted and gone on drop.
pub struct CrashDisk {
    kind: FileSystem,
    options: String,
    image: Image,
    /// The device while it is mounted.
    device: Option<PathBuf>,
    saved: DiskBlocks,
    boots: u64,
    session: Option<fuser::BackgroundSession>,
    // Dropped last: holds both mount points.
    scratch: Scratch,
}

impl CrashDisk {
    /// Makes a file system of `bytes` and mounts it. XFS takes no less than 300 MiB; unwritten space costs nothing.
    ///
    /// # Panics
    /// If a tmpfs is asked for, which has no disk.
    #[must_use]
    pub fn new(kind: FileSystem, bytes: u64) -> Self {
        let options = match kind {
            // The journal is written each second instead of every 5, so that a cut can lose a commit sooner.
            FileSystem::Ext4 | FileSystem::Ext4Seconds => "commit=1",
            // A copy of an image has the same identity.
            FileSystem::Xfs => "nouuid",
            FileSystem::Btrfs => "commit=1",
            FileSystem::Tmpfs => panic!("a tmpfs has no disk"),
        };
        let scratch = Scratch::new();
        for dir in ["disk", "mnt"] {
            fs::create_dir(scratch.join(dir)).unwrap();
        }
        // Programs of `booted` have mounts of their own. An unmount here has to reach them.
        mount_bind(scratch.path(), scratch.path()).unwrap();
        mount_change(scratch.path(), MountPropagationFlags::SHARED).unwrap();
        let image = Image(Arc::new(Mutex::new(DiskCache::new(bytes))));
        let mut config = fuser::Config::default();
        config.mount_options = vec![fuser::MountOption::FSName("haul-crashdisk".to_owned())];
        config.acl = fuser::SessionACL::Owner;
        let session = fuser::Session::new(image.clone(), scratch.join("disk"), &config)
            .and_then(fuser::Session::spawn)
            .unwrap_or_else(|error| panic!("cannot mount a file system in user space: {error}"));
        let mut disk = Self {
            kind,
            options: options.to_owned(),
            image,
            device: None,
            saved: DiskBlocks::new(),
            boots: 0,
            session: Some(session),
            scratch,
        };
        make(kind, &disk.file());
        disk.saved = disk.image.lock().snapshot();
        disk.restore();
        disk.boot();
        disk
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.scratch.join("mnt")
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// The operations so far.
    #[must_use]
    pub fn counts(&self) -> DiskCounts {
        self.image.lock().counts()
    }

    /// Lets operations fail from now on, in addition to those that fail already.
    pub fn fail(&self, fault: DiskFault) {
        self.image.lock().add(fault);
    }

    /// Ends all faults, and forgets a cut that has not happened yet.
    pub fn heal(&self) {
        self.image.lock().heal();
    }

    /// Answers nothing for so long.
    pub fn stall(&self, time: Duration) {
        let _all = self.image.lock();
        thread::sleep(time);
    }

    /// Cuts the power at an operation to come.
    pub fn cut_at(&self, trigger: Trigger, keep: Keep) {
        self.image.lock().cut_at(trigger, keep);
    }

    /// Cuts the power.
    pub fn cut_now(&self, keep: Keep) {
        self.image.lock().cut_now(keep);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.image.lock().is_off()
    }

    /// Unmounts it, turns the power on if it was cut, and mounts the durable blocks. Without a cut this is a clean
    /// unmount, and the kernel keeps nothing of the file system in memory.
    ///
    /// # Panics
    /// If a process still uses it, or the file system does not come up.
    pub fn remount(&mut self) {
        self.unmount();
        let was_cut = self.is_cut();
        self.image.lock().power_on();
        self.mount();
        if was_cut {
            self.boot();
        }
    }

    /// Saves the content of the disk for [`CrashDisk::restore`].
    ///
    /// # Panics
    /// If a process still uses it.
    pub fn save(&mut self) {
        self.unmount();
        self.saved = self.image.lock().snapshot();
        self.mount();
    }

    /// Puts back the content of the last [`CrashDisk::save`], or an empty file system, and turns the power on.
    ///
    /// # Panics
    /// If a process still uses it.
    pub fn restore(&mut self) {
        self.unmount();
        self.image.lock().restore(&self.saved);
        self.mount();
    }

    /// A program that runs another one, whose words follow, on a machine that was booted when the power last came
    /// back: `/proc/sys/kernel/random/boot_id` and `/proc/stat` say so. Ends with 255 while the power is off. It takes
    /// the right to mount.
    #[must_use]
    pub fn booted(&self) -> PathBuf {
        self.scratch.join("booted")
    }

    /// Makes the boot id another one, and this moment the time of the boot.
    fn boot(&mut self) {
        self.boots += 1;
        let random = content::key(self.boots, self.scratch.path().as_os_str().as_bytes());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (id, stat) = (self.scratch.join("boot_id"), self.scratch.join("stat"));
        let texts = [
            (&id, format!("{:08x}-0000-4000-8000-{:012x}\n", random as u32, self.boots)),
            (&stat, format!("btime {now}\n")),
        ];
        for (path, text) in texts {
            // Programs of an earlier boot keep theirs.
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(&new, path).unwrap();
        }
        let script = format!(
            "#!/bin/sh\nhead -c 1 {} >/dev/null 2>&1 || exit 255\n\
             exec unshare --mount --propagation slave sh -c \
             'mount --bind {} /proc/sys/kernel/random/boot_id && mount --bind {} /proc/stat && exec \"$@\"' \
             sh \"$@\"\n",
            self.file().display(),
            id.display(),
            stat.display(),
        );
        write_program(&self.booted(), script);
    }

    fn file(&self) -> PathBuf {
        self.scratch.join("disk").join(image::NAME)
    }

    fn mount(&mut self) {
        let attach =
            |direct: &str| tool(Command::new("losetup").args(["--find", "--show", direct]).arg(self.file()));
        let device = PathBuf::from(attach("--direct-io=on").trim());
        // A request that FUSE has to split can be written in part, and the loop driver takes that for success.
        let queue = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("queue");
        fs::write(queue.join("max_sectors_kb"), (LONGEST_REQUEST / 1024).to_string()).unwrap();
        let kind = match self.kind {
            FileSystem::Ext4 | FileSystem::Ext4Seconds => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
            FileSystem::Tmpfs => "tmpfs",
        };
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", &self.options]).arg(&device).arg(self.path());
        let done = mount.stdin(Stdio::null()).output().unwrap();
        // In use, it is detached once nobody uses it: so also if this process is killed.
        tool(Command::new("losetup").arg("-d").arg(&device));
        assert!(done.status.success(), "cannot mount: {}", String::from_utf8_lossy(&done.stderr));
        self.device = Some(device);
    }

    /// Unmounts it and waits until the kernel holds nothing of it.
    fn unmount(&mut self) {
        let Some(device) = self.device.take() else { return };
        if unmount(self.path(), UnmountFlags::empty()).is_err() {
            // Whoever uses it may be about to end.
            let _ = unmount(self.path(), UnmountFlags::DETACH);
        }
        let released = comes_true(RELEASE_LIMIT, || !self.is_behind(&device));
        assert!(released, "{} is still in use{}", self.path().display(), users(&self.path()));
        if self.kind == FileSystem::Btrfs {
            // It remembers devices by the identity of the file system.
            let mut forget = Command::new("btrfs");
            forget.args(["device", "scan", "--forget"]).arg(&device);
            let _ = forget.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }

    /// Whether the image of this disk is behind a loop device.
    fn is_behind(&self, device: &Path) -> bool {
        let name = device.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        fs::read_to_string(backing).is_ok_and(|path| Path::new(path.trim_end()) == self.file())
    }
}

impl Drop for CrashDisk {
    fn drop(&mut self) {
        // Nobody needs the unflushed writes any more, even after a panic, and nothing may wait for them.
        self.image.lock().cut_now(Keep::None);
        if self.device.is_some() && unmount(self.path(), UnmountFlags::empty()).is_err() {
            let _ = unmount(self.path(), UnmountFlags::DETACH);
        }
        if let Some(device) = self.device.take() {
            let _ = comes_true(RELEASE_LIMIT, || !self.is_behind(&device));
        }
        if unmount(self.scratch.join("disk"), UnmountFlags::empty()).is_ok()
            && let Some(session) = self.session.take()
        {
            // The kernel has let go of it, so its thread ends.
            let _ = session.umount_and_join();
        } else {
            let _ = unmount(self.scratch.join("disk"), UnmountFlags::DETACH);
        }
        let _ = unmount(self.scratch.path(), UnmountFlags::DETACH);
    }
}

/// The processes that have something open below `path`, for a message.
fn users(path: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let uses = |dir: &str| {
            let links = fs::read_dir(entry.path().join(dir)).into_iter().flatten().flatten();
            links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| target.starts_with(path))
        };
        let here = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(path));
        if here || uses("fd") {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let _ = write!(text, " by {} ({})", name.trim(), entry.file_name().display());
        }
    }
    text
}

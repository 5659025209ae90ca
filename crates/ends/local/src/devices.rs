//! The file systems that are found below a root, each held open so that it can be synced in the end.
//!
//! The handle is opened before anything is written there: the kernel reports a failed write-back to every handle that
//! was open when it happened, whoever else asks.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::stat;
use super::sync::Device;

/// A handle on some folder of each file system; or why there is none.
#[derive(Default)]
pub(super) struct Devices(Mutex<HashMap<Device, Result<File, Errno>>>);

impl Devices {
    /// Takes note of the file system that a folder is on.
    pub(super) fn note(&self, folder: impl AsFd) {
        let Ok(now) = stat::statx_file(folder.as_fd()) else { return };
        let mut known = self.0.lock();
        let handle = known.entry((now.stx_dev_major, now.stx_dev_minor)).or_insert(Err(Errno::ACCESS));
        if handle.is_err() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            *handle = rustix::fs::openat(folder, ".", flags, Mode::empty()).map(File::from);
        }
    }

    /// Calls `sync` with a handle on each file system; up to the first error.
    pub(super) fn each(&self, sync: impl Fn(&File, Device) -> io::Result<()>) -> io::Result<()> {
        let known = self.0.lock();
        known.iter().try_for_each(|(device, handle)| sync(handle.as_ref().map_err(|errno| *errno)?, *device))
    }

    /// Whether this one is among them.
    pub(super) fn has(&self, device: Device) -> bool {
        self.0.lock().get(&device).is_some_and(Result::is_ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_file_system_is_known_once() {
        let devices = Devices::default();
        let here = tempfile::tempdir_in(".").unwrap();
        for folder in [here.path(), here.path().parent().unwrap(), std::path::Path::new("/proc")] {
            devices.note(File::open(folder).unwrap());
        }
        let count = Cell::new(0);
        let counted = |_: &File, _| {
            count.set(count.get() + 1);
            Ok(())
        };
        devices.each(counted).unwrap();
        assert_eq!(count.get(), 2, "this one, and /proc");
        devices.each(|_, _| Err(Errno::IO.into())).unwrap_err();
        let now = stat::statx_file(File::open(here.path()).unwrap()).unwrap();
        assert!(devices.has((now.stx_dev_major, now.stx_dev_minor)) && !devices.has((0xFFF, 1)));
    }
}

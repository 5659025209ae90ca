//! The file systems below a root, each held open to be synced at the end.
//!
//! A handle is opened before anything is written to the file system: the kernel reports a failed write-back to every
//! handle that was open at that time, no matter which other program asks too.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::path::stat::{self, Device};

/// A handle on some directory of each file system, or the error of opening it.
#[derive(Default)]
pub(crate) struct Devices(Mutex<HashMap<Device, Result<File, Errno>>>);

impl Devices {
    /// Adds the file system that a directory is on.
    pub(crate) fn note(&self, directory: impl AsFd) {
        let Ok(now) = stat::statx_file(directory.as_fd()) else { return };
        let mut known = self.0.lock();
        let handle = known.entry(stat::device(&now)).or_insert(Err(Errno::ACCESS));
        if handle.is_err() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            *handle = rustix::fs::openat(directory, ".", flags, Mode::empty()).map(File::from);
        }
    }

    /// Calls `sync` with a handle on each file system, up to the first error.
    pub(crate) fn each(&self, sync: impl Fn(&File, Device) -> io::Result<()>) -> io::Result<()> {
        let known = self.0.lock();
        known.iter().try_for_each(|(device, handle)| sync(handle.as_ref().map_err(|errno| *errno)?, *device))
    }

    /// Whether the file system is open.
    pub(crate) fn has(&self, device: Device) -> bool {
        self.0.lock().get(&device).is_some_and(Result::is_ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_file_system_is_opened_once() {
        let devices = Devices::default();
        let here = tempfile::tempdir_in(".").unwrap();
        for directory in [here.path(), here.path().parent().unwrap(), std::path::Path::new("/proc")] {
            devices.note(File::open(directory).unwrap());
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
        assert!(devices.has(stat::device(&now)) && !devices.has((0xFFF, 1)));
    }
}

//! Named pipes in a directory that other users may be able to write to. Only a pipe in that directory is opened,
//! whatever was put in its place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::{Error, ErrorKind, Result, Side};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fcntl_setfl, fstat, mkfifoat, openat, unlinkat};

/// A directory of named pipes, held open.
#[derive(Debug)]
pub struct PipeDirectory {
    dir: OwnedFd,
    path: PathBuf,
}

impl PipeDirectory {
    /// Opens a directory.
    ///
    /// # Errors
    /// The error of `openat`, also if it is not a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a directory to create pipes in it.
    ///
    /// # Errors
    /// `Usage` if another user owns it, who could replace a pipe and read the content; else the error of opening it.
    pub fn open_own(path: &Path) -> Result<Self> {
        let shown = path.as_os_str().as_bytes();
        let failed =
            |error: &io::Error| Error::io(Side::Destination, "open the directory of pipes", error).on(shown);
        let directory = Self::open(path).map_err(|error| failed(&error))?;
        let owner = fstat(&directory.dir).map_err(|error| failed(&error.into()))?.st_uid;
        if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
            let cause = "it belongs to another user, who could put something else in the place of a pipe";
            let error = Error::new(ErrorKind::Usage, Side::Local, "use the directory", cause).on(shown);
            return Err(error.with_hint("name a directory of your own"));
        }
        Ok(directory)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a pipe.
    ///
    /// # Errors
    /// The error of `mkfifoat`, also if the name exists.
    pub fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkfifoat(&self.dir, name, Mode::RUSR | Mode::WUSR)?)
    }

    /// Opens a pipe for reading. Opening does not block; reading does.
    ///
    /// # Errors
    /// The error of `openat`, or that it is not a pipe.
    pub fn reader(&self, name: &Path) -> io::Result<OwnedFd> {
        let fd = openat(&self.dir, name, OFlags::RDONLY | FLAGS, Mode::empty())?;
        checked(fd, |_| true)
    }

    /// Opens a pipe of this user for writing.
    ///
    /// # Errors
    /// `ENXIO` if it has no reader yet, another error of `openat`, or that it is not a pipe or another user's.
    pub fn writer(&self, name: &str) -> io::Result<OwnedFd> {
        let fd = openat(&self.dir, name, OFlags::WRONLY | FLAGS, Mode::empty())?;
        checked(fd, |owner| owner == rustix::process::geteuid().as_raw())
    }

    /// Removes a pipe.
    ///
    /// # Errors
    /// The error of `unlinkat`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }
}

/// Links are not followed, and opening something other than a pipe has no effect on it.
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

fn checked(fd: OwnedFd, is_owner: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let stat = fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo || !is_owner(stat.st_uid) {
        return Err(io::Error::other("something else is in the place of the named pipe"));
    }
    fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd)
}

/// The capacity of a pipe: the most that an unprivileged process may set, unless `/proc/sys/fs/pipe-max-size` was
/// changed.
const CAPACITY: usize = 1 << 20;

/// Enlarges a pipe from the default 64 KiB, so that both of its ends wake up less often. Anything else, and a pipe that
/// may not grow, stays as it is.
pub fn widen(fd: &impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, CAPACITY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pipes_are_opened_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = PipeDirectory::open_own(dir.path()).unwrap();
        directory.make("pipe").unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("pipe", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link-to-file")).unwrap();
        assert!(directory.writer("pipe").is_err_and(|error| error.raw_os_error() == Some(6)), "no reader");
        let _reader = directory.reader(Path::new("pipe")).unwrap();
        directory.writer("pipe").unwrap();
        for name in ["file", "link", "link-to-file"] {
            assert!(directory.writer(name).is_err() && directory.reader(Path::new(name)).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"x");
        directory.remove("pipe").unwrap();
        assert!(PipeDirectory::open(&dir.path().join("file")).is_err());
    }

    #[test]
    fn pipes_are_not_created_in_the_directory_of_another_user() {
        let dir = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert_eq!(PipeDirectory::open_own(dir.path()).unwrap_err().kind(), ErrorKind::Usage);
        // Content that the owner writes may be read.
        PipeDirectory::open(dir.path()).unwrap();
    }
}

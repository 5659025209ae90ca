//! Named pipes in a folder that other users may be able to write to: what is opened is a pipe in that folder, whatever was
//! put in its place.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::{Error, ErrorKind, Result, Side};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fcntl_setfl, fstat, mkfifoat, openat, unlinkat};

/// A folder of named pipes, held open.
#[derive(Debug)]
pub struct PipeFolder {
    dir: OwnedFd,
    path: PathBuf,
}

impl PipeFolder {
    /// Opens it.
    ///
    /// # Errors
    /// If it is no folder, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens it to make pipes in it that content is written to.
    ///
    /// # Errors
    /// If it cannot be opened, or belongs to another user, who could read the content in the place of its reader.
    pub fn open_own(path: &Path) -> Result<Self> {
        let shown = path.as_os_str().as_bytes();
        let failed =
            |error: &io::Error| Error::io(Side::Destination, "open the folder of pipes", error).on(shown);
        let folder = Self::open(path).map_err(|error| failed(&error))?;
        let owner = fstat(&folder.dir).map_err(|error| failed(&error.into()))?.st_uid;
        if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
            let cause = "it belongs to another user, who could put something else in the place of a pipe";
            let error = Error::new(ErrorKind::Usage, Side::Local, "use the folder", cause).on(shown);
            return Err(error.with_hint("name a folder of your own"));
        }
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a pipe.
    ///
    /// # Errors
    /// If it cannot be made, or something has this name.
    pub fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkfifoat(&self.dir, name, Mode::RUSR | Mode::WUSR)?)
    }

    /// Opens a pipe to read from; this waits for nobody, but reading does.
    ///
    /// # Errors
    /// If it cannot be opened, or is no pipe.
    pub fn reader(&self, name: &Path) -> io::Result<OwnedFd> {
        let fd = openat(&self.dir, name, OFlags::RDONLY | FLAGS, Mode::empty())?;
        checked(fd, |_| true)
    }

    /// Opens a pipe of this user's to write to; `ENXIO` if it has no reader yet.
    ///
    /// # Errors
    /// If it cannot be opened, is no pipe, or another user's.
    pub fn writer(&self, name: &str) -> io::Result<OwnedFd> {
        let fd = openat(&self.dir, name, OFlags::WRONLY | FLAGS, Mode::empty())?;
        checked(fd, |owner| owner == rustix::process::geteuid().as_raw())
    }

    /// Removes a pipe.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }
}

/// Links are not followed, and what is no pipe is opened without an effect.
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

fn checked(fd: OwnedFd, is_owner: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let stat = fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo || !is_owner(stat.st_uid) {
        return Err(io::Error::other("something else is in the place of the named pipe"));
    }
    fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pipes_are_opened_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = PipeFolder::open_own(dir.path()).unwrap();
        folder.make("pipe").unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("pipe", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link-to-file")).unwrap();
        assert!(folder.writer("pipe").is_err_and(|error| error.raw_os_error() == Some(6)), "no reader");
        let _reader = folder.reader(Path::new("pipe")).unwrap();
        folder.writer("pipe").unwrap();
        for name in ["file", "link", "link-to-file"] {
            assert!(folder.writer(name).is_err() && folder.reader(Path::new(name)).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"x");
        folder.remove("pipe").unwrap();
        assert!(PipeFolder::open(&dir.path().join("file")).is_err());
    }

    #[test]
    fn the_folder_of_another_user_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert_eq!(PipeFolder::open_own(dir.path()).unwrap_err().kind(), ErrorKind::Usage);
        // Content that its owner writes may be read from there.
        PipeFolder::open(dir.path()).unwrap();
    }
}

//! A special file as the output of a stream: its content is written into it.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::{Error, ErrorKind, Result, Side};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Opens a character device or a pipe, also through a link such as `/dev/stderr`; `None` if `path` is neither, or is
/// missing.
///
/// # Errors
/// `Usage` for a pipe that no program reads, a block device and a socket; else the error of opening it.
pub(super) fn open(path: &Path) -> Result<Option<OwnedFd>> {
    let shown = path.as_os_str().as_bytes();
    let refused = |cause, hint: &str| {
        Error::new(ErrorKind::Usage, Side::Destination, "write to", cause).on(shown).with_hint(hint)
    };
    let Ok(stat) = rustix::fs::stat(path) else { return Ok(None) };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice | FileType::Fifo => {}
        FileType::BlockDevice => {
            return Err(refused(
                "it is a block device",
                "`haul get SRC | dd of=DEVICE conv=fsync` writes to it",
            ));
        }
        FileType::Socket => return Err(refused("it is a socket", "name a file or a pipe")),
        _ => return Ok(None),
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let opened = opened.and_then(|fd| rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map(|()| fd));
    match opened {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NXIO) => {
            Err(refused("no program reads this pipe", "start the program that reads it first"))
        }
        Err(errno) => Err(Error::io(Side::Destination, "open", &errno.into()).on(shown)),
    }
}

//! Non-blocking descriptors: waits that end when the stream is given up, and writes of everything.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::liveness::Liveness;

/// How often a wait for a descriptor checks whether the stream was abandoned.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// If the system refuses.
pub(crate) fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(())
}

/// The error of a stream that this end abandoned.
pub(crate) fn given_up() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up")
}

/// Waits until a descriptor is ready.
///
/// # Errors
/// [`io::ErrorKind::ConnectionAborted`] if the stream was abandoned.
pub(crate) fn wait(fd: BorrowedFd<'_>, flags: PollFlags, liveness: &Liveness) -> io::Result<()> {
    loop {
        if liveness.is_ended() {
            return Err(given_up());
        }
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes several runs of bytes completely to a non-blocking stream.
pub(crate) fn write_all<W: Write>(
    slices: &mut [IoSlice<'_>],
    output: &mut W,
    liveness: &Liveness,
    mut wait: impl FnMut(&W, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = slices;
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match output.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                liveness.sent(n);
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(output, rest.iter().map(|slice| slice.len()).sum())?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

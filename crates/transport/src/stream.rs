//! What bytes come from and go to: descriptors that ssh has at its other end, or a TLS connection.
//!
//! Both kinds are non-blocking and waited for with `poll`, so that a stream that was given up ends its reader and its
//! writer.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::liveness::Liveness;
use crate::secure::{SecureReader, SecureWriter};

/// How long a wait for a descriptor goes on without looking whether the stream was given up.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Bytes that a reader of a descriptor may take ahead of what was asked for. Headers and small bodies then come with
/// one system call; of a payload no more than this is copied a second time.
const READ_AHEAD: usize = 8 * 1024;

/// A pipe wakes who waits for it with every 32 KiB that ssh moves. In the middle of a payload, with a pipe that holds
/// this much, it is cheaper to come back a little later for more at a time. Sockets see to that by themselves.
const ROOMY: usize = 512 * 1024;
/// How much later: a fraction of the time in which the fastest ssh fills or empties such a pipe.
const NAP: Duration = Duration::from_millis(1);
/// Bytes that must be left of a payload for that.
const WORTH_A_NAP: usize = 256 * 1024;

/// The two directions of a connection.
pub struct Streams {
    /// What comes from the other end.
    pub from: Receive,
    /// What goes to the other end.
    pub to: Transmit,
    /// The socket beneath both, where there is one, to be asked about and to be cut.
    pub socket: Option<TcpStream>,
}

impl Streams {
    /// Over two descriptors, which are made non-blocking.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn plain(from: OwnedFd, to: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&from)?;
        set_nonblocking(&to)?;
        Ok(Self { from: Receive::plain(from, READ_AHEAD), to: Transmit::plain(to), socket: None })
    }
}

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// If the system refuses.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(())
}

fn is_roomy_pipe(fd: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size >= ROOMY)
}

/// The error of a stream that was given up here.
pub(crate) fn given_up() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up")
}

/// Waits until a descriptor is ready, or the stream was given up.
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

/// What bytes come from.
pub struct Receive(From);

enum From {
    Plain { input: BufReader<File>, naps: bool },
    Secure(SecureReader),
}

impl Receive {
    fn plain(fd: OwnedFd, ahead: usize) -> Self {
        let naps = ahead > 0 && is_roomy_pipe(&fd);
        Self(From::Plain { input: BufReader::with_capacity(ahead, File::from(fd)), naps })
    }

    /// From a descriptor, never a byte more than was asked for, so that another process can go on after it.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn exact(fd: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&fd)?;
        Ok(Self::plain(fd, 0))
    }

    /// From a TLS connection.
    #[must_use]
    pub fn secure(reader: SecureReader) -> Self {
        Self(From::Secure(reader))
    }

    /// Takes what is there, at least a byte; 0 is the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            From::Plain { input, .. } => input.read(into),
            From::Secure(reader) => reader.read(into),
        }
    }

    /// Waits for something to read; `missing` bytes are wanted.
    pub(crate) fn wait(&self, missing: usize, liveness: &Liveness) -> io::Result<()> {
        match &self.0 {
            From::Plain { input, naps } => {
                wait(input.get_ref().as_fd(), PollFlags::IN, liveness)?;
                if *naps && missing >= WORTH_A_NAP {
                    std::thread::sleep(NAP);
                }
                Ok(())
            }
            From::Secure(reader) => wait(reader.as_fd(), PollFlags::IN, liveness),
        }
    }
}

/// What bytes go to.
pub struct Transmit(To);

enum To {
    Plain { output: File, naps: bool },
    Secure(SecureWriter),
}

impl Transmit {
    fn plain(fd: OwnedFd) -> Self {
        Self(To::Plain { naps: is_roomy_pipe(&fd), output: File::from(fd) })
    }

    /// To a TLS connection.
    #[must_use]
    pub fn secure(writer: SecureWriter) -> Self {
        Self(To::Secure(writer))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            To::Plain { output, .. } => output.as_fd(),
            To::Secure(writer) => writer.as_fd(),
        }
    }

    /// Writes two runs of bytes, one after the other, and waits as long as that takes.
    pub(crate) fn write(&mut self, head: &[u8], payload: &[u8], liveness: &Liveness) -> io::Result<()> {
        match &mut self.0 {
            To::Plain { output, naps } => {
                let naps = *naps;
                write_all(
                    &mut [IoSlice::new(head), IoSlice::new(payload)],
                    output,
                    liveness,
                    |output, left| {
                        wait(output.as_fd(), PollFlags::OUT, liveness)?;
                        if naps && left >= WORTH_A_NAP {
                            std::thread::sleep(NAP);
                        }
                        Ok(())
                    },
                )
            }
            To::Secure(writer) => {
                writer.write(head, liveness)?;
                writer.write(payload, liveness)?;
                writer.flush(liveness)
            }
        }
    }

    /// Ends what is written, also where the stream is a socket that a reader holds too.
    pub(crate) fn close(self) {
        match self.0 {
            To::Plain { output, .. } => {
                // A pipe is no socket, and is closed by being dropped.
                let _ = rustix::net::shutdown(&output, rustix::net::Shutdown::Write);
            }
            To::Secure(writer) => writer.close(),
        }
    }

    /// Whether a small frame can be written without waiting.
    pub(crate) fn is_ready(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
    }
}

/// Writes all of some runs of bytes to a non-blocking stream.
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

//! Streams of bytes: the pipes of an ssh process, or a TLS connection.
//!
//! Both kinds are non-blocking, and `poll` waits for them, so that the reader and the writer of an abandoned stream
//! end.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::liveness::Liveness;
use crate::nonblocking::{set_nonblocking, wait, write_all};
use crate::tls::{SecureReader, SecureWriter};

/// Bytes that a reader of a descriptor may read ahead of a request. Headers and small bodies then come with
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
    /// The bytes from the other end.
    pub from: Receive,
    /// The bytes to the other end.
    pub to: Transmit,
    /// The socket of both, if there is one, to query and to close it.
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

fn is_roomy_pipe(fd: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size >= ROOMY)
}

/// The reading direction of a stream.
pub struct Receive(StreamInput);

enum StreamInput {
    Plain { input: BufReader<File>, naps: bool },
    Secure(SecureReader),
}

impl Receive {
    fn plain(fd: OwnedFd, ahead: usize) -> Self {
        let naps = ahead > 0 && is_roomy_pipe(&fd);
        Self(StreamInput::Plain { input: BufReader::with_capacity(ahead, File::from(fd)), naps })
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
        Self(StreamInput::Secure(reader))
    }

    /// Reads the bytes that are there, one at least. 0 is the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            StreamInput::Plain { input, .. } => input.read(into),
            StreamInput::Secure(reader) => reader.read(into),
        }
    }

    /// Waits for something to read; `missing` bytes are wanted.
    pub(crate) fn wait(&self, missing: usize, liveness: &Liveness) -> io::Result<()> {
        match &self.0 {
            StreamInput::Plain { input, naps } => {
                wait(input.get_ref().as_fd(), PollFlags::IN, liveness)?;
                if *naps && missing >= WORTH_A_NAP {
                    std::thread::sleep(NAP);
                }
                Ok(())
            }
            StreamInput::Secure(reader) => wait(reader.as_fd(), PollFlags::IN, liveness),
        }
    }
}

/// The writing direction of a stream.
pub struct Transmit(StreamOutput);

enum StreamOutput {
    Plain { output: File, naps: bool },
    Secure(SecureWriter),
}

impl Transmit {
    fn plain(fd: OwnedFd) -> Self {
        Self(StreamOutput::Plain { naps: is_roomy_pipe(&fd), output: File::from(fd) })
    }

    /// To a TLS connection.
    #[must_use]
    pub fn secure(writer: SecureWriter) -> Self {
        Self(StreamOutput::Secure(writer))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            StreamOutput::Plain { output, .. } => output.as_fd(),
            StreamOutput::Secure(writer) => writer.as_fd(),
        }
    }

    /// Writes two runs of bytes, one after the other, and waits as long as that takes.
    pub(crate) fn write(&mut self, head: &[u8], payload: &[u8], liveness: &Liveness) -> io::Result<()> {
        match &mut self.0 {
            StreamOutput::Plain { output, naps } => {
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
            StreamOutput::Secure(writer) => {
                writer.write(head, liveness)?;
                writer.write(payload, liveness)?;
                writer.flush(liveness)
            }
        }
    }

    /// Ends the writing direction, also of a socket that a reader still holds.
    pub(crate) fn close(self) {
        match self.0 {
            StreamOutput::Plain { output, .. } => {
                // A pipe is no socket, and is closed by being dropped.
                let _ = rustix::net::shutdown(&output, rustix::net::Shutdown::Write);
            }
            StreamOutput::Secure(writer) => writer.close(),
        }
    }

    /// Whether a small frame can be written without waiting.
    pub(crate) fn is_ready(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
    }
}

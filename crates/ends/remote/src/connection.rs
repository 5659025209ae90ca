//! One connection to the remote end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_transport::{FrameOutput, FrameReader, LinkError, Liveness, SharedWriter};
use haul_wire::FrameHeader;

use haul_core::sink::ArrivingContent;
use haul_core::{Error, ErrorKind, Retry, Side};

use haul_ssh::dial::Helper;

/// A Ping is sent after this long without a frame.
const QUIET: Duration = Duration::from_millis(900);

/// The reading direction of a connection.
pub(super) trait Incoming: Send {
    /// Reads the next header and body. If the header announces a payload, the caller reads it next.
    ///
    /// # Errors
    /// If the stream ends, is abandoned, or holds no valid frame.
    fn head(&mut self) -> Result<(FrameHeader, Vec<u8>), LinkError>;

    /// Reads the next part of a payload.
    ///
    /// # Errors
    /// If it does not come.
    fn content(&mut self, room: &mut [u8]) -> Result<(), LinkError>;
}

impl Incoming for FrameReader {
    fn head(&mut self) -> Result<(FrameHeader, Vec<u8>), LinkError> {
        Self::head(self)
    }

    fn content(&mut self, room: &mut [u8]) -> Result<(), LinkError> {
        Self::content(self, room)
    }
}

/// The content that follows the head of a frame.
pub(super) enum SentContent<'a> {
    /// All of it is known.
    Whole(&'a [u8]),
    /// A slice that is read while it is sent.
    Passing {
        /// The slice.
        content: &'a mut dyn ArrivingContent,
        /// Its length in bytes.
        len: usize,
        /// Called if it cannot be read to its end, before the other end can know that.
        withdraw: &'a mut dyn FnMut(Error),
    },
}

impl SentContent<'_> {
    /// The bytes of the payload.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Passing { len, .. } => *len,
        }
    }
}

/// The writing side of a connection, and the process or socket that carries it. Its reader thread has the reading side.
pub(super) struct Connection {
    pub(super) number: u64,
    /// Whether it is a direct connection.
    pub(super) direct: bool,
    pub(super) liveness: Arc<Liveness>,
    pub(super) helper: Option<Arc<dyn Helper>>,
    writer: SharedWriter,
}

impl Connection {
    pub(super) fn new(
        number: u64,
        direct: bool,
        writer: Box<dyn FrameOutput>,
        liveness: Arc<Liveness>,
        helper: Option<Arc<dyn Helper>>,
    ) -> Self {
        Self { number, direct, liveness, helper, writer: SharedWriter::new(writer) }
    }

    /// Writes a frame; waits for the frame before it and for the remote end to take this one.
    pub(super) fn send(&self, head: &[u8], content: SentContent<'_>) -> io::Result<()> {
        match content {
            SentContent::Whole(bytes) => self.writer.write(head, bytes),
            SentContent::Passing { content, len, withdraw } => self.writer.pass(head, content, len, withdraw),
        }
    }

    /// Gives a sign of life if nothing else was sent for a while. Never waits.
    pub(super) fn heartbeat(&self) {
        if self.liveness.quiet_for() >= QUIET {
            // If it fails, the reader sees the end of the connection too.
            let _ = self.writer.sign_of_life();
        }
    }

    /// How long no byte of the frame in progress was accepted.
    pub(super) fn stuck_for(&self) -> Duration {
        if self.writer.is_writing() { self.liveness.quiet_for() } else { Duration::ZERO }
    }

    /// Closes the writing direction, so that the remote end sees the end of its input. Does nothing during a write.
    pub(super) fn close(&self) {
        self.writer.close();
    }

    /// Ends the connection at once.
    pub(super) fn kill(&self) {
        self.liveness.end();
        if let Some(helper) = &self.helper {
            helper.kill();
        }
    }

    /// The error of a lost connection. The same request may succeed on another one.
    pub(super) fn lost(cause: &str) -> Error {
        Error::new(ErrorKind::Unreachable, Side::Wire, "keep the connection to", cause)
            .with_retry(Retry::OtherStream)
    }
}

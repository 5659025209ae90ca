//! One connection to the remote end.

use haul_core::sync::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness};
use haul_wire::{FrameHeader, encode_ping};

use haul_core::{Error, ErrorKind, Retry, Side};

use haul_ssh::dial::Helper;

/// A Ping is sent after this long without a frame.
const QUIET: Duration = Duration::from_millis(900);

/// The writing direction of a connection.
pub(super) trait ConnectionWriter: Send {
    /// Writes a header with its body, and its payload.
    ///
    /// # Errors
    /// If the stream broke, or was given up.
    fn write(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()>;

    /// Whether a small frame can be written without waiting.
    fn is_ready(&self) -> bool;

    /// Ends it, so that the remote end sees the end of its input.
    fn close(self: Box<Self>);
}

impl ConnectionWriter for FrameWriter {
    fn write(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        Self::write(self, head, payload)
    }

    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn close(self: Box<Self>) {
        Self::close(*self);
    }
}

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

/// The writing side of a connection, and the process or socket that carries it. Its reader thread has the reading side.
pub(super) struct Connection {
    pub(super) number: u64,
    /// Whether it is a direct connection.
    pub(super) direct: bool,
    pub(super) liveness: Arc<Liveness>,
    pub(super) helper: Option<Arc<dyn Helper>>,
    /// `None` once the connection is closed.
    writer: Mutex<Option<Box<dyn ConnectionWriter>>>,
}

impl Connection {
    pub(super) fn new(
        number: u64,
        direct: bool,
        writer: Box<dyn ConnectionWriter>,
        liveness: Arc<Liveness>,
        helper: Option<Arc<dyn Helper>>,
    ) -> Self {
        Self { number, direct, liveness, helper, writer: Mutex::new(Some(writer)) }
    }

    /// Writes a frame; waits for the frame before it and for the remote end to take this one.
    pub(super) fn send(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        match &mut *self.writer.lock() {
            Some(writer) => writer.write(head, payload),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends a Ping if nothing else was sent for a while. Never waits.
    pub(super) fn heartbeat(&self) {
        if self.liveness.quiet_for() < QUIET {
            return;
        }
        let Some(mut writer) = self.writer.try_lock() else { return };
        if let Some(writer) = &mut *writer
            && writer.is_ready()
        {
            // If it fails, the reader sees the end of the connection too.
            let _ = writer.write(&encode_ping(), &[]);
        }
    }

    /// How long no byte of the frame in progress was accepted.
    pub(super) fn stuck_for(&self) -> Duration {
        if self.writer.try_lock().is_some() { Duration::ZERO } else { self.liveness.quiet_for() }
    }

    /// Closes the writing direction, so that the remote end sees the end of its input. Does nothing during a write.
    pub(super) fn close(&self) {
        let writer = self.writer.try_lock().and_then(|mut writer| writer.take());
        if let Some(writer) = writer {
            writer.close();
        }
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

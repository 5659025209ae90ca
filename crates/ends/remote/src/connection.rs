//! One connection to the remote end.

use haul_core::sync::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_transport::{FrameWriter, Liveness};
use haul_wire::encode_ping;

use haul_ssh::dial::Helper;

/// After this long without a frame of ours a Ping is sent.
const QUIET: Duration = Duration::from_millis(900);

/// The writing side of a connection and what carries it. The reading side is its reader thread's.
pub(super) struct Connection {
    pub(super) number: u64,
    /// Whether it goes around ssh.
    pub(super) direct: bool,
    pub(super) liveness: Arc<Liveness>,
    pub(super) helper: Option<Arc<dyn Helper>>,
    /// `None` once the connection is closed.
    writer: Mutex<Option<FrameWriter>>,
}

impl Connection {
    pub(super) fn new(
        number: u64,
        direct: bool,
        writer: FrameWriter,
        liveness: Arc<Liveness>,
        helper: Option<Arc<dyn Helper>>,
    ) -> Self {
        Self { number, direct, liveness, helper, writer: Mutex::new(Some(writer)) }
    }

    /// Writes a frame; waits for the frame before it and for the remote end to take this one.
    pub(super) fn send(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        match &mut *self.lock() {
            Some(writer) => writer.write(head, payload),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Says that we live, if nothing else was said for a while. Never waits.
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

    /// For how long a frame that is being written has not moved.
    pub(super) fn stuck_for(&self) -> Duration {
        if self.writer.try_lock().is_some() { Duration::ZERO } else { self.liveness.quiet_for() }
    }

    /// Ends what we say: the remote end sees the end of its input. A connection that is being written to is left as it is.
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

    fn lock(&self) -> MutexGuard<'_, Option<FrameWriter>> {
        self.writer.lock()
    }
}

//! A session with an SFTP server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::location::SshHost;
use haul_core::{BufferPool, Note, Ops, Result};
use haul_ssh::{Errand, SshConfig, SshDialer};

use super::pool::Pool;

/// The limits of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The most connections; 0 lets haul choose.
    pub streams: u32,
    /// The most file-system operations per second; `None` is no limit.
    pub iops: Option<u64>,
}

/// A session with an SFTP server: any number of roots over any number of connections. Dropping it ends it.
pub struct Sftp {
    pub(super) pool: Arc<Pool>,
    pub(super) buffers: BufferPool,
    /// Whether haul has told the user that the server does not check the content that arrives.
    pub(super) warned: AtomicBool,
}

impl Sftp {
    /// Logs in and greets the server, on the first connection. More connections are opened as work comes. `note` gets
    /// messages for the user. ssh may ask for a password on the terminal.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`], with a hint.
    pub fn connect(
        host: &SshHost,
        ssh: &SshConfig,
        limits: Limits,
        buffers: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        let dialer = SshDialer::new(host, ssh, Errand::Sftp, note.clone())?;
        let timeout = Duration::from_secs(ssh.timeout.max(2).into());
        let ops = Arc::new(Ops::default());
        ops.limit(limits.iops);
        let pool = Pool::open(Box::new(dialer), note, timeout, limits.streams, ops)?;
        Ok(Self::over(pool, buffers))
    }

    /// A session over these connections.
    pub(super) fn over(pool: Arc<Pool>, buffers: &BufferPool) -> Arc<Self> {
        Arc::new(Self { pool, buffers: buffers.clone(), warned: AtomicBool::new(false) })
    }
}

impl Drop for Sftp {
    fn drop(&mut self) {
        self.pool.close();
    }
}

//! A remote end that has no haul, reached over SFTP: several ssh processes with the `sftp` subsystem.
//!
//! Read `packet` (the protocol), `conn` and `wave` (requests and answers on one
//! connection), `pool` (the connections), `tree`
//! (names at the server). Reading: `walk`, `read`, `source`. Writing: `compare` and `offer` (what is needed), `small`
//! and `large` (staged, checked, renamed), `meta`, `sink`.
//!
//! A server answers in the order in which it was asked, so requests are sent in waves: a wave costs one round trip,
//! however many files it is about. What must be known before the next step ends a wave: a handle before it is
//! written to, that all was written before a file gets its name.

mod checks;
mod compare;
mod conn;
mod large;
mod meta;
mod offer;
mod packet;
mod pipe;
mod pool;
mod read;
mod sink;
mod small;
mod source;
mod tree;
mod walk;
mod wave;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::location::SshHost;
use haul_core::{BufferPool, Ops, Place, Result, Side, Sink, SinkOptions, Source};

use haul_ssh::{Errand, SshDialer};
use haul_ssh::{Note, SshConfig};
use pool::Pool;
use tree::Tree;

/// What a session may use of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Connections to open at most; 0 lets haul choose.
    pub streams: u32,
    /// File-system operations in a second; `None` is no limit.
    pub iops: Option<u64>,
}

/// A session with an SFTP server: any number of roots over any number of connections. Dropping it ends it.
pub struct Sftp {
    pool: Arc<Pool>,
    buffers: BufferPool,
    told: AtomicBool,
}

impl Sftp {
    /// Logs in and greets the server, on the first connection; more are opened as work comes. `note` gets sentences
    /// that the person should see. ssh may ask for a password here, on the terminal.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`], with the way out as hint.
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
        let pool = Pool::open(dialer, note, timeout, limits.streams, ops)?;
        Ok(Arc::new(Self { pool, buffers: buffers.clone(), told: AtomicBool::new(false) }))
    }

    /// Opens a source there.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_source(self: &Arc<Self>, place: &Place) -> Result<Arc<dyn Source>> {
        let tree = Tree::open(self.clone(), place, Side::Source)?;
        Ok(Arc::new(source::SftpSource::new(tree)))
    }

    /// Opens a sink there. Missing folders above the root are made when the first entry is.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        if !self.told.swap(true, Ordering::Relaxed) && !options.verify_disk {
            self.pool.note(&format!(
                "nothing of haul's checks what arrives at {}: `--verify disk` reads it back",
                self.pool.name()
            ));
        }
        let tree = Tree::open(self.clone(), place, Side::Destination)?;
        Ok(Arc::new(sink::SftpSink::new(tree, options.clone())))
    }
}

impl Drop for Sftp {
    fn drop(&mut self) {
        self.pool.close();
    }
}

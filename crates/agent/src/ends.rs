//! What a session can open: the contract, and the file system of this machine.

use std::sync::Arc;

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{BufferPool, Links, Ops, Place, Result, Side, Sink, SinkOptions, Source};

/// What a session can open.
pub trait Ends: Send + Sync {
    /// Opens a source whose buffers come from `pool`.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn source(&self, place: &Place, links: Links, pool: &BufferPool) -> Result<Arc<dyn Source>>;

    /// Opens a sink.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>>;

    /// What is opened makes at most so many file-system operations in a second, on each side; `None` is no limit.
    fn limit(&self, _iops: Option<u64>) {}

    /// Measures something or looks it up.
    ///
    /// # Errors
    /// If it cannot be done at all.
    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult>;

    /// Whether the local end is confined: then it gets no connections but those of its login.
    fn is_restricted(&self) -> bool {
        false
    }

    /// Whether entries of a source or a sink may be removed.
    ///
    /// # Errors
    /// `PermissionDenied` if not.
    fn may_remove(&self, _of: Side) -> Result<()> {
        Ok(())
    }
}

/// The file system of this machine, with a limit for each side.
#[derive(Default)]
pub(crate) struct LocalEnds {
    source: Arc<Ops>,
    sink: Arc<Ops>,
}

impl Ends for LocalEnds {
    fn source(&self, place: &Place, links: Links, pool: &BufferPool) -> Result<Arc<dyn Source>> {
        haul_local::open_source(place, links, true, pool, &self.source)
    }

    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>> {
        haul_local::open_sink(place, true, options, pool, &self.sink)
    }

    fn limit(&self, iops: Option<u64>) {
        self.source.limit(iops);
        self.sink.limit(iops);
    }

    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        haul_probe::run(task, &|place| haul_local::resolve(place, true))
    }
}

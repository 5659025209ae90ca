//! A sink that only compares, for logins that may read alone.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{
    Answer, BatchData, Error, ErrorKind, FinishReport, HardLink, HungOperation, Offer, RelPath, Result, Side,
    Sink, SinkCaps, WriteDone,
};

/// Compares, and refuses everything that would change something, whatever the local end asks for.
pub(crate) struct CompareOnly(
    /// Opened for a dry run.
    pub(crate) Arc<dyn Sink>,
);

fn refused(operation: &str) -> Error {
    let cause = "this login may only compare here (haul agent)";
    Error::new(ErrorKind::PermissionDenied, Side::Destination, operation, cause)
}

impl Sink for CompareOnly {
    fn caps(&self) -> SinkCaps {
        SinkCaps { delta: false, clones: false, fetches: false, ..self.0.caps() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.0.offer(offers)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        done(data.slices.iter().map(|_| Err(refused("write"))).collect());
    }

    fn flush(&self) {}

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.0.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.0.is_held_by_iops()
    }

    fn discard(&self, _paths: &[RelPath]) -> Result<()> {
        Err(refused("discard"))
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        self.0.link(links)
    }

    fn remove(&self, _paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        Err(refused("remove"))
    }

    fn finish(&self) -> Result<FinishReport> {
        self.0.finish()
    }
}

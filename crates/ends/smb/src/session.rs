//! A session with a share: calls that block.

use std::future::Future;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use haul_core::{BufferPool, Note, Ops, Result};

use super::login::ShareLogin;
use super::runtime::block_on;
use super::server::ShareConns;

/// Chains of one call in flight.
const AT_ONCE: usize = 64;

/// The limits of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The most connections; 0 lets haul choose.
    pub streams: u32,
    /// The most requests per second; `None` is no limit.
    pub iops: Option<u64>,
}

/// A session with a share: any number of roots over any number of connections.
pub struct Smb {
    pub(super) server: Arc<ShareConns>,
    pub(super) buffers: BufferPool,
}

impl Smb {
    /// Connects to the share and logs in, once. More connections are opened as work comes. `note` gets messages for the
    /// user.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`], with a hint.
    pub fn connect(login: ShareLogin, limits: Limits, buffers: &BufferPool, note: Note) -> Result<Arc<Self>> {
        let ops = Arc::new(Ops::default());
        ops.limit(limits.iops);
        let server = ShareConns::new(login, ops, limits.streams, note);
        block_on(server.pick())??;
        Ok(Arc::new(Self { server, buffers: buffers.clone() }))
    }

    /// Does work with each item, many at a time, and takes the results in the order of the items.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub(super) fn each<T, R, F: Future<Output = R>>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl FnMut(T) -> F,
        mut take: impl FnMut(R),
    ) -> Result<()> {
        let mut results = stream::iter(items.into_iter().map(work)).buffered(AT_ONCE);
        block_on(async {
            while let Some(result) = results.next().await {
                take(result);
            }
        })
    }

    /// Does work with each item, many at a time. The results are in the order of the items.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub(super) fn all<T, R, F: Future<Output = R>>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl FnMut(T) -> F,
    ) -> Result<Vec<R>> {
        let mut all = Vec::new();
        self.each(items, work, |result| all.push(result))?;
        Ok(all)
    }

    /// The one result of work.
    ///
    /// # Errors
    /// Those of the work, or if the system refuses threads.
    pub(super) fn one<R>(&self, work: impl Future<Output = Result<R>>) -> Result<R> {
        block_on(work)?
    }
}

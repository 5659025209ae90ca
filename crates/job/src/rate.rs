//! The decision who applies the rate limit of a job.

use std::sync::Arc;

use haul_core::{Limiter, Location, Result, Source};
use haul_engine::Cancel;

use super::ends::Ends;
use super::job_source::JobSource;

/// Who delays content that exceeds the rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedBy {
    /// The connections with a remote haul, which also count what goes between two remote hauls.
    Connections,
    /// The source, as no content goes over such a connection.
    Source,
}

impl LimitedBy {
    /// Decides for content from `source` to `destination`. Opens the sessions with their hosts.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`] and the like, if a host cannot be reached.
    pub(crate) fn of(ends: &mut Ends, source: &Location, destination: &Location) -> Result<Self> {
        let peer = ends.is_peer(source)? || ends.is_peer(destination)?;
        Ok(if peer { Self::Connections } else { Self::Source })
    }

    /// The source as the engine is to read it.
    pub(crate) fn apply(
        self,
        source: Arc<dyn Source>,
        limit: &Arc<Limiter>,
        cancel: &Cancel,
    ) -> Arc<dyn Source> {
        match self {
            Self::Connections => source,
            Self::Source => JobSource::limited(source, limit, cancel),
        }
    }
}

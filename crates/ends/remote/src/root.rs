//! A source or a sink that is open at the remote end.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{HungOperation, PageReport, Result, Said, SourceOptions, Traffic};
use haul_wire::{FrameKind, Request, RootId, encode};

use super::hashed::RemoteHashed;
use super::peer::{Peer, only};
use super::state::Pick;
use super::traffic::TrafficCounter;
use super::watch::RemoteWatch;

/// A source or a sink that is open at the remote end until this is dropped.
pub(super) struct RemoteRoot {
    pub(super) peer: Arc<Peer>,
    pub(super) id: RootId,
    pub(super) traffic: Arc<TrafficCounter>,
    watch: RemoteWatch,
    hashed: RemoteHashed,
    /// It is a source that checks pages.
    checks_pages: bool,
}

impl RemoteRoot {
    pub(super) fn new(peer: &Arc<Peer>, id: RootId) -> Self {
        Self {
            peer: peer.clone(),
            id,
            traffic: Arc::default(),
            watch: RemoteWatch::default(),
            hashed: RemoteHashed::default(),
            checks_pages: false,
        }
    }

    /// The same for a source that was opened with these options.
    pub(super) fn opened_with(mut self, options: SourceOptions) -> Self {
        self.checks_pages = options.pages.is_some();
        self
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic { tcp: self.peer.session.tcp(), ..self.traffic.get() }
    }

    /// The operations that hang for `timeout`, as far as the remote end has reported them.
    pub(super) fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.watch.hung(&self.peer.session, self.id, timeout)
    }

    /// The text that the program of this root has written to its standard error, from this offset on.
    ///
    /// # Errors
    /// If the remote end cannot be asked.
    pub(super) fn said(&self, from: u64) -> Result<Said> {
        self.peer.ask(&Request::Said { root: self.id, from }, only!(Said))
    }

    /// The results of the page checks of this root, a source.
    ///
    /// # Errors
    /// If the remote end cannot be asked.
    pub(super) fn page_report(&self) -> Result<Option<PageReport>> {
        // It would cost a round trip.
        if !self.checks_pages {
            return Ok(None);
        }
        self.peer.ask(&Request::PageReport { root: self.id }, only!(PageReport))
    }

    /// The bytes that this root, a source, has hashed, as far as the remote end has told it.
    pub(super) fn hashed(&self) -> Option<u64> {
        self.hashed.get(&self.peer.session, self.id)
    }

    /// Whether operations wait because of the limit on operations per second, as far as the remote end has reported it.
    /// It reports once [`Self::hung`] was called.
    pub(super) fn is_held_by_iops(&self) -> bool {
        self.watch.is_held_by_iops()
    }
}

impl Drop for RemoteRoot {
    fn drop(&mut self) {
        let session = &self.peer.session;
        session.forget_root(self.id);
        if session.has_connections()
            && let Ok(mut frame) = encode(FrameKind::Request, 0, &Request::Close { root: self.id }, 0)
        {
            session.submit(&mut frame, &[], Pick::Small, None, Box::new(|_| {}));
        }
    }
}

//! Opening ends. One session with each other machine serves all roots there.

use std::collections::HashMap;
use std::sync::Arc;

use haul_backends::local;
use haul_backends::peer::Peer;
use haul_core::location::SshHost;
use haul_core::{Location, Place, Result, Sink, SinkOptions, Source};

use crate::settings::LinkSettings;

/// Takes sentences that the person should see.
pub(crate) type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// Hears of each session that was opened with another machine.
pub(crate) type Greeter = Box<dyn FnMut(&SshHost, &Arc<Peer>) -> Result<()>>;

/// Opens ends, and holds the sessions with other machines.
pub(crate) struct Ends {
    link: LinkSettings,
    note: Note,
    // Dropped before the sessions.
    greeter: Option<Greeter>,
    peers: HashMap<SshHost, Arc<Peer>>,
}

impl Ends {
    /// Nothing is opened yet.
    pub(crate) fn new(link: LinkSettings, note: Note) -> Self {
        Self { link, note, greeter: None, peers: HashMap::new() }
    }

    /// Opens an end to read from.
    ///
    /// # Errors
    /// If its machine cannot be reached or the path not be resolved.
    pub(crate) fn source(&mut self, at: &Location, place: &Place) -> Result<Arc<dyn Source>> {
        match at {
            Location::Local(_) => local::open_source(place, false, &self.link.pool),
            Location::Ssh { host, .. } => self.peer(host)?.open_source(place),
        }
    }

    /// Opens an end to write to.
    ///
    /// # Errors
    /// If its machine cannot be reached or the path not be resolved.
    pub(crate) fn sink(
        &mut self,
        at: &Location,
        place: &Place,
        options: &SinkOptions,
    ) -> Result<Arc<dyn Sink>> {
        match at {
            Location::Local(_) => local::open_sink(place, false, options, &self.link.pool),
            Location::Ssh { host, .. } => self.peer(host)?.open_sink(place, options),
        }
    }

    /// Has each session that is opened from now on told to `greeter`. What that holds ends before the sessions do.
    pub(crate) fn greet(&mut self, greeter: Greeter) {
        self.greeter = Some(greeter);
    }

    /// The far haul of an end; `None` for an end on this machine.
    ///
    /// # Errors
    /// If its machine cannot be reached.
    pub(crate) fn peer_of(&mut self, at: &Location) -> Result<Option<Arc<Peer>>> {
        match at {
            Location::Local(_) => Ok(None),
            Location::Ssh { host, .. } => self.peer(host).cloned().map(Some),
        }
    }

    fn peer(&mut self, host: &SshHost) -> Result<&Arc<Peer>> {
        if !self.peers.contains_key(host) {
            let peer = Peer::connect(host, &self.link.peer, &self.link.pool, Arc::clone(&self.note))?;
            if let Some(greeter) = &mut self.greeter {
                greeter(host, &peer)?;
            }
            self.peers.insert(host.clone(), peer);
        }
        Ok(&self.peers[host])
    }
}

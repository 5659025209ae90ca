//! Opens sources and sinks at the remote end.

use std::sync::Arc;

use haul_core::owner_map::OwnerName;
use haul_core::{Place, Program, Result, Sink, SinkOptions, Source, SourceCaps, SourceOptions};
use haul_wire::{Request, Response};

use super::peer::{Peer, unexpected_answer};
use super::root::RemoteRoot;
use super::sink::PeerSink;
use super::source::PeerSource;
use super::third_party::broker::Broker;

impl Peer {
    /// Opens a source at the remote end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_source(
        self: &Arc<Self>,
        place: &Place,
        options: impl Into<SourceOptions>,
    ) -> Result<Arc<dyn Source>> {
        let options = options.into();
        let root = self.open(|root| Request::OpenSource { root, place: place.clone(), options })?;
        let removes = !options.links.are_followed();
        let caps = SourceCaps { parts: true, delta: true, removes, ..SourceCaps::default() };
        Ok(Arc::new(PeerSource { root: RemoteRoot::new(self, root).opened_with(options), caps }))
    }

    /// Runs a program at the remote end that writes a stream. The source keeps `window` slices.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run_producer(self: &Arc<Self>, program: &Program, window: u32) -> Result<Arc<dyn Source>> {
        let root = self.run(|root| Request::RunProducer { root, program: program.clone(), window })?;
        let caps = SourceCaps { growing: true, ..SourceCaps::default() };
        Ok(Arc::new(PeerSource { root: RemoteRoot::new(self, root), caps }))
    }

    /// Runs a program at the remote end that reads a stream.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run_consumer(self: &Arc<Self>, program: &Program) -> Result<Arc<dyn Sink>> {
        let root = self.run(|root| Request::RunConsumer { root, program: program.clone() })?;
        Ok(Arc::new(PeerSink::new(RemoteRoot::new(self, root))))
    }

    /// Opens a sink at the remote end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        let root =
            self.open(|root| Request::OpenSink { root, place: place.clone(), options: options.clone() })?;
        Ok(Arc::new(PeerSink::new(RemoteRoot::new(self, root))))
    }

    /// The numbers of owners and groups at the remote end; `None` if it has none of that name.
    ///
    /// # Errors
    /// If the remote end cannot be reached, or answers with numbers that no owner can have.
    pub fn owner_ids(&self, names: &[OwnerName]) -> Result<Vec<Option<u32>>> {
        match self.call(&Request::OwnerIds { names: names.to_vec() })? {
            Response::OwnerIds(ids) if ids.len() == names.len() && !ids.contains(&Some(u32::MAX)) => Ok(ids),
            _ => Err(unexpected_answer()),
        }
    }

    /// Opens a sink at the remote end of a pair whose content comes from `source` at the other.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open_sink_of(
        self: &Arc<Self>,
        place: &Place,
        options: &SinkOptions,
        broker: &Broker,
        (source, options_of_source): (&Place, SourceOptions),
    ) -> Result<Arc<dyn Sink>> {
        let root = broker.source().open(|root| Request::OpenSource {
            root,
            place: source.clone(),
            options: options_of_source,
        })?;
        let source = RemoteRoot::new(broker.source(), root).opened_with(options_of_source);
        let root =
            self.open(|root| Request::OpenSink { root, place: place.clone(), options: options.clone() })?;
        Ok(Arc::new(PeerSink::new(RemoteRoot::new(self, root)).fetching(broker, source)))
    }
}

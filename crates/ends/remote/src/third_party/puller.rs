//! The puller of a third-party copy: the end of the sink, which fetches content from the end of the source.
//!
//! It is a session like that of a local end, in which only content may be requested.

use haul_core::sync::{Condvar, Mutex};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{
    Batch, BatchData, BufferPool, Compress, Error, ErrorKind, Pace, PageHashes, Result, Side, Traffic,
};
use haul_ssh::dial::Dial;
use haul_transport::{ConnectionKeys, Ports};
use haul_wire::ticket::Ticket;
use haul_wire::{Granter, Hello, Reach, Request, RootId};

use crate::admit;
use crate::config::{PeerConfig, Transport};
use crate::direct::{Back, Finder, Forward, addresses};
use crate::peer::Peer;
use crate::traffic::TrafficCounter;

/// A port at which the granter is expected to connect.
pub struct ExpectedGranter(Arc<Back>);

impl ExpectedGranter {
    /// Listens for the end that has the key in `credentials`, expected from one of the addresses `from`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn listen(
        address: IpAddr,
        ports: Option<Ports>,
        from: &[IpAddr],
        credentials: ConnectionKeys,
        name: String,
    ) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Back::listen(address, ports, from, credentials, name)?)))
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port()
    }
}

/// A session with the granter, another remote end, to fetch content from it.
pub struct Puller {
    peer: Arc<Peer>,
    traffic: TrafficCounter,
    /// Fetches in flight.
    fetching: Mutex<u32>,
    fetched: Condvar,
}

/// The configuration of a session without ssh.
pub(crate) fn config(streams: u32, timeout: u32, max_memory: u64, pace: Pace) -> PeerConfig {
    PeerConfig {
        transport: Transport::Tls,
        ports: None,
        bind: None,
        congestion: None,
        ssh: haul_ssh::SshConfig {
            shell: Vec::new(),
            shell_given: true,
            family: None,
            timeout,
            persist: None,
        },
        remote_haul: String::new(),
        streams,
        max_memory,
        iops: None,
        pace,
        compress: Compress::Never,
        hints: None,
        defer: false,
        explains: false,
    }
}

impl Puller {
    /// Connects to the granter, which listens, and greets it.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if it does not answer or does not prove its key.
    pub fn connect(
        with: &Granter,
        at: &Reach,
        credentials: ConnectionKeys,
        pool: &BufferPool,
        max_memory: u64,
    ) -> Result<Self> {
        let identity = credentials.identity.clone();
        let forward = Forward::new(addresses(at), None, credentials, with.name.clone());
        forward.reach().map_err(|error| {
            Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", error.to_string()).on(&with.name)
        })?;
        let way: Arc<dyn Dial> = Arc::new(forward);
        Self::over(with, way.clone(), Finder::knows(way, identity), pool, max_memory)
    }

    /// Takes the connection of a granter that was expected.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if it does not connect.
    pub fn expected(
        with: &Granter,
        expected: ExpectedGranter,
        credentials: &ConnectionKeys,
        pool: &BufferPool,
        max_memory: u64,
    ) -> Result<Self> {
        let ExpectedGranter(back) = expected;
        let finder = Finder::knows(back.clone(), credentials.identity.clone());
        let own = Self::over(with, back.clone(), finder, pool, max_memory)?;
        back.asks(&own.peer.session, None);
        Ok(own)
    }

    fn over(
        with: &Granter,
        way: Arc<dyn Dial>,
        finder: Finder,
        pool: &BufferPool,
        max_memory: u64,
    ) -> Result<Self> {
        let pace = Pace::default();
        pace.set(with.rate);
        let config = config(with.streams, with.timeout, max_memory, pace);
        let hello = admit::hello(max_memory, with.streams, with.timeout);
        let hello = Hello { session: Some(with.session), fresh: false, ..hello };
        // The broker reports to the user, not this end.
        let peer = Peer::greeting(hello, Box::new(way), Some(finder), None, &config, pool, Arc::new(|_| {}))?;
        Ok(Self {
            peer,
            traffic: TrafficCounter::default(),
            fetching: Mutex::new(0),
            fetched: Condvar::new(),
        })
    }

    /// Fetches a batch that has a ticket, and returns it with its bytes on the wire. `source` is the granter's number;
    /// `pages` are the page hashes of the sink.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if no connection is left; else the error of the granter.
    pub fn read(
        &self,
        source: RootId,
        batch: &Arc<Batch>,
        pages: Option<PageHashes>,
        compress: Compress,
        ticket: Ticket,
    ) -> Result<(BatchData, u64)> {
        let _turn = Turn::wait(self);
        let batch_too = batch.clone();
        let request =
            Request::Pull { root: source, batch: batch_too, pages, compress, ticket, proof_may_follow: true };
        self.peer.read_whole(&request, batch, &self.traffic)
    }

    /// The traffic so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// The number of connections.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.peer.streams()
    }

    /// Sets the limit in bytes per second; `None` is no limit.
    pub fn limit(&self, rate: Option<u64>) {
        self.peer.session.pace.set(rate);
    }

    /// Ends the connections. Fetches in flight fail.
    pub fn close(&self) {
        self.peer.session.close(Duration::ZERO);
    }
}

/// The right to fetch one batch. There are two in flight for each connection and no more, as each takes memory at both
/// ends.
struct Turn<'a>(&'a Puller);

impl<'a> Turn<'a> {
    fn wait(of: &'a Puller) -> Self {
        let mut fetching = of.fetching.lock();
        // The number of connections changes.
        while *fetching >= 2 * of.streams().max(1) + 2 {
            let look = Duration::from_millis(200);
            fetching = of.fetched.wait_timeout(fetching, look).0;
        }
        *fetching += 1;
        Self(of)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.fetching.lock() -= 1;
        self.0.fetched.notify_one();
    }
}

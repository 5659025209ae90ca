//! The end of a source, as the end of a sink sees it: another remote end, over connections between the two.
//!
//! It is a session like that of a local end, in which nothing but content can be asked for.

use haul_core::sync::{Condvar, Mutex};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{
    Batch, BatchData, BufferPool, Compress, Error, ErrorKind, Pace, PageHashes, Result, Side, Traffic,
};
use haul_transport::{Credentials, Ports};
use haul_wire::ticket::Ticket;
use haul_wire::{Hello, Reach, Request, RootId};

use super::direct::{Back, Finder, Forward, addresses};
use super::{Peer, PeerConfig, Transport, Travelled, admit};
use haul_ssh::dial::Dial;

/// A port at which another end is expected to connect.
pub struct Expected(Arc<Back>);

impl Expected {
    /// Listens for who has the key in `credentials`, who is expected to come from one of the addresses `from`.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn listen(
        address: IpAddr,
        ports: Option<Ports>,
        from: &[IpAddr],
        credentials: Credentials,
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

/// Another remote end, which content is fetched from.
pub struct Neighbour {
    peer: Arc<Peer>,
    travelled: Travelled,
    /// Batches that are being fetched.
    fetching: Mutex<u32>,
    fetched: Condvar,
}

/// What is to be said of connections that no ssh carries.
pub(super) fn config(streams: u32, timeout: u32, max_memory: u64, pace: Pace) -> PeerConfig {
    PeerConfig {
        transport: Transport::Tls,
        ports: None,
        bind: None,
        congestion: None,
        ssh: haul_ssh::SshConfig { shell: Vec::new(), shell_given: true, timeout },
        remote_haul: String::new(),
        streams,
        max_memory,
        iops: None,
        pace,
        compress: Compress::Never,
        hints: None,
        defer: false,
    }
}

impl Neighbour {
    /// Connects to a remote end that listens at some place, and greets it.
    ///
    /// # Errors
    /// If it does not answer, or is not who it should be.
    pub fn connect(
        with: &haul_wire::Neighbour,
        at: &Reach,
        credentials: Credentials,
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

    /// Takes the remote end that has connected.
    ///
    /// # Errors
    /// If there is none.
    pub fn expected(
        with: &haul_wire::Neighbour,
        expected: Expected,
        credentials: &Credentials,
        pool: &BufferPool,
        max_memory: u64,
    ) -> Result<Self> {
        let Expected(back) = expected;
        let finder = Finder::knows(back.clone(), credentials.identity.clone());
        let own = Self::over(with, back.clone(), finder, pool, max_memory)?;
        back.asks(&own.peer.session, None);
        Ok(own)
    }

    fn over(
        with: &haul_wire::Neighbour,
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
        // The local end says what there is to say.
        let peer = Peer::greeting(hello, Box::new(way), Some(finder), None, &config, pool, Arc::new(|_| {}))?;
        Ok(Self { peer, travelled: Travelled::default(), fetching: Mutex::new(0), fetched: Condvar::new() })
    }

    /// Content of the source with this number there, for which there is a ticket, and its bytes on the way. `pages` is
    /// what the sink has of it.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if no connection is left; else what the other end says.
    pub fn read(
        &self,
        source: RootId,
        batch: &Arc<Batch>,
        pages: Option<PageHashes>,
        compress: Compress,
        ticket: Ticket,
    ) -> Result<(BatchData, u64)> {
        let _turn = Turn::wait(self);
        let request = Request::Pull { root: source, batch: batch.clone(), pages, compress, ticket };
        self.peer.read(&request, batch, &self.travelled)
    }

    /// What has come so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.travelled.get()
    }

    /// Connections that content comes over.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.peer.streams()
    }

    /// Sets the limit in bytes per second; `None` is no limit.
    pub fn limit(&self, rate: Option<u64>) {
        self.peer.session.pace.set(rate);
    }

    /// Ends the connections; who reads gets an error.
    pub fn close(&self) {
        self.peer.session.close(Duration::ZERO);
    }
}

/// The right to fetch one batch. While one is on its way on each connection the next one is asked for, and no more: what is
/// asked for takes memory at both ends.
struct Turn<'a>(&'a Neighbour);

impl<'a> Turn<'a> {
    fn wait(of: &'a Neighbour) -> Self {
        let mut fetching = of.fetching.lock();
        // Connections come and go.
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

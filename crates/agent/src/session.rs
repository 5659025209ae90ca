//! The state of a session: its connections, and the roots and scans that are open.

use haul_core::sync::{Condvar, Mutex};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_codec::{LinkTime, Packer};
use haul_core::{BufferPool, Result, Sink, Source};
use haul_local::Nice;
use haul_transport::{LinkError, Streams, tcp};
use haul_wire::{FrameError, Hello, Request, RootId, ScanId, SessionId, Welcome};

use crate::connection::{self, Handler, RequestContent};
use crate::direct::DirectParameters;
use crate::ends::OpenEnds;
use crate::grants::{Grant, ThirdParties};
use crate::reply::{Outbox, ReplyDuty};
use crate::scan::ServedScan;
use crate::workers::Workers;

/// How long the end of a session waits for a write in progress.
const FINISH: Duration = Duration::from_secs(20);

/// How long a session without connections waits for one while a program runs: that cannot be run again.
const LINGER: Duration = Duration::from_secs(15);

/// Something that is open.
#[derive(Clone)]
pub(crate) enum OpenEnd {
    /// It is being opened, or could not be.
    Nothing,
    Source(Arc<dyn Source>),
    Sink(Arc<dyn Sink>),
}

/// Locked while the root is being opened, so that a repeated request waits and finds it open.
type OpenSlot = Arc<Mutex<OpenEnd>>;

/// The end that makes the requests of a connection.
#[derive(Clone)]
pub(crate) enum RequestingEnd {
    /// The local end, which may request everything.
    LocalEnd,
    /// Another remote end, which may request the batches that it was granted.
    Puller(Arc<Grant>),
}

/// Carries out one request of a session.
pub(crate) type Serve = fn(
    &Arc<ServerSession>,
    &RequestingEnd,
    ReplyDuty,
    Request,
    RequestContent<'_>,
) -> std::result::Result<(), LinkError>;

/// A session at the remote end.
pub(crate) struct ServerSession {
    pub(crate) id: SessionId,
    serve: Serve,
    pub(crate) ends: Box<dyn OpenEnds>,
    pub(crate) pool: BufferPool,
    pub(crate) packer: Arc<Packer>,
    pub(crate) max_memory: u64,
    pub(crate) workers: Workers,
    /// For fetches from other remote ends, so that no other request waits for them.
    pub(crate) fetchers: Workers,
    pub(crate) third_parties: ThirdParties,
    /// Silence after which a connection is dead. Longer than at the local end, which can replace the connection.
    timeout: Duration,
    /// The parameters of direct connections, if they are allowed.
    direct: Mutex<Option<Arc<DirectParameters>>>,
    roots: Mutex<HashMap<RootId, OpenSlot>>,
    /// The roots that are programs.
    programs: Mutex<HashSet<RootId>>,
    scans: Mutex<HashMap<ScanId, Arc<ServedScan>>>,
    /// Set once the local end asks for a low priority.
    pub(crate) nice: Mutex<Option<Nice>>,
    connections: Mutex<SessionConnections>,
    changed: Condvar,
}

#[derive(Default)]
struct SessionConnections {
    next: u64,
    /// Whether the session accepts no more connections.
    closed: bool,
    up: HashMap<u64, AgentConnection>,
}

/// A connection that is up.
struct AgentConnection {
    caller: RequestingEnd,
    outbox: Arc<Outbox>,
    /// The socket of a direct connection.
    socket: Option<TcpStream>,
}

/// Hands the requests of one connection to the session.
struct SessionHandler {
    session: Arc<ServerSession>,
    number: u64,
    caller: RequestingEnd,
}

impl Handler for SessionHandler {
    fn check(&self, request: &Request) -> std::result::Result<(), FrameError> {
        match &self.caller {
            RequestingEnd::LocalEnd => Ok(()),
            RequestingEnd::Puller(grant) => grant.check(request),
        }
    }

    fn handle(
        &self,
        reply: ReplyDuty,
        request: Request,
        payload: RequestContent<'_>,
    ) -> std::result::Result<(), LinkError> {
        (self.session.serve)(&self.session, &self.caller, reply, request, payload)
    }

    fn ended(&self) {
        self.session.ended(self.number);
    }
}

impl ServerSession {
    /// A session without connections.
    pub(crate) fn new(id: SessionId, hello: &Hello, ends: Box<dyn OpenEnds>, serve: Serve) -> Arc<Self> {
        let pool = BufferPool::new(hello.max_memory);
        ends.limit(hello.iops);
        let session = Arc::new(Self {
            id,
            serve,
            ends,
            packer: Packer::new(&pool, 0),
            pool,
            max_memory: hello.max_memory,
            workers: Workers::default(),
            fetchers: Workers::default(),
            third_parties: ThirdParties::default(),
            timeout: Duration::from_secs(u64::from(hello.timeout.max(2)) * 2),
            direct: Mutex::default(),
            roots: Mutex::default(),
            programs: Mutex::default(),
            scans: Mutex::default(),
            nice: Mutex::default(),
            connections: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = Arc::downgrade(&session);
        session.packer.watch(move || watched.upgrade()?.link_time());
        session
    }

    /// Serves one more connection, whose Hello has been read. `keep` is dropped when the connection ends.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub(crate) fn add(
        self: &Arc<Self>,
        streams: Streams,
        keep: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<()> {
        self.take_in(streams, RequestingEnd::LocalEnd, keep)
    }

    /// The same, for a connection of this caller.
    pub(crate) fn take_in(
        self: &Arc<Self>,
        streams: Streams,
        caller: RequestingEnd,
        keep: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<()> {
        let number = {
            let mut connections = self.connections.lock();
            connections.next += 1;
            connections.next
        };
        let mut welcome = Welcome::new(Ok(self.id));
        welcome.direct = self.direct().map(|direct| direct.answer.clone());
        let (from, to, socket) = (streams.from, streams.to, streams.socket);
        let (outbox, threads) = connection::set_up(from, to, &welcome)?;
        {
            let mut connections = self.connections.lock();
            if connections.closed {
                return Err(io::ErrorKind::NotConnected.into());
            }
            connections.up.insert(number, AgentConnection { caller: caller.clone(), outbox, socket });
        }
        let handler: Arc<dyn Handler> = Arc::new(SessionHandler { session: self.clone(), number, caller });
        let started = threads.start(number, &handler, &self.pool, keep);
        if started.is_err() {
            self.ended(number);
        }
        started
    }

    /// From now on there may be connections that do not go through ssh.
    pub(crate) fn set_direct(&self, direct: DirectParameters) {
        *self.direct.lock() = Some(Arc::new(direct));
    }

    pub(crate) fn direct(&self) -> Option<Arc<DirectParameters>> {
        self.direct.lock().clone()
    }

    /// The time of the direct connections; `None` without any.
    fn link_time(&self) -> Option<LinkTime> {
        let connections = self.connections.lock();
        let infos = connections.up.values().filter_map(|up| tcp::info(up.socket.as_ref()?).ok());
        LinkTime::sum(infos.map(|info| (info.busy, info.window_limited)))
    }

    /// A connection has ended.
    pub(crate) fn ended(&self, number: u64) {
        let connection = self.connections.lock().up.remove(&number);
        if let Some(connection) = connection {
            connection.outbox.end();
        }
        self.changed.notify_all();
    }

    /// Waits until the last connection of the local end has ended.
    pub(crate) fn wait(&self) {
        let tick = (self.timeout / 4).clamp(Duration::from_secs(1), Duration::from_secs(5));
        let mut looked = Instant::now();
        let mut lost = None;
        let mut connections = self.connections.lock();
        loop {
            let is_up = connections.up.values().any(|up| matches!(up.caller, RequestingEnd::LocalEnd));
            let since = (!is_up).then(|| *lost.get_or_insert_with(Instant::now));
            match since {
                None => lost = None,
                Some(since) if self.programs.lock().is_empty() || since.elapsed() >= LINGER => break,
                Some(_) => {}
            }
            let tick = if is_up { tick } else { LINGER / 15 };
            (connections, _) = self.changed.wait_timeout(connections, tick);
            let elapsed = looked.elapsed();
            looked = Instant::now();
            for connection in connections.up.values() {
                if elapsed > tick * 2 {
                    // This process did not run meanwhile, so silence proves nothing.
                    connection.outbox.liveness.heard();
                } else if connection.outbox.liveness.silent_for() > self.timeout {
                    // Its reader ends within a second and removes it.
                    connection.outbox.end();
                }
            }
        }
        connections.closed = true;
    }

    /// Makes all accepted writes durable, and closes everything.
    pub(crate) fn close(&self) {
        self.direct.lock().take();
        self.third_parties.close();
        for scan in std::mem::take(&mut *self.scans.lock()).into_values() {
            scan.cancel();
        }
        let roots: Vec<OpenSlot> = std::mem::take(&mut *self.roots.lock()).into_values().collect();
        for slot in roots {
            let open = std::mem::replace(&mut *slot.lock(), OpenEnd::Nothing);
            if let OpenEnd::Sink(sink) = open {
                sink.flush();
                // The end of a connection does not stop a write that its thread is in, and a half-written staged file
                // would stay behind.
                let until = Instant::now() + FINISH;
                while Arc::strong_count(&sink) > 1 && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    /// Starts a scan, unless it was started before.
    pub(crate) fn start_scan(
        &self,
        id: ScanId,
        start: impl FnOnce() -> Result<Arc<ServedScan>>,
    ) -> Result<()> {
        if let Entry::Vacant(new) = self.scans.lock().entry(id) {
            new.insert(start()?);
        }
        Ok(())
    }

    pub(crate) fn scan(&self, id: ScanId) -> Option<Arc<ServedScan>> {
        self.scans.lock().get(&id).cloned()
    }

    /// Ends a scan; whoever waits for a part of it is answered.
    pub(crate) fn end_scan(&self, id: ScanId) {
        let scan = self.scans.lock().remove(&id);
        if let Some(scan) = scan {
            scan.cancel();
        }
    }

    /// Opens a root, unless it is open.
    pub(crate) fn open(&self, root: RootId, open: impl FnOnce() -> Result<OpenEnd>) -> Result<()> {
        let slot =
            self.roots.lock().entry(root).or_insert_with(|| Arc::new(Mutex::new(OpenEnd::Nothing))).clone();
        let mut held = slot.lock();
        if matches!(*held, OpenEnd::Nothing) {
            *held = open()?;
        }
        Ok(())
    }

    /// Runs the program of a root, unless it runs.
    pub(crate) fn run(&self, root: RootId, open: impl FnOnce() -> Result<OpenEnd>) -> Result<()> {
        self.open(root, open)?;
        self.programs.lock().insert(root);
        Ok(())
    }

    pub(crate) fn close_root(&self, root: RootId) {
        if self.programs.lock().remove(&root) {
            self.changed.notify_all();
        }
        // The root is dropped outside of the lock, as a sink may have to write.
        let slot = self.roots.lock().remove(&root);
        if let Some(slot) = slot {
            let open = std::mem::replace(&mut *slot.lock(), OpenEnd::Nothing);
            drop(open);
        }
    }

    fn root(&self, root: RootId) -> Option<OpenEnd> {
        let slot = self.roots.lock().get(&root)?.clone();
        let open = slot.lock().clone();
        Some(open)
    }

    pub(crate) fn source(&self, root: RootId) -> Option<Arc<dyn Source>> {
        if let Some(OpenEnd::Source(source)) = self.root(root) { Some(source) } else { None }
    }

    pub(crate) fn sink(&self, root: RootId) -> Option<Arc<dyn Sink>> {
        if let Some(OpenEnd::Sink(sink)) = self.root(root) { Some(sink) } else { None }
    }
}

//! One session: its connections, and what is open in it.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_codec::Packer;
use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{BufferPool, Place, Result, Sink, SinkOptions, Source};
use haul_local::Nice;
use haul_transport::Streams;
use haul_wire::{DirectOffer, Hello, RootId, ScanId, SessionId, Welcome};

use crate::connection::{self, Connection};
use crate::direct::Direct;
use crate::pairs::{Guest, Pairs};
use crate::scan::Scan;
use crate::workers::Workers;

/// How long the end waits for a write that is under way: a disk may be slow, but not for ever.
const FINISH: Duration = Duration::from_secs(20);

/// What a session can open.
pub trait Ends: Send + Sync {
    /// Opens a source whose buffers come from `pool`.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn source(&self, place: &Place, pool: &BufferPool) -> Result<Arc<dyn Source>>;

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

    /// Whether entries may be removed.
    ///
    /// # Errors
    /// If not.
    fn may_remove(&self) -> Result<()> {
        Ok(())
    }
}

/// Something that is open.
#[derive(Clone)]
pub(crate) enum Open {
    /// It was asked for and is being opened, or could not be.
    Nothing,
    Source(Arc<dyn Source>),
    Sink(Arc<dyn Sink>),
}

/// Held while it is being opened, so that the same request again waits and finds it.
type Slot = Arc<Mutex<Open>>;

/// A session at the remote end.
pub struct Hub {
    pub(crate) session: SessionId,
    pub(crate) ends: Box<dyn Ends>,
    pub(crate) pool: BufferPool,
    pub(crate) packer: Arc<Packer>,
    pub(crate) max_memory: u64,
    pub(crate) workers: Workers,
    /// For what is fetched from other remote ends, so that nothing else has to wait for these.
    pub(crate) fetchers: Workers,
    /// Other remote ends.
    pub(crate) pairs: Pairs,
    /// Silence after which a connection is given up. Longer than at the local end, which knows better and can act.
    patience: Duration,
    /// What opens connections that do not go through ssh.
    direct: Mutex<Option<Arc<Direct>>>,
    roots: Mutex<HashMap<RootId, Slot>>,
    pub(crate) scans: Mutex<HashMap<ScanId, Arc<Scan>>>,
    /// Once the local end has asked for it.
    pub(crate) nice: Mutex<Option<Nice>>,
    connections: Mutex<Connections>,
    changed: Condvar,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// Whether there will be no more.
    closed: bool,
    up: HashMap<u64, Arc<Connection>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Hub {
    /// A session without connections.
    #[must_use]
    pub fn new(session: SessionId, hello: &Hello, ends: Box<dyn Ends>) -> Arc<Self> {
        let pool = BufferPool::new(hello.max_memory);
        ends.limit(hello.iops);
        Arc::new(Self {
            session,
            ends,
            packer: Packer::new(&pool, 0),
            pool,
            max_memory: hello.max_memory,
            workers: Workers::default(),
            fetchers: Workers::default(),
            pairs: Pairs::default(),
            patience: Duration::from_secs(u64::from(hello.timeout.max(2)) * 2),
            direct: Mutex::default(),
            roots: Mutex::default(),
            scans: Mutex::default(),
            nice: Mutex::default(),
            connections: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Serves one more connection, whose Hello has been read. `keep` is dropped when the connection ends.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub fn add(self: &Arc<Self>, streams: Streams, keep: Option<Box<dyn Send + Sync>>) -> io::Result<()> {
        self.take_in(streams, None, keep)
    }

    /// The same; the connection may be that of a guest, who may do little.
    pub(crate) fn take_in(
        self: &Arc<Self>,
        streams: Streams,
        guest: Option<Arc<Guest>>,
        keep: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<()> {
        let number = {
            let mut connections = lock(&self.connections);
            connections.next += 1;
            connections.next
        };
        let mut welcome = Welcome::new(Ok(self.session));
        welcome.direct = self.direct().map(|direct| direct.answer.clone());
        let (connection, threads) = connection::set_up(number, streams, guest, &welcome)?;
        {
            let mut connections = lock(&self.connections);
            if connections.closed {
                return Err(io::ErrorKind::NotConnected.into());
            }
            connections.up.insert(number, connection.clone());
        }
        let started = threads.start(self, connection, keep);
        if started.is_err() {
            self.ended(number);
        }
        started
    }

    /// From now on there may be connections that do not go through ssh.
    pub(crate) fn allow_direct(self: &Arc<Self>, offer: &DirectOffer) {
        if let Ok(direct) = Direct::open(offer, self) {
            *lock(&self.direct) = Some(Arc::new(direct));
        }
    }

    pub(crate) fn direct(&self) -> Option<Arc<Direct>> {
        lock(&self.direct).clone()
    }

    /// A connection is gone.
    pub(crate) fn ended(&self, number: u64) {
        let connection = lock(&self.connections).up.remove(&number);
        if let Some(connection) = connection {
            connection.end();
        }
        self.changed.notify_all();
    }

    /// Waits until the local end's last connection is gone.
    pub fn wait(&self) {
        let tick = (self.patience / 4).clamp(Duration::from_secs(1), Duration::from_secs(5));
        let mut looked = Instant::now();
        let mut connections = lock(&self.connections);
        while connections.up.values().any(|connection| connection.guest.is_none()) {
            (connections, _) = self.changed.wait_timeout(connections, tick);
            let elapsed = looked.elapsed();
            looked = Instant::now();
            for connection in connections.up.values() {
                if elapsed > tick * 2 {
                    // This process was held up itself: silence says nothing.
                    connection.liveness.heard();
                } else if connection.liveness.silent_for() > self.patience {
                    // Its reader ends within a second, and takes it off the list.
                    connection.end();
                }
            }
        }
        connections.closed = true;
    }

    /// Makes durable what was taken, and lets go of everything.
    pub fn close(&self) {
        lock(&self.direct).take();
        self.pairs.close();
        for scan in std::mem::take(&mut *lock(&self.scans)).into_values() {
            scan.cancel();
        }
        let roots: Vec<Slot> = std::mem::take(&mut *lock(&self.roots)).into_values().collect();
        for slot in roots {
            let open = std::mem::replace(&mut *lock(&slot), Open::Nothing);
            if let Open::Sink(sink) = open {
                sink.flush();
                // A connection's end does not end the write that its thread is in. What is half staged when this process
                // ends would stay.
                let until = Instant::now() + FINISH;
                while Arc::strong_count(&sink) > 1 && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    /// Opens a root, or finds that it is open.
    pub(crate) fn open(&self, root: RootId, open: impl FnOnce() -> Result<Open>) -> Result<()> {
        let slot =
            lock(&self.roots).entry(root).or_insert_with(|| Arc::new(Mutex::new(Open::Nothing))).clone();
        let mut held = lock(&slot);
        if matches!(*held, Open::Nothing) {
            *held = open()?;
        }
        Ok(())
    }

    pub(crate) fn close_root(&self, root: RootId) {
        // What it holds is dropped outside of the lock: a sink may have to write.
        let slot = lock(&self.roots).remove(&root);
        if let Some(slot) = slot {
            let open = std::mem::replace(&mut *lock(&slot), Open::Nothing);
            drop(open);
        }
    }

    fn root(&self, root: RootId) -> Option<Open> {
        let slot = lock(&self.roots).get(&root)?.clone();
        let open = lock(&slot).clone();
        Some(open)
    }

    pub(crate) fn source(&self, root: RootId) -> Option<Arc<dyn Source>> {
        if let Some(Open::Source(source)) = self.root(root) { Some(source) } else { None }
    }

    pub(crate) fn sink(&self, root: RootId) -> Option<Arc<dyn Sink>> {
        if let Some(Open::Sink(sink)) = self.root(root) { Some(sink) } else { None }
    }
}

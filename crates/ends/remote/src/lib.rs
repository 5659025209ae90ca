//! Another haul, reached over one or more connections.
//!
//! A [`Peer`] is a session with one remote process. Its requests go over connections, each of them an ssh process of its own
//! (`haul-ssh`); `haul-wire` is what is said on them. Any request goes over any connection: the first connection must be up for
//! work to begin, further ones are opened when content waits for one, and a connection that dies takes nothing with it
//! but what is asked again on another. Content goes around ssh, over TLS connections of our own, where there is a way
//! (`direct`), and from one remote end to another where these two can reach each other (`pair` has the local end's part,
//! `neighbour` that of the end that fetches). Read `session` (requests and connections), then `supervisor` (who opens, watches and replaces connections), `tuner` (how
//! many), and `greeting` (what opens one). The frames themselves are in `haul-transport`.

mod admit;
mod connection;
mod connections;
mod direct;
mod greeting;
mod hint;
mod neighbour;
mod pair;
mod probe;
mod reader;
mod session;
mod sink;
mod source;
mod straggler;
mod supervisor;
mod tuner;
mod watch;

use haul_core::sync::Mutex;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_codec::Packer;
use haul_core::location::SshHost;
use haul_core::{
    BufferPool, Compress, Error, ErrorKind, HungOperation, Method, Pace, Place, Pressure, Result, Side, Sink,
    SinkOptions, Source, Traffic,
};
use haul_wire::{FrameError, Hello, Request, Response, RootId};

use direct::Gate;
use haul_ssh::{Note, SshConfig};
use session::{Pick, Session};
use supervisor::Supervisor;
use watch::Watch;

pub use direct::addresses;
pub use haul_transport::Ports;
pub use neighbour::{Expected, Neighbour};
pub use pair::Pair;
pub use probe::{Direction, Throughput};

/// How long the remote end may take to make durable what it has, once we have said all. Then only our own processes
/// are ended: the remote one goes on with it.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How long another haul may hold a sink before opening it fails: the remote end of a run that was just killed is gone
/// in a moment.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// How content travels to and from a remote haul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// Around ssh if there is a way, else through it.
    #[default]
    Auto,
    /// Over TLS connections of haul's own, or not at all.
    Tls,
    /// Through ssh.
    Ssh,
}

/// How to reach a remote haul.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// How content travels.
    pub transport: Transport,
    /// Ports that may be listened on for direct connections, at either end; any if `None`.
    pub ports: Option<Ports>,
    /// Our address for direct connections; the system's choice if `None`.
    pub bind: Option<IpAddr>,
    /// The congestion control of direct connections; haul's choice if `None`.
    pub congestion: Option<String>,
    /// How ssh reaches the host, and how long it may be silent.
    pub ssh: SshConfig,
    /// The words that start haul at the remote end, as its login shell reads them: `haul` or `--remote-haul`.
    pub remote_haul: String,
    /// Connections to open at most; 0 lets haul choose.
    pub streams: u32,
    /// The memory budget of the remote process, in bytes.
    pub max_memory: u64,
    /// File-system operations that the remote process may make on each side in a second; `None` is no limit.
    pub iops: Option<u64>,
    /// Limits on what goes over all connections together.
    pub pace: Pace,
    /// How content is packed on its way.
    pub compress: Compress,
    /// A folder in which is kept between runs how many connections helped; `None`: nowhere.
    pub hints: Option<PathBuf>,
    /// A way around ssh is looked for only once it is known that content comes through this machine: see [`Pair`].
    pub defer: bool,
}

/// A session with a remote haul: any number of roots over any number of connections. Dropping it ends it.
pub struct Peer {
    session: Arc<Session>,
    packer: Arc<Packer>,
    compress: Compress,
    /// Opens when a way around ssh may be looked for.
    gate: Gate,
    next_root: AtomicU32,
    next_scan: AtomicU32,
}

impl Peer {
    /// Logs in, starts the remote haul and greets it, on the first connection; more connections are opened as work comes.
    /// `note` gets sentences that the person should see. ssh may ask for a password here, on the terminal.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`] or [`haul_core::ErrorKind::Protocol`], with the way out as hint.
    pub fn connect(host: &SshHost, config: &PeerConfig, pool: &BufferPool, note: Note) -> Result<Arc<Self>> {
        let errand = haul_ssh::Errand::Agent(config.remote_haul.clone());
        let dialer = haul_ssh::SshDialer::new(host, &config.ssh, errand, note.clone())?;
        let name = host.to_string();
        let words: Vec<&str> = config.ssh.shell.iter().map(String::as_str).chain([&name[..]]).collect();
        let hint = config.hints.as_deref().map(|folder| hint::Hint::of(folder, &words));
        Self::begin(Box::new(dialer), config, hint, pool, note)
    }

    /// The same over connections of another making.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub fn over(
        dialer: Box<dyn haul_ssh::dial::Dial>,
        config: &PeerConfig,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        Self::begin(dialer, config, None, pool, note)
    }

    fn begin(
        dialer: Box<dyn haul_ssh::dial::Dial>,
        config: &PeerConfig,
        hint: Option<hint::Hint>,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        let direct = direct::Finder::new(config)?;
        let mut hello = admit::hello(config.max_memory, config.streams, config.ssh.timeout.max(2));
        hello.iops = config.iops;
        hello.direct = direct.as_ref().map(direct::Finder::offer);
        Self::greeting(hello, dialer, direct, hint, config, pool, note)
    }

    fn greeting(
        hello: Hello,
        dialer: Box<dyn haul_ssh::dial::Dial>,
        direct: Option<direct::Finder>,
        hint: Option<hint::Hint>,
        config: &PeerConfig,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        let timeout = config.ssh.timeout.max(2);
        let seconds = Duration::from_secs(timeout.into());
        let through_ssh = config.transport != Transport::Tls;
        let pace = config.pace.clone();
        let session = Arc::new(Session::new(dialer, through_ssh, pool.clone(), note, seconds, pace));
        // From here on the end of `peer` ends the session, whatever fails.
        let peer = Arc::new(Self {
            session: session.clone(),
            packer: Packer::new(pool, 0),
            compress: config.compress,
            gate: direct.as_ref().map_or_else(|| Gate::new(true), |direct| direct.gate.clone()),
            next_root: AtomicU32::new(1),
            next_scan: AtomicU32::new(1),
        });
        let mut supervisor = Supervisor::new(session, hello, config.streams, direct, hint);
        supervisor.first()?;
        thread::Builder::new()
            .name("haul-keeper".to_owned())
            .spawn(move || supervisor.run())
            .map_err(|error| Error::io(Side::Local, "start a thread", &error))?;
        Ok(peer)
    }

    /// Opens a source at the remote end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_source(self: &Arc<Self>, place: &Place) -> Result<Arc<dyn Source>> {
        let root = self.open(|root| Request::OpenSource { root, place: place.clone() })?;
        Ok(Arc::new(source::PeerSource { root: self.root(root) }))
    }

    /// Opens a sink at the remote end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        let root =
            self.open(|root| Request::OpenSink { root, place: place.clone(), options: options.clone() })?;
        Ok(Arc::new(sink::PeerSink::new(self.root(root))))
    }

    /// Opens a sink at the remote end of a pair whose content comes from `source` at the other.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open_sink_of(
        self: &Arc<Self>,
        place: &Place,
        options: &SinkOptions,
        pair: &Pair,
        source: &Place,
    ) -> Result<Arc<dyn Sink>> {
        let root = pair.source().open(|root| Request::OpenSource { root, place: source.clone() })?;
        let source = pair.source().root(root);
        let root =
            self.open(|root| Request::OpenSink { root, place: place.clone(), options: options.clone() })?;
        Ok(Arc::new(sink::PeerSink::new(self.root(root)).fetching(pair, source)))
    }

    /// Content comes through this machine: a way around ssh may be looked for, if [`PeerConfig::defer`] held that back.
    pub fn look_around(&self) {
        self.gate.open();
    }

    /// The remote end's name, for people.
    #[must_use]
    pub fn name(&self) -> String {
        self.session.dialer.name()
    }

    /// Makes the remote process nice to what else its machine does, and tells what others there waited since this was
    /// asked last; `None` if the kernel there does not tell. To be asked about once a second.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn nice(&self) -> Result<Option<Pressure>> {
        match self.call(&Request::Nice)? {
            Response::Nice(pressure) => Ok(pressure),
            _ => Err(strange()),
        }
    }

    fn open(&self, request: impl Fn(RootId) -> Request) -> Result<RootId> {
        let root = self.next_root.fetch_add(1, Ordering::Relaxed);
        let request = request(root);
        self.session.lock().roots.insert(root, request.clone());
        let give_up = Instant::now() + BUSY_PATIENCE;
        loop {
            match self.call(&request) {
                Ok(Response::Done) => return Ok(root),
                Err(error) if error.kind() == ErrorKind::Busy && Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(250));
                }
                other => {
                    self.session.lock().roots.remove(&root);
                    return Err(other.err().unwrap_or_else(strange));
                }
            }
        }
    }

    /// A small request; [`Response::Failed`] comes as the error that it is.
    fn call(&self, request: &Request) -> Result<Response> {
        self.call_on(request, Pick::Small)
    }

    /// The same, on another connection.
    fn call_on(&self, request: &Request, pick: Pick) -> Result<Response> {
        match self.session.call(request, pick, &|| None)?.0 {
            Response::Failed(error) => Err(error),
            Response::Gone => Err(self.session.unreachable("the far end lost what it had open")),
            response => Ok(response),
        }
    }

    /// A request for each of many items, in as many requests as it takes to fit into frames. An item that does not
    /// fit by itself gets an error of its own.
    fn call_each<T: Clone, A>(
        &self,
        operation: &str,
        items: &[T],
        request: &dyn Fn(Vec<T>) -> Request,
        answers: &dyn Fn(Response) -> Option<Vec<Result<A>>>,
    ) -> Result<Vec<Result<A>>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let response = match self.call(&request(items.to_vec())) {
            Err(error) if error == FrameError::TooLarge.into() => Response::TooLarge,
            other => other?,
        };
        if response != Response::TooLarge {
            return match answers(response) {
                Some(answers) if answers.len() == items.len() => Ok(answers),
                _ => Err(strange()),
            };
        }
        if items.len() == 1 {
            return Ok(vec![Err(too_large(operation))]);
        }
        let (first, second) = items.split_at(items.len() / 2);
        let mut all = self.call_each(operation, first, request, answers)?;
        all.extend(self.call_each(operation, second, request, answers)?);
        Ok(all)
    }

    fn root(self: &Arc<Self>, id: RootId) -> Root {
        Root { peer: self.clone(), id, travelled: Arc::default(), watch: Watch::default() }
    }

    fn streams(&self) -> u32 {
        self.session.lock().streams()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.session.close(END_PATIENCE);
        // Who waits there finds the session closed.
        self.gate.end();
    }
}

/// Something that is open at the remote end, until it is dropped.
struct Root {
    peer: Arc<Peer>,
    id: RootId,
    travelled: Arc<Travelled>,
    watch: Watch,
}

/// Counts content on its way.
#[derive(Default)]
struct Travelled(Mutex<Traffic>);

impl Travelled {
    /// Counts content that did not have to travel.
    fn matched(&self, bytes: u64) {
        self.0.lock().matched_bytes += bytes;
    }

    fn count(&self, wire_bytes: usize, method: Option<Method>) {
        let mut traffic = self.0.lock();
        traffic.wire_bytes += wire_bytes as u64;
        if wire_bytes > 0 {
            traffic.method = method;
        }
    }

    fn get(&self) -> Traffic {
        *self.0.lock()
    }
}

impl Root {
    fn traffic(&self) -> Traffic {
        Traffic { tcp: self.peer.session.lock().tcp(), ..self.travelled.get() }
    }

    /// What has been under way for so long, as far as the remote end has told.
    fn hung(&self, patience: Duration) -> Vec<HungOperation> {
        self.watch.hung(&self.peer.session, self.id, patience)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let session = &self.peer.session;
        session.lock().roots.remove(&self.id);
        if session.lock().connection_count() > 0
            && let Ok(mut frame) =
                haul_wire::encode(haul_wire::Kind::Request, 0, &Request::Close { root: self.id }, 0)
        {
            session.submit(&mut frame, &[], Pick::Small, None, Box::new(|_| {}));
        }
    }
}

/// The remote end answered something else than what it was asked.
fn strange() -> Error {
    FrameError::Rule("another answer than was asked for").into()
}

fn too_large(operation: &str) -> Error {
    let why = "its names or extended attributes are larger than the protocol allows";
    Error::new(ErrorKind::Unsupported, Side::Wire, operation, why)
}

//! A peer: one session with a remote haul, and the calls that every root makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_codec::Packer;
use haul_core::location::SshHost;
use haul_core::source::TakeArriving;
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, Compress, Error, ErrorKind, Note, Pressure, Result, Side, SliceData,
};
use haul_ssh::dial::Dial;
use haul_ssh::{Errand, SshDialer};
use haul_wire::{FrameError, Hello, Request, Response, RootId, check};

use super::admit;
use super::config::{PeerConfig, Transport};
use super::direct::Finder;
use super::gate::Gate;
use super::hint::Hint;
use super::reply_content::ReplyContent;
use super::session::{Session, Ways};
use super::state::Pick;
use super::supervisor::SessionSupervisor;
use super::traffic::TrafficCounter;

/// How long the remote end may take, after everything was sent, to make durable the content that it has accepted.
/// Then haul ends only the local ssh processes, and the remote process goes on.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How long another haul may hold a sink before opening it fails. The remote process of a run that was just killed is
/// gone in a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A session with a remote haul: any number of roots over any number of connections. Dropping it ends it.
pub struct Peer {
    pub(super) session: Arc<Session>,
    pub(super) packer: Arc<Packer>,
    pub(super) compress: Compress,
    /// Opens when the search for a direct connection may begin.
    pub(super) gate: Gate,
    next_root: AtomicU32,
    pub(super) next_scan: AtomicU32,
}

impl Peer {
    /// Logs in, starts the remote haul and greets it, on the first connection. More connections are opened as work
    /// comes. `note` gets messages for the user. ssh may ask for a password on the terminal.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`] or [`haul_core::ErrorKind::Protocol`], with a hint.
    pub fn connect(host: &SshHost, config: &PeerConfig, pool: &BufferPool, note: Note) -> Result<Arc<Self>> {
        let errand = Errand::Agent(config.remote_haul.clone());
        let dialer = SshDialer::new(host, &config.ssh, errand, note.clone())?;
        let name = host.to_string();
        let words: Vec<&str> = config.ssh.shell.iter().map(String::as_str).chain([&name[..]]).collect();
        let hint = config.hints.as_deref().map(|directory| Hint::of(directory, &words));
        Self::begin(Box::new(dialer), config, hint, pool, note)
    }

    /// As [`Peer::connect`], over connections of another kind.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub fn over(
        dialer: Box<dyn Dial>,
        config: &PeerConfig,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        Self::begin(dialer, config, None, pool, note)
    }

    fn begin(
        dialer: Box<dyn Dial>,
        config: &PeerConfig,
        hint: Option<Hint>,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        let direct = Finder::new(config)?;
        let mut hello = admit::hello(config.max_memory, config.streams, config.ssh.timeout.max(2));
        hello.iops = config.iops;
        hello.direct = direct.as_ref().map(Finder::offer);
        Self::greeting(hello, dialer, direct, hint, config, pool, note)
    }

    pub(super) fn greeting(
        hello: Hello,
        dialer: Box<dyn Dial>,
        direct: Option<Finder>,
        hint: Option<Hint>,
        config: &PeerConfig,
        pool: &BufferPool,
        note: Note,
    ) -> Result<Arc<Self>> {
        let timeout = config.ssh.timeout.max(2);
        let seconds = Duration::from_secs(timeout.into());
        let ways = Ways { through_ssh: config.transport != Transport::Tls, explains: config.explains };
        let pace = config.pace.clone();
        let session = Arc::new(Session::new(dialer, ways, pool.clone(), note, seconds, pace));
        // From here on, dropping `peer` ends the session, whatever fails.
        let peer = Arc::new(Self {
            session: session.clone(),
            packer: Packer::new(pool, 0),
            compress: config.compress,
            gate: direct.as_ref().map_or_else(|| Gate::new(true), |direct| direct.gate.clone()),
            next_root: AtomicU32::new(1),
            next_scan: AtomicU32::new(1),
        });
        let watched = session.clone();
        peer.packer.watch(move || watched.link_time());
        let mut supervisor =
            SessionSupervisor::new(session, hello, config.streams, direct, hint, peer.packer.clone());
        supervisor.first()?;
        thread::Builder::new()
            .name("haul-supervisor".to_owned())
            .spawn(move || supervisor.run())
            .map_err(|error| Error::io(Side::Local, "start a thread", &error))?;
        Ok(peer)
    }

    /// Content has to pass this host: starts the search that [`PeerConfig::defer`] held back.
    pub fn look_around(&self) {
        self.gate.open();
    }

    /// The name of the remote end, for display.
    #[must_use]
    pub fn name(&self) -> String {
        self.session.dialer.name()
    }

    /// Lowers the priority of the remote process, and returns how long other processes on its host waited since the
    /// last call; `None` if its kernel does not report that. To be called about once a second.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn nice(&self) -> Result<Option<Pressure>> {
        self.ask(&Request::Nice, only!(Nice))
    }

    /// Opens a root that a remote process that was started again does not open: its program has run.
    pub(super) fn run(&self, request: impl Fn(RootId) -> Request) -> Result<RootId> {
        let root = self.next_root.fetch_add(1, Ordering::Relaxed);
        self.tell(&request(root)).map(|()| root)
    }

    pub(super) fn open(&self, request: impl Fn(RootId) -> Request) -> Result<RootId> {
        let root = self.next_root.fetch_add(1, Ordering::Relaxed);
        let request = request(root);
        self.session.remember_root(root, request.clone());
        let give_up = Instant::now() + BUSY_TIMEOUT;
        loop {
            match self.call(&request) {
                Ok(Response::Done) => return Ok(root),
                Err(error) if error.kind() == ErrorKind::Busy && Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(250));
                }
                other => {
                    self.session.forget_root(root);
                    return Err(other.err().unwrap_or_else(unexpected_answer));
                }
            }
        }
    }

    /// Makes a small request. [`Response::Failed`] becomes an error.
    pub(super) fn call(&self, request: &Request) -> Result<Response> {
        self.call_on(request, Pick::Small)
    }

    /// Makes a request, and takes the content of the response that belongs to it: see [`only`].
    pub(super) fn ask<T>(&self, request: &Request, content: impl FnOnce(Response) -> Option<T>) -> Result<T> {
        content(self.call(request)?).ok_or_else(unexpected_answer)
    }

    /// Makes a request whose response has no content.
    pub(super) fn tell(&self, request: &Request) -> Result<()> {
        self.ask(request, |response| (response == Response::Done).then_some(()))
    }

    /// As [`Peer::call`], on another kind of connection.
    pub(super) fn call_on(&self, request: &Request, pick: Pick) -> Result<Response> {
        match self.session.call(request, pick)? {
            Response::Failed(error) => Err(error),
            Response::Gone => Err(self.session.root_is_gone()),
            response => Ok(response),
        }
    }

    /// Makes one request for many items, and splits it until each part fits into a frame. An item that does not fit by
    /// itself gets an error.
    pub(super) fn call_each<T: Clone, A>(
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
                _ => Err(unexpected_answer()),
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

    /// Reads the content of a batch. Returns it with its bytes on the wire; `None` if `take` took it while it arrived.
    pub(super) fn read(
        &self,
        request: &Request,
        batch: &Arc<Batch>,
        travelled: &TrafficCounter,
        take: &mut TakeArriving<'_>,
    ) -> Result<(Option<BatchData>, u64)> {
        check::batch(batch)?;
        let owes = batch.iter().map(|(entry, slice)| slice.len_in(entry.len)).sum();
        let room = || Some(self.session.pool.take());
        let mut read = |request: &Request| {
            let mut take =
                |response, content| self.take_read(request, batch, travelled, response, content, take);
            self.session.call_and_take(request, Pick::Read(owes), &room, &mut take)?
        };
        match read(request)? {
            ReadBatch::Taken(data, wire_bytes) => Ok((data, wire_bytes)),
            // It says why now, or has read it by now.
            ReadBatch::Withdrawn => match read(&with_proof_before(request))? {
                ReadBatch::Taken(data, wire_bytes) => Ok((data, wire_bytes)),
                ReadBatch::Withdrawn => Err(unexpected_answer()),
            },
        }
    }

    /// As [`Peer::read`], and takes nothing while it arrives.
    pub(super) fn read_whole(
        &self,
        request: &Request,
        batch: &Arc<Batch>,
        travelled: &TrafficCounter,
    ) -> Result<(BatchData, u64)> {
        let (data, wire_bytes) = self.read(request, batch, travelled, &mut |_, _, _| Ok(false))?;
        Ok((data.ok_or_else(unexpected_answer)?, wire_bytes))
    }

    /// Takes the response to a request for content. The outer error is that of the connection, the inner one that of the
    /// remote end.
    fn take_read(
        &self,
        request: &Request,
        batch: &Arc<Batch>,
        travelled: &TrafficCounter,
        response: Response,
        content: Option<ReplyContent>,
        take: &mut TakeArriving<'_>,
    ) -> Result<Result<ReadBatch>> {
        let (mut slices, packing, ended, proof_follows) = match response {
            Response::Read { slices, packing, ended, proof_follows } => {
                (slices, packing, ended, proof_follows)
            }
            Response::Failed(error) => return Ok(Err(error)),
            Response::Gone => return Ok(Err(self.session.root_is_gone())),
            _ => return Ok(Err(unexpected_answer())),
        };
        if !is_asked_for(request, &slices, proof_follows) {
            return Ok(Err(unexpected_answer()));
        }
        let batch = ended.map_or_else(|| batch.clone(), |len| Arc::new(batch.ended_at(len)));
        let wire_bytes = content.as_ref().map_or(0, ReplyContent::len);
        let method = packing.map(|packing| packing.method);
        let mut content = match content {
            None => Buffer::default(),
            Some(mut arriving) => {
                if proof_follows {
                    arriving.expect_proof();
                }
                // A sink takes no compressed content.
                let taken = if packing.is_some() { Ok(false) } else { take(&batch, &slices, &mut arriving) };
                let received =
                    taken.and_then(|taken| if taken { Ok(None) } else { arriving.collect().map(Some) });
                match received {
                    Err(error) if !arriving.is_withdrawn() => return Err(error),
                    Err(_) => {
                        travelled.count(wire_bytes, method);
                        return Ok(Ok(ReadBatch::Withdrawn));
                    }
                    Ok(None) => {
                        travelled.count(wire_bytes, method);
                        return Ok(Ok(ReadBatch::Taken(None, wire_bytes as u64)));
                    }
                    Ok(Some((content, proof))) => {
                        if let (Some(proof), [Ok(slice)]) = (proof, slices.as_mut_slice()) {
                            slice.value = proof;
                        }
                        content
                    }
                }
            }
        };
        travelled.count(wire_bytes, method);
        self.packer.unpack(packing, &mut slices, &mut content);
        let data = BatchData { batch, slices, content, at_hand: false };
        Ok(Ok(ReadBatch::Taken(Some(data), wire_bytes as u64)))
    }

    pub(super) fn streams(&self) -> u32 {
        self.session.streams()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.session.close(END_TIMEOUT);
        // Threads that wait at the gate end.
        self.gate.end();
    }
}

/// The answer to a request for the content of a batch.
enum ReadBatch {
    /// The content, unless it was taken while it arrived, and its bytes on the wire.
    Taken(Option<BatchData>, u64),
    /// The remote end could not read the slice to its end, and did not say why.
    Withdrawn,
}

/// Whether the request allows these slices in its answer: equal pages only if it has page hashes, and a proof behind the
/// content only if it says so.
fn is_asked_for(request: &Request, slices: &[Result<SliceData>], proof_follows: bool) -> bool {
    let (Request::Read { pages, proof_may_follow, .. } | Request::Pull { pages, proof_may_follow, .. }) =
        request
    else {
        return false;
    };
    let is_same = slices.iter().flatten().any(|slice| slice.same_len() > 0);
    (pages.is_some() || !is_same) && (*proof_may_follow || !proof_follows)
}

/// The same request, whose answer says of a slice that cannot be read why.
fn with_proof_before(request: &Request) -> Request {
    let mut request = request.clone();
    if let Request::Read { proof_may_follow, .. } | Request::Pull { proof_may_follow, .. } = &mut request {
        *proof_may_follow = false;
    }
    request
}

/// Takes the content of one kind of response; `None` if it is another kind.
macro_rules! only {
    ($kind:ident) => {
        |response| match response {
            haul_wire::Response::$kind(content) => Some(content),
            _ => None,
        }
    };
}
pub(super) use only;

/// The error of a response of another kind than the request asks for.
pub(super) fn unexpected_answer() -> Error {
    FrameError::Rule("another answer than was asked for").into()
}

/// The error of an item that does not fit into a frame by itself.
pub(super) fn too_large(operation: &str) -> Error {
    let why = "its names or extended attributes are larger than the protocol allows";
    Error::new(ErrorKind::Unsupported, Side::Wire, operation, why)
}

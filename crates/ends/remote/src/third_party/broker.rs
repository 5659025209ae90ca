//! The broker of a third-party copy: the local end, which introduces two remote ends to each other.
//!
//! The broker then asks the end of the sink to fetch each batch, and gets the outcome; the content does not pass it. If
//! the two cannot reach each other, the broker relays: it reads content from one and writes it to the other.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{
    Batch, Compress, Error, ErrorKind, HungOperation, Note, PageReport, Result, Retry, Side, WriteDone,
};
use haul_wire::{
    DirectAnswer, FrameKind, Granter, MAX_ADDRESSES, PairId, Reach, Request, Response, SessionId, encode,
    ticket,
};

use crate::config::{PeerConfig, Transport};
use crate::direct::{hosts_of, reach_of};
use crate::gate::Gate;
use crate::parts::{failed, fits};
use crate::peer::{Peer, unexpected_answer};
use crate::root::RemoteRoot;
use crate::session::Session;
use crate::state::{OnReply, Pick};

/// How long content waits for the two to connect before it is relayed meanwhile.
const FIND: Duration = Duration::from_secs(1);
/// How often the two are introduced again after they lost their connections.
const AGAIN: u32 = 3;
/// The most fetches in flight. A fetch is answered up to half a second after its content has arrived.
const AHEAD: u32 = 128;
/// How often to check whether the rate limit was changed.
const TICK: Duration = Duration::from_millis(250);

/// The end of a source and the end of a sink.
pub struct Broker {
    source: Arc<Peer>,
    shared: Arc<SharedPair>,
}

struct SharedPair {
    /// `None`: both ends are in one remote process.
    number: Option<PairId>,
    from: Arc<Session>,
    to: Arc<Session>,
    /// Opened when content has to pass this host.
    gates: [Gate; 2],
    secret: [u8; 32],
    compress: Compress,
    streams: u32,
    timeout: u32,
    /// Whether content may go through ssh.
    through_ssh: bool,
    note: Note,
    begun: Instant,
    state: Mutex<PairState>,
    changed: Condvar,
    /// Connections between the two.
    connections: AtomicU32,
}

struct PairState {
    way: Introduction,
    /// How often the two have connected.
    times: u32,
    /// Fetches in flight.
    fetching: u32,
    ended: bool,
}

#[derive(Clone)]
enum Introduction {
    /// They are being introduced.
    Looking,
    /// They are connected.
    Direct,
    /// They were connected, and lost their connections.
    Lost(String),
    /// They cannot connect: content is relayed.
    Relay,
}

impl Broker {
    /// Introduces the ends of a source and of a sink to each other, on a thread of its own. `note` hears which way
    /// content takes. A number is for one pair of one local end.
    ///
    /// # Errors
    /// If the system has no randomness, or refuses a thread.
    pub fn introduce(
        number: PairId,
        from: &Arc<Peer>,
        to: &Arc<Peer>,
        config: &PeerConfig,
        note: Note,
    ) -> Result<Self> {
        let mut secret = [0; 32];
        let system = |error| Error::io(Side::Local, "introduce two remote ends", &error);
        let filled = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
        if filled.map_err(|error| system(error.into()))? != secret.len() {
            return Err(system(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let one = Arc::ptr_eq(from, to);
        let way = if one { Introduction::Direct } else { Introduction::Looking };
        let shared = Arc::new(SharedPair {
            number: (!one).then_some(number),
            from: from.session.clone(),
            to: to.session.clone(),
            gates: [from.gate.clone(), to.gate.clone()],
            secret,
            compress: config.compress,
            streams: config.streams,
            timeout: config.ssh.timeout.max(2),
            through_ssh: config.transport != Transport::Tls,
            note,
            begun: Instant::now(),
            state: Mutex::new(PairState { way, times: 0, fetching: 0, ended: false }),
            changed: Condvar::new(),
            connections: AtomicU32::new(0),
        });
        let own = Self { source: from.clone(), shared };
        match own.shared.number {
            None => (own.shared.note)(&format!("both ends are at {}: content stays there", to.name())),
            Some(_) if config.transport == Transport::Ssh => own.shared.relay("ssh was asked for", &[]),
            Some(number) => {
                // Held weakly, so that the end of the pair ends it.
                let keeping = Arc::downgrade(&own.shared);
                let spawned = thread::Builder::new().name("haul-pair".to_owned());
                spawned.spawn(move || keep(&keeping, number)).map_err(system)?;
            }
        }
        Ok(own)
    }

    pub(crate) fn source(&self) -> &Arc<Peer> {
        &self.source
    }

    /// Requests fetches from `source`.
    pub(crate) fn fetcher(&self, source: RemoteRoot) -> Fetcher {
        Fetcher { shared: self.shared.clone(), source }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

/// Introduces the two, updates their rate limit, and introduces them again when they have lost their connections.
fn keep(shared: &Weak<SharedPair>, number: PairId) {
    let mut rate = None;
    let mut lost = 0;
    while let Some(pair) = shared.upgrade() {
        let state = pair.state.lock();
        if state.ended {
            return;
        }
        match state.way.clone() {
            Introduction::Looking => {
                drop(state);
                rate = pair.to.pace.outbound.rate();
                match pair.meet(number, rate) {
                    Ok(met) => pair.found(met),
                    Err(reasons) => return pair.relay("they cannot connect to each other", &reasons),
                }
            }
            Introduction::Lost(why) if lost == AGAIN => {
                drop(state);
                return pair.relay("they lose their connections", &[why]);
            }
            Introduction::Lost(_) => {
                lost += 1;
                pair.turn(state, Introduction::Looking);
            }
            Introduction::Direct => {
                drop(pair.changed.wait_timeout(state, TICK));
                let wanted = pair.to.pace.outbound.rate();
                if wanted != rate && ask(&pair.to, &Request::Rate { pair: number, rate: wanted }).is_ok() {
                    rate = wanted;
                }
            }
            Introduction::Relay => return,
        }
    }
}

/// Makes a request. The error is a text for the user.
fn ask(of: &Session, request: &Request) -> std::result::Result<Response, String> {
    match of.call(request, Pick::Small) {
        Ok(Response::Failed(error)) | Err(error) => Err(error.cause().to_owned()),
        Ok(response) => Ok(response),
    }
}

/// How the two are connected, and why it is not the way that was tried first.
type Met = (String, Option<String>);

/// A remote end's public key and session, if it has a key.
fn known(end: &Session) -> std::result::Result<(Vec<u8>, SessionId), String> {
    match (end.answer(), end.id()) {
        (Some(answer), Some(session)) => Ok((answer.key, session)),
        _ => Err(format!("{} has no key", end.dialer.name())),
    }
}

/// The addresses from which a remote end may connect, as it and this host know them.
fn whence(end: &Session) -> Vec<IpAddr> {
    let address = end.answer().and_then(|answer| answer.address);
    let mut at = hosts_of(&*end.dialer, address);
    at.truncate(MAX_ADDRESSES);
    at
}

/// Asks a remote end to listen. Returns its port and addresses.
fn listen(end: &Session, request: &Request) -> std::result::Result<Reach, String> {
    let failed = |why: String| format!("{} cannot listen: {why}", end.dialer.name());
    match ask(end, request).map_err(failed)? {
        Response::Listening(DirectAnswer { port, address, .. }) => {
            let port = port.map_err(failed)?;
            Ok(reach_of(&*end.dialer, address, port))
        }
        _ => Err(failed("another answer than was asked for".to_owned())),
    }
}

impl SharedPair {
    fn turn(&self, mut state: MutexGuard<'_, PairState>, way: Introduction) {
        state.way = way;
        drop(state);
        self.changed.notify_all();
    }

    /// Makes the two connect: the end of the sink to the end of the source, else the other way. Returns a description,
    /// and why it is not the first way; or why they cannot.
    fn meet(&self, pair: PairId, rate: Option<u64>) -> std::result::Result<Met, Vec<String>> {
        let (a, b) = (self.from.dialer.name(), self.to.dialer.name());
        let key_of = |end| known(end).map_err(|why| vec![why]);
        let ((key, session), (other, _)) = (key_of(&self.from)?, key_of(&self.to)?);
        let (streams, timeout) = (self.streams, self.timeout);
        let with = Granter { name: a.clone(), key: key.clone(), session, streams, timeout, rate };
        let meet = |at| ask(&self.to, &Request::Meet { pair, with: with.clone(), at });
        let there = match listen(
            &self.from,
            &Request::Admit { pair, key: other, secret: self.secret, from: whence(&self.to) },
        ) {
            Ok(at) => {
                let port = at.port;
                match meet(Some(at)) {
                    Ok(_) => return Ok((format!("to port {port} of {a}"), None)),
                    Err(why) => format!("port {port} of {a}: {why}"),
                }
            }
            Err(why) => why,
        };
        let at = match listen(&self.to, &Request::Expect { pair, key, from: whence(&self.from) }) {
            Ok(at) => at,
            Err(why) => return Err(vec![there, why]),
        };
        let port = at.port;
        match ask(&self.from, &Request::Visit { pair, at }).and_then(|_| meet(None)) {
            Ok(_) => Ok((format!("to port {port} of {b}"), Some(there))),
            Err(why) => Err(vec![there, format!("port {port} of {b}: {why}")]),
        }
    }

    fn found(&self, (how, other_way): Met) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.times += 1;
        self.turn(state, Introduction::Direct);
        let (a, b) = (self.from.dialer.name(), self.to.dialer.name());
        (self.note)(&format!("content goes from {a} to {b} directly, over TLS connections {how}"));
        self.explain(other_way.as_slice());
    }

    /// Reports reasons, if they are wanted.
    fn explain(&self, reasons: &[String]) {
        reasons.iter().filter(|_| self.to.ways.explains).for_each(|why| (self.note)(why));
    }

    /// From now on content is relayed.
    fn relay(&self, cause: &str, reasons: &[String]) {
        let state = self.state.lock();
        if state.ended {
            return;
        }
        self.turn(state, Introduction::Relay);
        let (a, b) = (self.from.dialer.name(), self.to.dialer.name());
        (self.note)(&format!("content from {a} to {b} passes through this machine: {cause}"));
        self.explain(reasons);
        self.gates.iter().for_each(Gate::open);
    }

    /// A fetch that began after the two had connected for the nth time reports that they lost their connections.
    fn lost(&self, times: u32, error: &Error) {
        let state = self.state.lock();
        if state.times == times && matches!(state.way, Introduction::Direct) && self.number.is_some() {
            self.turn(state, Introduction::Lost(error.cause().to_owned()));
        }
    }

    /// Waits until a batch may be fetched. Returns how often the two had connected by then; `None`: relay it.
    fn begin(&self) -> Option<u32> {
        let mut state = self.state.lock();
        loop {
            match state.way {
                Introduction::Direct if state.fetching < AHEAD => {
                    state.fetching += 1;
                    return Some(state.times);
                }
                Introduction::Direct => {}
                Introduction::Looking | Introduction::Lost(_)
                    if self.through_ssh && self.begun.elapsed() > FIND =>
                {
                    return None;
                }
                Introduction::Looking | Introduction::Lost(_) => {}
                Introduction::Relay => return None,
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait_timeout(state, TICK).0;
        }
    }

    /// Applies the rate limit to content that goes over no connection.
    fn pace(&self, batch: &Batch) {
        let len: u64 = batch.iter().map(|(entry, slice)| slice.len_in(entry.len)).sum();
        self.to.pace.outbound.pass(usize::try_from(len).unwrap_or(0), &|| self.state.lock().ended);
    }

    fn answered(&self) {
        self.state.lock().fetching -= 1;
        self.changed.notify_all();
    }
}

/// Asks the remote end of a sink to fetch its content from a source.
pub(crate) struct Fetcher {
    shared: Arc<SharedPair>,
    source: RemoteRoot,
}

impl Fetcher {
    /// The number of connections between the two; `None` if content is relayed.
    pub(crate) fn streams(&self) -> Option<u32> {
        let direct = matches!(self.shared.state.lock().way, Introduction::Direct);
        direct.then(|| self.shared.connections.load(Ordering::Relaxed))
    }

    /// The results of the page checks at the end of the source.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(crate) fn page_report(&self) -> Result<Option<PageReport>> {
        self.source.page_report()
    }

    /// The operations that hang at the end of the source.
    pub(crate) fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.source.hung(timeout)
    }

    /// Whether operations at the end of the source wait because of the limit on operations per second.
    pub(crate) fn is_held_by_iops(&self) -> bool {
        self.source.is_held_by_iops()
    }

    /// As [`haul_core::Sink::fetch`].
    pub(crate) fn fetch(&self, sink: &RemoteRoot, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        let shared = &self.shared;
        let request = self.request(sink, batch);
        // A batch that is too large for a frame is sent in parts, for which content has to be relayed.
        let Some(mut frame) = request else {
            shared.gates.iter().for_each(Gate::open);
            return Some(done);
        };
        let Some(times) = shared.begin() else { return Some(done) };
        if shared.number.is_none() {
            shared.pace(batch);
        }
        let (pair, count) = (shared.clone(), batch.slices.len());
        let traffic = sink.traffic.clone();
        let on_reply: OnReply = Box::new(move |reply| {
            pair.answered();
            let error = match reply.and_then(|reply| pair.to.open_reply(reply, None)) {
                Ok((Response::Fetched { outcomes, wire_bytes, matched_bytes, method, streams }, _))
                    if outcomes.len() == count =>
                {
                    if outcomes.iter().all(std::result::Result::is_ok) {
                        traffic.matched(matched_bytes);
                    }
                    let wire_bytes = usize::try_from(wire_bytes).unwrap_or(usize::MAX);
                    traffic.count(wire_bytes, method);
                    pair.to.pace.outbound.count(wire_bytes);
                    pair.connections.store(streams, Ordering::Relaxed);
                    return done(outcomes);
                }
                Ok((Response::Failed(error), _)) if error.kind() == ErrorKind::Unreachable => {
                    pair.lost(times, &error);
                    error.with_retry(Retry::OtherStream)
                }
                Ok((Response::Failed(error), _)) | Err(error) => error,
                Ok((Response::Gone, _)) => pair.to.root_is_gone(),
                Ok(_) => unexpected_answer(),
            };
            done(failed(count, &error));
        });
        shared.to.submit(&mut frame, &[], Pick::Small, None, on_reply);
        None
    }

    fn request(&self, sink: &RemoteRoot, batch: &Arc<Batch>) -> Option<Vec<u8>> {
        if !fits(batch) {
            return None;
        }
        let shared = &self.shared;
        let request = Request::Fetch {
            root: sink.id,
            pair: shared.number,
            source: self.source.id,
            batch: batch.clone(),
            compress: shared.compress,
            ticket: ticket::make(&shared.secret, self.source.id, batch).ok()?,
        };
        encode(FrameKind::Request, 0, &request, 0).ok()
    }
}

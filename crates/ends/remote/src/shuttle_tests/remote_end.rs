//! A session over connections in memory, with a remote end that answers until its connection is cut.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use haul_core::sink::ArrivingContent;
use haul_core::sync::{Condvar, Mutex, MutexGuard};
use haul_core::{Buffer, BufferPool, ErrorKind, Pace, Result, Retry};
use haul_ssh::dial::{DialRefused, Helper};
use haul_transport::{FrameOutput, LinkError};
use haul_wire::{
    FrameHeader, FrameKind, HEADER_LEN, Request, Response, SessionId, Welcome, decode_body, encode,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};

use crate::connection::{Connection, Incoming};
use crate::reader::read_connection;
use crate::reply_content::ReplyContent;
use crate::session::tests::UnreachableHost;
use crate::session::{Session, Ways};
use crate::state::{OnReply, Pick, RawReply};

/// The number of schedules of each kind in each test.
const SCHEDULES: usize = 2000;
/// The most changes of priorities in a schedule that is not random.
const CHANGES: usize = 3;

const SESSION: SessionId = [7; 16];

/// Runs a model in many orders of its threads.
pub(super) fn in_many_orders(model: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(model);
    Runner::new(PctScheduler::new(CHANGES, SCHEDULES), config).run(model);
}

/// A connection, seen from the remote end.
#[derive(Default)]
pub(super) struct RemoteWire {
    state: Mutex<WireState>,
    changed: Condvar,
}

#[derive(Default)]
struct WireState {
    /// The requests that were sent: their numbers and bodies.
    requests: VecDeque<(u64, Vec<u8>)>,
    /// The local end has closed its direction: the remote end answers the requests that it has got, and ends.
    closed: bool,
    cut: bool,
    /// A write waits until the remote end takes it.
    stalled: bool,
}

impl RemoteWire {
    fn lock(&self) -> MutexGuard<'_, WireState> {
        self.state.lock()
    }

    /// The remote end is gone, with the requests that it has not answered.
    pub(super) fn cut(&self) {
        self.lock().cut = true;
        self.changed.notify_all();
    }

    /// Whether the remote end takes nothing for now.
    pub(super) fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
        self.changed.notify_all();
    }
}

struct SendingWire(Arc<RemoteWire>);

impl FrameOutput for SendingWire {
    fn write(&mut self, head: &[u8], _: &[u8]) -> io::Result<()> {
        let header = FrameHeader::decode(head.first_chunk().unwrap()).unwrap();
        let stalled = |state: &mut WireState| state.stalled && !state.cut;
        let mut state = self.0.changed.wait_while(self.0.lock(), stalled);
        if state.cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.requests.push_back((header.id, head[HEADER_LEN..].to_vec()));
        drop(state);
        self.0.changed.notify_all();
        // The content takes a while.
        thread::yield_now();
        Ok(())
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

struct Receiving {
    wire: Arc<RemoteWire>,
    /// The remote end greets first.
    greets: bool,
    /// The value of each byte of the content that comes next.
    value: u8,
}

impl Incoming for Receiving {
    fn head(&mut self) -> std::result::Result<(FrameHeader, Vec<u8>), LinkError> {
        if std::mem::take(&mut self.greets) {
            let frame = encode(FrameKind::Welcome, 0, &Welcome::new(Ok(SESSION)), 0).unwrap();
            return Ok((FrameHeader::decode(frame.first_chunk().unwrap())?, frame[HEADER_LEN..].to_vec()));
        }
        let wire = &self.wire;
        let idle = |state: &mut WireState| state.requests.is_empty() && !state.closed && !state.cut;
        let mut state = wire.changed.wait_while(wire.lock(), idle);
        if state.cut {
            return Err(LinkError::Io(io::ErrorKind::ConnectionReset.into()));
        }
        let Some((id, body)) = state.requests.pop_front() else { return Err(LinkError::Closed) };
        let (body, payload_len) = match decode_body(&body).unwrap() {
            Request::Nothing => {
                let frame = encode(FrameKind::Response, id, &Response::Done, 0).unwrap();
                (frame[HEADER_LEN..].to_vec(), 0)
            }
            Request::Finish { root } => {
                self.value = root as u8;
                (body, root)
            }
            Request::Produce { bytes } => {
                self.value = bytes as u8;
                let frame = encode(FrameKind::Response, id, &Response::Produced, 0).unwrap();
                (frame[HEADER_LEN..].to_vec(), bytes)
            }
            _ => (body, 0),
        };
        let header = FrameHeader {
            kind: FrameKind::Response,
            body_len: body.len() as u32,
            payload_len,
            id,
            body_crc: 0,
        };
        Ok((header, body))
    }

    fn content(&mut self, room: &mut [u8]) -> std::result::Result<(), LinkError> {
        // It takes a while.
        thread::yield_now();
        if self.wire.lock().cut {
            return Err(LinkError::Io(io::ErrorKind::ConnectionReset.into()));
        }
        room.fill(self.value);
        Ok(())
    }
}

struct Carrier(Arc<RemoteWire>);

impl Helper for Carrier {
    fn kill(&self) {
        self.0.cut();
    }

    fn collect(&self, _: Duration) {}

    fn last_words(&self) -> String {
        String::new()
    }

    fn explain(&self) -> Option<DialRefused> {
        None
    }
}

/// A session, its connections, and the threads that read from them.
pub(super) struct SessionModel {
    pub(super) session: Arc<Session>,
    pool: BufferPool,
    readers: Mutex<Vec<JoinHandle<()>>>,
    answers: Arc<AnswerCounts>,
}

/// How often each request was answered.
#[derive(Default)]
struct AnswerCounts {
    counts: Mutex<Vec<u32>>,
    changed: Condvar,
}

impl SessionModel {
    pub(super) fn new(content_through_ssh: bool) -> Arc<Self> {
        // The models add their connections themselves.
        let (dialer, pool) = (Box::new(UnreachableHost), BufferPool::new(0));
        let note: haul_core::Note = Arc::new(|_| ());
        let timeout = Duration::from_secs(30);
        let ways = Ways { through_ssh: content_through_ssh, explains: false };
        let session = Session::new(dialer, ways, pool.clone(), note, timeout, Pace::default());
        session.welcomed(SESSION, None);
        Arc::new(Self {
            session: Arc::new(session),
            pool,
            readers: Mutex::default(),
            answers: Arc::default(),
        })
    }

    /// Adds a connection through ssh. `None`: the session is closed.
    pub(super) fn connect(&self) -> Option<(u64, Arc<RemoteWire>)> {
        self.add(false)
    }

    /// Adds a direct connection.
    pub(super) fn connect_directly(&self) -> Option<(u64, Arc<RemoteWire>)> {
        self.add(true)
    }

    fn add(&self, direct: bool) -> Option<(u64, Arc<RemoteWire>)> {
        let wire = Arc::new(RemoteWire::default());
        let carrier = Arc::new(Carrier(wire.clone()));
        let writer = Box::new(SendingWire(wire.clone()));
        let make = |number| Connection::new(number, direct, writer, Arc::default(), Some(carrier));
        let connection = self.session.add(make)?;
        let (session, number) = (self.session.clone(), connection.number);
        let receiving = Box::new(Receiving { wire: wire.clone(), greets: direct, value: 0 });
        self.readers.lock().push(thread::spawn(move || read_connection(&session, &connection, receiving)));
        Some((number, wire))
    }

    /// Submits a request, and counts its answers. A reply has to be its own.
    pub(super) fn submit(&self, pick: Pick) -> RequestAnswer {
        let at = {
            let mut counts = self.answers.counts.lock();
            counts.push(0);
            counts.len() - 1
        };
        let root = at as u32 + 1;
        let is_read = matches!(pick, Pick::Read(_));
        let request = if is_read { Request::Finish { root } } else { Request::Flush { root } };
        let buffer = is_read.then(|| self.pool.take());
        let mut frame = encode(FrameKind::Request, 0, &request, 0).unwrap();
        let outcome = Arc::new(Mutex::new(None));
        let (to, answers) = (outcome.clone(), self.answers.clone());
        let on_reply: OnReply = Box::new(move |reply| {
            *to.lock() = Some(own(reply, &request, is_read.then_some(root)));
            answers.counts.lock()[at] += 1;
            answers.changed.notify_all();
        });
        self.session.submit(&mut frame, &[], pick, buffer, on_reply);
        RequestAnswer { outcome, answers: self.answers.clone(), at }
    }

    /// Calls the remote end.
    pub(super) fn call(&self) -> Result<()> {
        let response = self.session.call(&Request::Nothing, Pick::Small)?;
        assert_eq!(response, Response::Done);
        Ok(())
    }

    /// Reads content piece by piece while it arrives, on another connection if one is lost.
    pub(super) fn read_arriving(&self, len: u32) -> Result<()> {
        let request = Request::Produce { bytes: len };
        let room = || Some(self.pool.take());
        self.session.call_and_take(&request, Pick::Read(len.into()), &room, &mut |_, content| {
            let mut content = content.unwrap();
            let mut found = Vec::new();
            loop {
                let piece = content.next()?;
                if piece.is_empty() {
                    break;
                }
                found.extend_from_slice(piece);
            }
            assert_eq!(found, vec![len as u8; len as usize]);
            Ok(())
        })
    }

    /// Closes the session. Then nothing is left of its requests and connections.
    pub(super) fn close(&self) {
        self.session.close(Duration::from_secs(5));
        for reader in std::mem::take(&mut *self.readers.lock()) {
            reader.join().unwrap();
        }
        let state = self.session.lock();
        assert!(state.connections.is_empty() && state.readers + state.dialing == 0);
        drop(state);
        let counts = self.answers.counts.lock();
        assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    }
}

/// Checks that a reply belongs to its request.
fn own(reply: Result<RawReply>, request: &Request, content: Option<u32>) -> Result<()> {
    let reply = reply?;
    assert_eq!(decode_body::<Request>(&reply.body).as_ref(), Ok(request));
    let expected = content.map(|len| vec![len as u8; len as usize]);
    let found = reply.content.map(|mut content| content.collect()).transpose()?.map(|(content, _)| content);
    assert_eq!(found.as_ref().map(Buffer::bytes), expected.as_deref());
    Ok(())
}

/// The answer to a request, which may not have come yet.
pub(super) struct RequestAnswer {
    outcome: Arc<Mutex<Option<Result<()>>>>,
    answers: Arc<AnswerCounts>,
    at: usize,
}

impl RequestAnswer {
    pub(super) fn wait(self) -> Result<()> {
        let waiting = |counts: &mut Vec<u32>| counts[self.at] == 0;
        drop(self.answers.changed.wait_while(self.answers.counts.lock(), waiting));
        let outcome = self.outcome.lock().take().unwrap();
        if let Err(error) = &outcome {
            assert_eq!(error.kind(), ErrorKind::Unreachable);
        }
        outcome
    }

    /// Waits for a reply, or for an error that allows another connection.
    pub(super) fn wait_for_reply_or_loss(self) {
        if let Err(error) = self.wait() {
            assert_eq!(error.retry(), Retry::OtherStream);
        }
    }
}

/// Starts a thread of a model.
pub(super) fn start(
    model: &Arc<SessionModel>,
    work: impl FnOnce(Arc<SessionModel>) + Send + 'static,
) -> JoinHandle<()> {
    let model = model.clone();
    thread::spawn(move || work(model))
}

pub(super) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

//! The connections of one remote end, and the requests on them.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use haul_ssh::Note;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Buffer, BufferPool, Error, ErrorKind, Pace, Result, Retry, Side};
use haul_wire::{
    DirectAnswer, Kind, Request, Response, RootId, SessionId, check, decode_body, encode, set_id,
};

use super::connection::Connection;
use haul_ssh::dial::Dial;

/// On how many connections one request may be lost before it is given up: it may be what kills them. When all are cut at once it
/// may meet one after the other before they are found dead, and the next cut may come meanwhile.
pub(super) const ATTEMPTS: u32 = 10;

/// How long the remote end's end is waited for when it has nothing to do any more.
const GOODBYE: Duration = Duration::from_millis(20);

/// What came back for a request.
pub(super) struct Reply {
    pub(super) body: Vec<u8>,
    /// The content, if there was any.
    pub(super) content: Option<Buffer>,
    pub(super) payload_len: usize,
    /// Which connection it came on.
    pub(super) connection: u64,
}

/// Gets the reply to a request, or the error that ended its connection. Called once, from any thread.
pub(super) type OnReply = Box<dyn FnOnce(Result<Reply>) + Send>;

/// Which connection a request is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The least busy one.
    Small,
    /// The one that owes the least; it will owe this many bytes more.
    Read(u64),
    /// One that nobody is writing to; waits for it.
    Write(u64),
    /// This one.
    Connection(u64),
}

/// A request that has no response yet.
pub(super) struct Pending {
    on_reply: OnReply,
    /// Where content of the response goes. It is taken before the request is sent, so that a connection never waits for
    /// memory.
    buffer: Option<Buffer>,
    owes: u64,
    /// Whether it is content that is asked for.
    read: bool,
}

/// A connection that is up.
pub(super) struct Up {
    pub(super) connection: Arc<Connection>,
    /// Whether content is being written to it.
    pub(super) writing: bool,
    /// Bytes of content in requests without response.
    pub(super) owes: u64,
    /// What the connection will have moved when it has moved all of that.
    pub(super) due: u64,
    pub(super) pending: HashMap<u64, Pending>,
}

pub(super) struct State {
    pub(super) connections: Vec<Up>,
    pub(super) next_request: u64,
    pub(super) next_connection: u64,
    /// The session at the remote end, once there is one.
    pub(super) session: Option<SessionId>,
    /// How often the remote end had to be started anew.
    pub(super) restarts: u32,
    /// Whether content goes around ssh.
    pub(super) direct: Direct,
    /// What the remote end told of it.
    pub(super) answer: Option<DirectAnswer>,
    /// On how many connections content may go.
    pub(super) active: u32,
    /// Bytes of content that have gone over all connections, either way.
    pub(super) moved: u64,
    /// Whether content had to wait for a connection since this was last looked at.
    pub(super) waited: bool,
    /// Requests that open what is open, to be repeated to a new remote process.
    pub(super) roots: BTreeMap<RootId, Request>,
    /// Why nothing goes on.
    pub(super) fatal: Option<Error>,
    /// Why the last connection ended.
    pub(super) last_lost: Option<Error>,
    pub(super) closed: bool,
    /// Whether more connections are wanted: content waited for one.
    pub(super) wants_connections: bool,
    /// The quickest answer to a request so far.
    pub(super) round_trip: Option<Duration>,
    /// Whether the supervisor is to look at once instead of with its next tick.
    pub(super) urgent: bool,
    /// Attempts to open a further connection that are under way.
    pub(super) dialing: u32,
    /// Threads that read from a connection.
    pub(super) readers: u32,
    /// When it was last said that the connections have all that is to be done.
    pub(super) ending: Option<Instant>,
}

/// Whether content goes around ssh.
#[derive(Clone)]
pub(super) enum Direct {
    /// It is not wanted, or there is no way.
    Off,
    /// It is being tried.
    Trying,
    /// It does; this opens connections for it.
    On(Arc<dyn Dial>),
}

/// Everything that a peer's threads share.
pub(super) struct Session {
    pub(super) dialer: Box<dyn Dial>,
    /// Whether content may go through ssh at all.
    pub(super) content_through_ssh: bool,
    pub(super) pool: BufferPool,
    pub(super) note: Note,
    pub(super) timeout: Duration,
    pub(super) pace: Pace,
    state: Mutex<State>,
    /// A connection may be free, or there will never be one.
    free: Condvar,
    /// The supervisor has something to do.
    pub(super) supervisor: Condvar,
}

impl Session {
    pub(super) fn new(
        dialer: Box<dyn Dial>,
        content_through_ssh: bool,
        pool: BufferPool,
        note: Note,
        timeout: Duration,
        pace: Pace,
    ) -> Self {
        Self {
            dialer,
            content_through_ssh,
            pool,
            note,
            timeout,
            pace,
            state: Mutex::new(State {
                connections: Vec::new(),
                next_request: 1,
                next_connection: 0,
                session: None,
                restarts: 0,
                direct: Direct::Off,
                answer: None,
                active: u32::MAX,
                moved: 0,
                waited: false,
                roots: BTreeMap::new(),
                fatal: None,
                last_lost: None,
                closed: false,
                wants_connections: false,
                round_trip: None,
                urgent: false,
                dialing: 0,
                readers: 0,
                ending: None,
            }),
            free: Condvar::new(),
            supervisor: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// An error of the whole session.
    pub(super) fn unreachable(&self, cause: &str) -> Error {
        Error::new(ErrorKind::Unreachable, Side::Wire, "reach", cause)
            .on(self.dialer.name())
            .with_hint("run the same command again: it goes on where it was")
    }

    /// Sends a request and waits for its response, on another connection if the first one dies. `buffer` gives memory for
    /// content, before each attempt.
    pub(super) fn call(
        &self,
        request: &Request,
        pick: Pick,
        buffer: &dyn Fn() -> Option<Buffer>,
    ) -> Result<(Response, Option<Buffer>)> {
        let asked = match request {
            Request::Read { batch, .. } | Request::Pull { batch, .. } => Some(&**batch),
            _ => None,
        };
        let mut frame = encode(Kind::Request, 0, request, 0)?;
        let mut attempt = 1;
        loop {
            let mailbox = Arc::new(Mailbox::default());
            let begun = Instant::now();
            let to = mailbox.clone();
            self.submit(&mut frame, &[], pick, buffer(), Box::new(move |reply| to.put(reply)));
            let lost = match mailbox.wait().and_then(|reply| self.open_reply(reply, asked)) {
                Ok(answer) => {
                    self.measured(begun.elapsed());
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if lost.retry() != Retry::OtherStream || attempt == ATTEMPTS {
                return Err(lost.with_retry(Retry::Never));
            }
            // The other connections may be about to be found dead too.
            std::thread::sleep(Duration::from_millis(100) * attempt);
            attempt += 1;
        }
    }

    /// Decodes a reply and checks it; what breaks a rule ends the connection that it came on.
    pub(super) fn open_reply(
        &self,
        reply: Reply,
        asked: Option<&haul_core::Batch>,
    ) -> Result<(Response, Option<Buffer>)> {
        let decoded = decode_body::<Response>(&reply.body).and_then(|response| {
            check::response(&response, asked, reply.payload_len)?;
            Ok(response)
        });
        match decoded {
            Ok(response) => Ok((response, reply.content)),
            Err(error) => {
                let error = Error::from(error).on(self.dialer.name());
                self.lose(reply.connection, error.clone());
                Err(error.with_retry(Retry::OtherStream))
            }
        }
    }

    /// A question was answered after this time.
    pub(super) fn measured(&self, time: Duration) {
        let mut state = self.lock();
        if state.round_trip.is_none_or(|known| time < known) {
            state.round_trip = Some(time);
        }
    }

    /// Sends a request; `on_reply` is called in any case. Returns when the connection has taken it.
    pub(super) fn submit(
        &self,
        frame: &mut [u8],
        payload: &[u8],
        pick: Pick,
        buffer: Option<Buffer>,
        on_reply: OnReply,
    ) {
        let owes = match pick {
            Pick::Read(bytes) | Pick::Write(bytes) => bytes,
            Pick::Small | Pick::Connection(_) => 0,
        };
        let picked: Result<()> = {
            let mut state = self.lock();
            loop {
                if let Some(fatal) = &state.fatal {
                    break Err(fatal.clone());
                }
                if state.closed {
                    break Err(self.unreachable("the connection was closed here"));
                }
                let wanted = state.wants_connections;
                let at = state.pick(pick, self.content_through_ssh);
                if state.wants_connections && !wanted {
                    self.wake_supervisor(&mut state);
                }
                if let Some(at) = at {
                    let id = state.next_request;
                    state.next_request += 1;
                    if let Err(error) = set_id(frame, id) {
                        break Err(error.into());
                    }
                    let up = &mut state.connections[at];
                    up.writing |= matches!(pick, Pick::Write(_));
                    up.owes += owes;
                    up.due = up.due.max(up.connection.liveness.moved()) + owes;
                    up.pending
                        .insert(id, Pending { on_reply, buffer, owes, read: matches!(pick, Pick::Read(_)) });
                    let connection = up.connection.clone();
                    drop(state);
                    self.write(&connection, frame, payload, matches!(pick, Pick::Write(_)));
                    return;
                }
                if matches!(pick, Pick::Connection(_)) {
                    break Err(lost("its connection has ended"));
                }
                state = self.free.wait(state);
            }
        };
        if let Err(error) = picked {
            on_reply(Err(error));
        }
    }

    fn write(&self, connection: &Connection, frame: &[u8], payload: &[u8], checked_out: bool) {
        if let Err(error) = connection.send(frame, payload) {
            self.lose(connection.number, lost(&error.to_string()));
        } else if checked_out {
            let mut state = self.lock();
            state.moved += payload.len() as u64;
            if let Some(up) =
                state.connections.iter_mut().find(|up| up.connection.number == connection.number)
            {
                up.writing = false;
            }
            self.free.notify_one();
        }
    }

    /// Takes the buffer that a response on `connection` may be put into. `None`: nothing was asked under this id.
    pub(super) fn buffer_for(&self, connection: u64, id: u64) -> Option<Option<Buffer>> {
        let mut state = self.lock();
        let up = state.connections.iter_mut().find(|up| up.connection.number == connection)?;
        Some(up.pending.get_mut(&id)?.buffer.take())
    }

    /// A response has arrived. `false`: nothing was asked under this id.
    pub(super) fn answered(&self, id: u64, reply: Reply) -> bool {
        let pending = {
            let mut state = self.lock();
            let Some(up) = state.connections.iter_mut().find(|up| up.connection.number == reply.connection)
            else {
                return false;
            };
            let Some(pending) = up.pending.remove(&id) else { return false };
            up.owes -= pending.owes;
            // What was asked for came in fewer bytes if it was packed.
            let came = if pending.read { reply.payload_len as u64 } else { pending.owes };
            let fewer = pending.owes.saturating_sub(came);
            up.due = if up.owes == 0 { 0 } else { up.due.saturating_sub(fewer) };
            state.moved += reply.payload_len as u64;
            pending
        };
        (pending.on_reply)(Ok(reply));
        true
    }

    /// Adds a connection that has been greeted; `None` if the session was closed meanwhile.
    pub(super) fn add(&self, make: impl FnOnce(u64) -> Connection) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let number = state.next_connection;
        state.next_connection += 1;
        let connection = Arc::new(make(number));
        state.connections.push(Up {
            connection: connection.clone(),
            writing: false,
            owes: 0,
            due: 0,
            pending: HashMap::new(),
        });
        state.readers += 1;
        self.free.notify_all();
        Some(connection)
    }

    /// Ends a connection; what was asked on it is told that it has to be asked again elsewhere.
    pub(super) fn lose(&self, number: u64, error: Error) {
        let up = {
            let mut state = self.lock();
            let Some(at) = state.connections.iter().position(|up| up.connection.number == number) else {
                return;
            };
            let up = state.connections.swap_remove(at);
            let words = up.connection.helper.as_ref().map(|helper| helper.last_words()).unwrap_or_default();
            let cause = if words.is_empty() { error.cause().to_owned() } else { words };
            state.last_lost = Some(self.unreachable(&cause));
            self.free.notify_all();
            self.wake_supervisor(&mut state);
            up
        };
        up.connection.kill();
        let error = error.on(self.dialer.name()).with_retry(Retry::OtherStream);
        for pending in up.pending.into_values() {
            (pending.on_reply)(Err(error.clone()));
        }
    }

    fn wake_supervisor(&self, state: &mut State) {
        state.urgent = true;
        self.supervisor.notify_all();
    }

    /// The connections have all that is to be done.
    pub(super) fn is_ending(&self) {
        let mut state = self.lock();
        if !state.is_ending() {
            self.wake_supervisor(&mut state);
        }
        state.ending = Some(Instant::now());
    }

    /// An attempt to open a connection has ended.
    pub(super) fn dialed(&self) {
        let mut state = self.lock();
        state.dialing -= 1;
        self.wake_supervisor(&mut state);
        self.free.notify_all();
    }

    /// A reader thread has ended.
    pub(super) fn reader_ended(&self) {
        self.lock().readers -= 1;
        self.free.notify_all();
    }

    /// Nothing goes on any more.
    pub(super) fn fail(&self, error: Error) {
        self.lock().fatal.get_or_insert(error);
        self.free.notify_all();
    }

    /// Ends what we say on all connections and gives the remote end `patience` to end; then kills what is left.
    pub(super) fn close(&self, patience: Duration) {
        let (connections, idle) = {
            let mut state = self.lock();
            state.closed = true;
            self.free.notify_all();
            self.supervisor.notify_all();
            (state.connections(), state.connections_owing().is_empty())
        };
        self.dialer.stop();
        if let Direct::On(dialer) = std::mem::replace(&mut self.lock().direct, Direct::Off) {
            dialer.stop();
        }
        for connection in &connections {
            connection.close();
        }
        // A remote end that owes nothing ends by itself; its end is a matter of round trips that nobody has to wait for.
        let patience = if idle { GOODBYE } else { patience };
        if !self.wait_readers(patience) {
            for connection in &connections {
                self.lose(connection.number, lost("it did not end"));
            }
            self.wait_readers(Duration::from_secs(3));
        }
        self.dialer.clean();
    }

    fn wait_readers(&self, patience: Duration) -> bool {
        let state = self.lock();
        let busy = |state: &mut State| state.readers + state.dialing > 0;
        let waited = self.free.wait_timeout_while(state, patience, busy);
        !waited.1.timed_out()
    }
}

/// Where one reply is waited for. A channel would do too, but spins for a while before it sleeps, and most replies take
/// a round trip.
#[derive(Default)]
struct Mailbox {
    reply: Mutex<Option<Result<Reply>>>,
    arrived: Condvar,
}

impl Mailbox {
    fn put(&self, reply: Result<Reply>) {
        *self.reply.lock() = Some(reply);
        self.arrived.notify_one();
    }

    fn wait(&self) -> Result<Reply> {
        let mut reply = self.reply.lock();
        loop {
            if let Some(reply) = reply.take() {
                return reply;
            }
            reply = self.arrived.wait(reply);
        }
    }
}

/// The error of a connection that is gone.
pub(super) fn lost(cause: &str) -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "keep the connection to", cause)
        .with_retry(Retry::OtherStream)
}

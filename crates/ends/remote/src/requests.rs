//! The requests of a session: how one is sent, answered, and sent again when its connection dies.

use haul_core::sync::{Condvar, Mutex, thread};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Buffer, Error, Result, Retry};
use haul_wire::{FrameKind, Request, Response, check, decode_body, encode, set_id};

use super::connection::Connection;
use super::session::Session;
use super::state::{OnReply, PendingRequest, Pick, RawReply};

/// On how many connections one request may be lost before it fails: the request itself may kill them. If all
/// connections are cut at once, a request may go over each of them before haul finds them dead, and be cut off again
/// meanwhile.
pub(super) const ATTEMPTS: u32 = 10;

impl Session {
    /// Sends a request and waits for its response, on another connection if the first one dies. `buffer` provides
    /// memory for content before each attempt.
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
        // A remote process that was started again would run the program a second time.
        let runs = matches!(request, Request::RunProducer { .. } | Request::RunConsumer { .. });
        let attempts = if runs { 1 } else { ATTEMPTS };
        let mut frame = encode(FrameKind::Request, 0, request, 0)?;
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
            if lost.retry() != Retry::OtherStream || attempt == attempts {
                return Err(lost.with_retry(Retry::Never));
            }
            // The other connections may be about to be found dead too.
            thread::sleep(Duration::from_millis(100) * attempt);
            attempt += 1;
        }
    }

    /// Decodes and checks a reply. A reply that breaks a rule ends its connection.
    pub(super) fn open_reply(
        &self,
        reply: RawReply,
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

    /// A request was answered after this time.
    pub(super) fn measured(&self, time: Duration) {
        let mut state = self.lock();
        if state.round_trip.is_none() {
            // The supervisor may know the link from an earlier run.
            self.wake_supervisor(&mut state);
        }
        if state.round_trip.is_none_or(|known| time < known) {
            state.round_trip = Some(time);
        }
    }

    /// Sends a request. `on_reply` is called in any case. Returns once the connection has accepted the request.
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
                let at = state.pick(pick, self.ways.through_ssh);
                if state.wants_connections && !wanted {
                    self.wake_supervisor(&mut state);
                }
                if let Some(at) = at {
                    state.last_request += 1;
                    let id = state.last_request;
                    if let Err(error) = set_id(frame, id) {
                        break Err(error.into());
                    }
                    let up = &mut state.connections[at];
                    up.writing |= matches!(pick, Pick::Write(_));
                    up.owes += owes;
                    up.due = up.due.max(up.connection.liveness.moved()) + owes;
                    up.pending.insert(
                        id,
                        PendingRequest { on_reply, buffer, owes, read: matches!(pick, Pick::Read(_)) },
                    );
                    let connection = up.connection.clone();
                    let notes = if owes > 0 { state.content_goes() } else { Vec::new() };
                    drop(state);
                    notes.iter().for_each(|note| (self.note)(note));
                    self.write(&connection, frame, payload, matches!(pick, Pick::Write(_)));
                    return;
                }
                if matches!(pick, Pick::Connection(_)) {
                    break Err(Connection::lost("its connection has ended"));
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
            self.lose(connection.number, Connection::lost(&error.to_string()));
        } else if checked_out {
            let mut state = self.lock();
            state.moved += payload.len() as u64;
            state.sent += payload.len() as u64;
            if let Some(up) = state.up(connection.number) {
                up.writing = false;
            }
            self.free.notify_one();
        }
    }

    /// Takes the buffer for the content of a response on `connection`. `None`: there is no such request.
    pub(super) fn buffer_for(&self, connection: u64, id: u64) -> Option<Option<Buffer>> {
        let mut state = self.lock();
        let up = state.up(connection)?;
        Some(up.pending.get_mut(&id)?.buffer.take())
    }

    /// A response has arrived. `false`: there is no such request.
    pub(super) fn answered(&self, id: u64, reply: RawReply) -> bool {
        let pending = {
            let mut state = self.lock();
            let Some(up) = state.up(reply.connection) else { return false };
            let Some(pending) = up.pending.remove(&id) else { return false };
            up.owes -= pending.owes;
            // Compressed content has fewer bytes than were asked for.
            let came = if pending.read { reply.payload_len as u64 } else { pending.owes };
            let fewer = pending.owes.saturating_sub(came);
            up.due = if up.owes == 0 { 0 } else { up.due.saturating_sub(fewer) };
            state.moved += reply.payload_len as u64;
            pending
        };
        (pending.on_reply)(Ok(reply));
        true
    }
}

/// Holds one reply for the thread that waits for it. A channel would spin before it sleeps, and most replies take a
/// round trip.
#[derive(Default)]
struct Mailbox {
    reply: Mutex<Option<Result<RawReply>>>,
    arrived: Condvar,
}

impl Mailbox {
    fn put(&self, reply: Result<RawReply>) {
        *self.reply.lock() = Some(reply);
        self.arrived.notify_one();
    }

    fn wait(&self) -> Result<RawReply> {
        let mut reply = self.reply.lock();
        loop {
            if let Some(reply) = reply.take() {
                return reply;
            }
            reply = self.arrived.wait(reply);
        }
    }
}

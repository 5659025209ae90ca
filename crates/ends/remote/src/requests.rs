//! The requests of a session: how one is sent, answered, and sent again when its connection dies.

use haul_core::sync::thread;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Buffer, Error, Result, Retry};
use haul_wire::{FrameKind, Request, Response, check, decode_body, encode, set_id};

use super::connection::{Connection, SentContent};
use super::reply_content::{Mailbox, ReplyContent};
use super::session::Session;
use super::state::{OnReply, PendingRequest, Pick, RawReply};

/// On how many connections one request may be lost before it fails: the request itself may kill them. If all
/// connections are cut at once, a request may go over each of them before haul finds them dead, and be cut off again
/// meanwhile.
pub(super) const ATTEMPTS: u32 = 10;

impl Session {
    /// Sends a request whose response has no content and waits for it, on another connection if the first one dies.
    pub(super) fn call(&self, request: &Request, pick: Pick) -> Result<Response> {
        self.call_and_take(request, pick, &|| None, &mut |response, _| Ok(response))
    }

    /// Sends a request, waits for its response, and passes that to `take`, which reads the content. If `take` fails because
    /// the connection died, all is done again on another one. `buffer` provides memory for content before each attempt.
    pub(super) fn call_and_take<T>(
        &self,
        request: &Request,
        pick: Pick,
        buffer: &dyn Fn() -> Option<Buffer>,
        take: &mut dyn FnMut(Response, Option<ReplyContent>) -> Result<T>,
    ) -> Result<T> {
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
            let opened = mailbox.wait().and_then(|reply| self.open_reply(reply, asked));
            let taken = opened.and_then(|(response, content)| {
                self.measured(begun.elapsed());
                take(response, content)
            });
            let lost = match taken {
                Ok(taken) => return Ok(taken),
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

    /// Sends a request whose answer does not matter.
    pub(super) fn tell(&self, request: &Request) {
        if let Ok(mut frame) = encode(FrameKind::Request, 0, request, 0) {
            self.submit(&mut frame, &[], Pick::Small, None, Box::new(drop));
        }
    }

    /// Decodes and checks a reply. A reply that breaks a rule ends its connection.
    pub(super) fn open_reply(
        &self,
        reply: RawReply,
        asked: Option<&haul_core::Batch>,
    ) -> Result<(Response, Option<ReplyContent>)> {
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
        self.submit_with(frame, SentContent::Whole(payload), pick, buffer, on_reply);
    }

    /// As [`Session::submit`], with content that may be read while it is sent.
    pub(super) fn submit_with(
        &self,
        frame: &mut [u8],
        content: SentContent<'_>,
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
                    up.pending.insert(id, PendingRequest::new(pick, owes, buffer, on_reply));
                    let connection = up.connection.clone();
                    let notes = if owes > 0 { state.content_goes() } else { Vec::new() };
                    drop(state);
                    notes.iter().for_each(|note| (self.note)(note));
                    self.write(&connection, frame, content, matches!(pick, Pick::Write(_)));
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

    fn write(&self, connection: &Connection, frame: &[u8], content: SentContent<'_>, checked_out: bool) {
        let len = content.len() as u64;
        if let Err(error) = connection.send(frame, content) {
            self.lose(connection.number, Connection::lost(&error.to_string()));
        } else if checked_out {
            let mut state = self.lock();
            state.moved += len;
            state.sent += len;
            if let Some(up) = state.up(connection.number) {
                up.writing = false;
            }
            self.free.notify_one();
        }
    }

    /// A response on `connection` has begun: returns its requester, and the memory for its content. `None`: there is no
    /// such request.
    pub(super) fn replied(&self, connection: u64, request: u64) -> Option<(OnReply, Option<Buffer>)> {
        let mut state = self.lock();
        let pending = state.up(connection)?.pending.get_mut(&request)?;
        Some((pending.on_reply.take()?, pending.buffer.take()))
    }

    /// A response has arrived, with so many bytes of content.
    pub(super) fn answered(&self, connection: u64, request: u64, content: usize) {
        let mut state = self.lock();
        let Some(up) = state.up(connection) else { return };
        let Some(pending) = up.pending.remove(&request) else { return };
        up.owes -= pending.owes;
        // Compressed content has fewer bytes than were asked for.
        let came = if pending.read { content as u64 } else { pending.owes };
        let fewer = pending.owes.saturating_sub(came);
        up.due = if up.owes == 0 { 0 } else { up.due.saturating_sub(fewer) };
        state.moved += content as u64;
    }
}

//! The thread that reads the responses of a connection.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{Error, Retry};
use haul_transport::LinkError;
use haul_wire::{FrameKind, Welcome, decode_body};

use super::connection::{Connection, Incoming};
use super::reply_content::ReplyContent;
use super::session::Session;
use super::state::RawReply;

/// How long a process may take to exit after its connection has ended.
pub(super) const COLLECT: Duration = Duration::from_millis(500);

/// Reads until the connection ends, and removes it from the session.
pub(super) fn read_connection(session: &Arc<Session>, connection: &Connection, reader: Box<dyn Incoming>) {
    let error = read_frames(session, connection, reader);
    connection.liveness.end();
    connection.close();
    // Before the connection is lost, so that the last words of ssh become part of the error.
    if let Some(helper) = &connection.helper {
        helper.collect(COLLECT);
    }
    session.lose(connection.number, error);
    session.reader_ended();
}

/// Returns why the connection has ended.
fn read_frames(session: &Arc<Session>, connection: &Connection, mut reader: Box<dyn Incoming>) -> Error {
    // A connection through ssh was greeted before it was added.
    let mut greeted = !connection.direct;
    let number = connection.number;
    let unasked = || haul_wire::FrameError::Rule("an answer without a request").into();
    loop {
        let (header, body) = match reader.head() {
            Ok(frame) => frame,
            Err(LinkError::Closed) => return Connection::lost("the remote end closed it"),
            Err(error) => return error.into_error(),
        };
        match header.kind {
            FrameKind::Ping => continue,
            FrameKind::Response if greeted => {}
            FrameKind::Welcome if !greeted => match decode_body::<Welcome>(&body) {
                Ok(welcome) if welcome.session.as_ref().ok() == session.id().as_ref() => {
                    greeted = true;
                    continue;
                }
                Ok(_) => return haul_wire::FrameError::Rule("a greeting from another session").into(),
                Err(error) => return error.into(),
            },
            FrameKind::Response | FrameKind::Hello | FrameKind::Welcome | FrameKind::Request => {
                return haul_wire::FrameError::Kind.into();
            }
        }
        let payload_len = header.payload_len as usize;
        let Some((on_reply, room)) = session.replied(number, header.id) else { return unasked() };
        let reply = RawReply { body, content: None, payload_len, connection: number };
        if payload_len == 0 {
            session.answered(number, header.id, 0);
            on_reply(Ok(reply));
            continue;
        }
        let Some(room) = room else {
            let error: Error = unasked();
            on_reply(Err(error.clone().with_retry(Retry::OtherStream)));
            return error;
        };
        let owner = Arc::clone(session);
        let arrived = move || owner.answered(number, header.id, payload_len);
        let (content, back) =
            ReplyContent::new(session.dialer.name(), Box::new(arrived), payload_len, room, reader);
        on_reply(Ok(RawReply { content: Some(content), ..reply }));
        reader = match back.wait() {
            Ok(reader) => reader,
            Err(error) => return error,
        };
    }
}

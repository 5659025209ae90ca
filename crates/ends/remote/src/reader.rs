//! The thread that reads the responses of a connection.

use std::time::Duration;

use haul_core::Buffer;
use haul_transport::{FrameReader, LinkError};
use haul_wire::{FrameHeader, FrameKind, Welcome, decode_body};

use super::connection::Connection;
use super::session::Session;
use super::state::RawReply;

/// How long a process may take to exit after its connection has ended.
pub(super) const COLLECT: Duration = Duration::from_millis(500);

/// The reading direction of a connection.
pub(super) trait Incoming {
    /// Reads the next header and body. If the header announces a payload, the caller reads it next.
    ///
    /// # Errors
    /// If the stream ends, is abandoned, or holds no valid frame.
    fn head(&mut self) -> Result<(FrameHeader, Vec<u8>), LinkError>;

    /// Reads the payload that `header` announces.
    ///
    /// # Errors
    /// If it does not come.
    fn payload(&mut self, header: &FrameHeader, into: &mut Buffer) -> Result<(), LinkError>;
}

impl Incoming for FrameReader {
    fn head(&mut self) -> Result<(FrameHeader, Vec<u8>), LinkError> {
        Self::head(self)
    }

    fn payload(&mut self, header: &FrameHeader, into: &mut Buffer) -> Result<(), LinkError> {
        Self::payload(self, header, into)
    }
}

/// Reads until the connection ends, and removes it from the session.
pub(super) fn read_connection(session: &Session, connection: &Connection, mut reader: impl Incoming) {
    let error = match read_frames(session, connection, &mut reader) {
        LinkError::Closed => Connection::lost("the remote end closed it"),
        other => other.into_error(),
    };
    drop(reader);
    connection.liveness.end();
    connection.close();
    // Before the connection is lost, so that the last words of ssh become part of the error.
    if let Some(helper) = &connection.helper {
        helper.collect(COLLECT);
    }
    session.lose(connection.number, error);
    session.reader_ended();
}

fn read_frames(session: &Session, connection: &Connection, reader: &mut impl Incoming) -> LinkError {
    // A connection through ssh was greeted before it was added.
    let mut greeted = !connection.direct;
    loop {
        let (header, body) = match reader.head() {
            Ok(frame) => frame,
            Err(error) => return error,
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
        let unasked = haul_wire::FrameError::Rule("an answer without a request");
        let mut content = None;
        if header.payload_len > 0 {
            let Some(Some(mut buffer)) = session.buffer_for(connection.number, header.id) else {
                return unasked.into();
            };
            if let Err(error) = reader.payload(&header, &mut buffer) {
                return error;
            }
            content = Some(buffer);
        }
        let reply = RawReply {
            body,
            content,
            payload_len: header.payload_len as usize,
            connection: connection.number,
        };
        if !session.answered(header.id, reply) {
            return unasked.into();
        }
    }
}

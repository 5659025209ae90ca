//! The two threads of one connection: one reads requests, one writes responses.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use haul_core::sink::ArrivingContent;
use haul_core::{Buffer, BufferPool, ChainingValue, Error};
use haul_transport::{FrameReader, LinkError, Receive, SharedWriter, Transmit};
use haul_wire::passing::withdrawn;
use haul_wire::{
    ChunkReader, FrameError, FrameHeader, FrameKind, Request, Welcome, check, decode_body, encode,
};

use crate::reply::{OutMessage, Outbox, ReplyDuty};

/// A Ping is sent after this long without a frame.
const QUIET: Duration = Duration::from_secs(1);
/// Bytes of content that a sink takes at a time: they stay in the cache of the CPU.
const PIECE: usize = 128 * 1024;
/// Small frames that wait are written together up to this many bytes.
const TOGETHER: usize = 64 * 1024;

/// Answers the requests that arrive on a connection.
pub(crate) trait Handler: Send + Sync {
    /// Whether this connection may make the request. Called before memory is taken for its content.
    ///
    /// # Errors
    /// [`FrameError::Rule`] if it may not; this ends the connection.
    fn check(&self, _request: &Request) -> Result<(), FrameError> {
        Ok(())
    }

    /// Carries out a request, or hands it to another thread. The connection is read on when this returns.
    ///
    /// # Errors
    /// If the content does not arrive.
    fn handle(
        &self,
        reply: ReplyDuty,
        request: Request,
        payload: RequestContent<'_>,
    ) -> Result<(), LinkError>;

    /// The connection has ended. Called at least once.
    fn ended(&self);
}

/// The content of a request, which follows it on the connection.
pub(crate) struct RequestContent<'a> {
    reader: &'a mut FrameReader,
    outbox: &'a Outbox,
    pool: &'a BufferPool,
    header: &'a FrameHeader,
    /// Memory for a piece, for all requests of the connection.
    piece: &'a mut Vec<u8>,
    taken: usize,
    /// Reads the slice in chunks, if its proof follows.
    chunks: Option<ChunkReader>,
    /// Whether the sender could not read the slice to its end.
    pub(crate) is_withdrawn: bool,
}

impl RequestContent<'_> {
    /// Collects the content, of which nothing was taken piece by piece, and the proof that follows it, if one does.
    ///
    /// # Errors
    /// As those of [`ArrivingContent`].
    pub(crate) fn collect(&mut self) -> haul_core::Result<(Buffer, Option<ChainingValue>)> {
        if self.header.payload_len == 0 {
            return Ok((Buffer::default(), None));
        }
        // Waits while the sinks hold all memory: the connection is not read then, and the local end has to wait.
        let mut content = self.pool.take();
        // A payload fits into a buffer; a buffer without memory is a programming error.
        let room = content.grow(self.header.payload_len as usize);
        let room = room.ok_or_else(|| self.cut_off(FrameError::Length.into()))?;
        read(self.reader, &mut self.chunks, room).map_err(|error| self.cut_off(error))?;
        Ok((content, self.proof()?))
    }

    /// The content does not arrive. The request is not answered: the local end repeats it over another connection.
    fn cut_off(&self, error: LinkError) -> Error {
        self.outbox.end();
        error.into_error()
    }
}

impl ArrivingContent for RequestContent<'_> {
    fn next(&mut self) -> haul_core::Result<&[u8]> {
        let len = PIECE.min(self.header.payload_len as usize - self.taken);
        self.piece.resize(PIECE, 0);
        let piece = &mut self.piece[..len];
        if let Err(error) = read(self.reader, &mut self.chunks, piece) {
            return Err(self.cut_off(error));
        }
        self.taken += len;
        Ok(&self.piece[..len])
    }

    fn proof(&mut self) -> haul_core::Result<Option<ChainingValue>> {
        let Some(chunks) = self.chunks.take() else { return Ok(None) };
        let proof = chunks.trailer(&mut |bytes| self.reader.content(bytes));
        let proof = proof.map_err(|error| self.cut_off(error))?;
        self.is_withdrawn = proof.is_none();
        proof.map(Some).ok_or_else(withdrawn)
    }
}

/// Fills `room` with the next content.
fn read(
    reader: &mut FrameReader,
    chunks: &mut Option<ChunkReader>,
    room: &mut [u8],
) -> Result<(), LinkError> {
    match chunks {
        Some(chunks) => chunks.content(room, &mut |bytes| reader.content(bytes)),
        None => reader.content(room),
    }
}

/// The streams of a connection before its threads have them.
pub(crate) struct Threads {
    reader: FrameReader,
    outbox: Arc<Outbox>,
    responses: Receiver<OutMessage>,
    welcome: Vec<u8>,
}

/// Prepares a connection whose first frame is `welcome`.
pub(crate) fn set_up(from: Receive, to: Transmit, welcome: &Welcome) -> io::Result<(Arc<Outbox>, Threads)> {
    let (outbox, responses) = Outbox::new(to);
    let welcome = encode(FrameKind::Welcome, 0, welcome, 0).map_err(io::Error::other)?;
    let reader = FrameReader::new(from, outbox.liveness.clone());
    Ok((outbox.clone(), Threads { reader, outbox, responses, welcome }))
}

impl Threads {
    /// Starts both threads. `keep` is dropped when the writing one ends.
    pub(crate) fn start(
        self,
        number: u64,
        handler: &Arc<dyn Handler>,
        pool: &BufferPool,
        keep: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<()> {
        let Self { mut reader, outbox, responses, welcome } = self;
        // Before a request can be read, as its answer must not overtake the greeting.
        outbox.writer.write(&welcome, &[])?;
        let (ending, writing) = (Ending(handler.clone()), outbox.clone());
        thread::Builder::new().name(format!("haul-out-{number}")).spawn(move || {
            // The process that handed the connection over waits for `keep` to go.
            let _keep = keep;
            let _ending = ending;
            write_frames(&writing.writer, &responses);
            writing.writer.close();
        })?;
        let (ending, pool) = (Ending(handler.clone()), pool.clone());
        thread::Builder::new().name(format!("haul-in-{number}")).spawn(move || {
            // Whatever the error was, the local end sees the end of the connection and asks elsewhere.
            let _: Result<(), LinkError> = read_frames(&*ending.0, &outbox, &pool, &mut reader);
        })?;
        Ok(())
    }
}

/// Reports the end of a thread of the connection, also if it panicked.
struct Ending(Arc<dyn Handler>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended();
    }
}

fn read_frames(
    handler: &dyn Handler,
    outbox: &Arc<Outbox>,
    pool: &BufferPool,
    reader: &mut FrameReader,
) -> Result<(), LinkError> {
    let mut piece = Vec::new();
    loop {
        let (header, body) = reader.head()?;
        match header.kind {
            FrameKind::Ping => continue,
            FrameKind::Request => {}
            FrameKind::Hello | FrameKind::Welcome | FrameKind::Response => {
                return Err(FrameError::Kind.into());
            }
        }
        let request: Request = decode_body(&body)?;
        drop(body);
        let payload_len = header.payload_len as usize;
        check::request(&request, payload_len)?;
        handler.check(&request)?;
        let is_chunked = matches!(request, Request::Write { proof_follows: true, .. });
        let payload = RequestContent {
            reader,
            outbox,
            pool,
            header: &header,
            piece: &mut piece,
            taken: 0,
            chunks: is_chunked.then(ChunkReader::default),
            is_withdrawn: false,
        };
        handler.handle(ReplyDuty::new(outbox.clone(), header.id), request, payload)?;
    }
}

fn write_frames(writer: &SharedWriter, responses: &Receiver<OutMessage>) {
    let mut heads = Vec::new();
    loop {
        let mut next = match responses.recv_timeout(QUIET) {
            Ok(out) => Some(out),
            Err(RecvTimeoutError::Timeout) => {
                if writer.sign_of_life().is_err() {
                    return;
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        heads.clear();
        let mut content = None;
        while let Some(out) = next {
            let OutMessage::Frame(frame, payload) = out else { return };
            heads.extend_from_slice(&frame);
            content = payload;
            if content.is_some() || heads.len() >= TOGETHER {
                break;
            }
            next = responses.try_recv().ok();
        }
        let bytes = content.as_ref().map_or(&[][..], |outgoing| outgoing.content.bytes());
        if writer.write(&heads, bytes).is_err() {
            return;
        }
        drop(content.and_then(|outgoing| outgoing.sending));
    }
}

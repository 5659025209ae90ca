//! The content of a reply. The thread that asked for it reads it from the connection, while the reader thread waits: so
//! it can pass each piece on while that is in the cache of the CPU.

use std::mem;
use std::sync::Arc;

use haul_core::sink::ArrivingContent;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{Buffer, ChainingValue, Error, Result, Retry};
use haul_transport::LinkError;
use haul_wire::passing::withdrawn;
use haul_wire::{ChunkReader, FrameError};

use super::connection::{Connection, Incoming};

/// Bytes of content that are passed on at a time.
const PIECE: usize = 128 * 1024;

/// Holds one message for the thread that waits for it. A channel would spin before it sleeps, and most messages take a
/// round trip.
pub(super) struct Mailbox<T> {
    message: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self { message: Mutex::new(None), arrived: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    pub(super) fn put(&self, message: T) {
        *self.message.lock() = Some(message);
        self.arrived.notify_one();
    }

    pub(super) fn wait(&self) -> T {
        let mut message = self.message.lock();
        loop {
            if let Some(message) = message.take() {
                return message;
            }
            message = self.arrived.wait(message);
        }
    }
}

/// The reading direction of a connection, on its way back to its thread; or the error that ended it.
pub(super) type GivenBack = Mailbox<Result<Box<dyn Incoming>>>;

/// Content that is still on its connection. If it is dropped before all of it was read, the connection is lost.
pub(super) struct ReplyContent {
    /// The name of the remote end.
    name: String,
    /// Called once all of it has arrived.
    arrived: Option<Box<dyn FnOnce() + Send>>,
    len: usize,
    taken: usize,
    /// Memory for all of it. It was taken before the request was sent.
    room: Buffer,
    /// `None` once it was given back.
    reader: Option<Box<dyn Incoming>>,
    back: Arc<GivenBack>,
    /// Reads the slice in chunks, if its proof follows.
    chunks: Option<ChunkReader>,
    /// Whether the other end could not read the slice to its end.
    is_withdrawn: bool,
}

impl ReplyContent {
    /// Content of `len` bytes that `reader` reads next. When all of it was read, `arrived` is called and `reader` is put
    /// into the mailbox.
    pub(super) fn new(
        name: String,
        arrived: Box<dyn FnOnce() + Send>,
        len: usize,
        room: Buffer,
        reader: Box<dyn Incoming>,
    ) -> (Self, Arc<GivenBack>) {
        let back = Arc::new(GivenBack::default());
        let (arrived, reader) = (Some(arrived), Some(reader));
        let own = Arc::clone(&back);
        let (chunks, is_withdrawn) = (None, false);
        (Self { name, arrived, len, taken: 0, room, reader, back: own, chunks, is_withdrawn }, back)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Its proof follows. To be called before anything of it is read.
    pub(super) fn expect_proof(&mut self) {
        self.chunks = Some(ChunkReader::default());
    }

    /// Whether the other end could not read the slice to its end.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Reads all of it, of which nothing was read before, and the proof that follows it, if one does.
    ///
    /// # Errors
    /// If it does not arrive: the request may be repeated on another connection. `SourceChanged` if it is withdrawn.
    pub(super) fn collect(&mut self) -> Result<(Buffer, Option<ChainingValue>)> {
        if self.taken > 0 {
            return Err(Connection::lost("its content was read before"));
        }
        self.read(self.len)?;
        let content = mem::take(&mut self.room);
        Ok((content, self.proof()?))
    }

    /// Reads the next `len` bytes into the beginning of the memory.
    fn read(&mut self, len: usize) -> Result<()> {
        self.room.truncate(0);
        let Some(reader) = &mut self.reader else {
            return Err(Connection::lost("its content was read before"));
        };
        // The content fits into a buffer of a pool; a buffer without memory is a programming error.
        let room = self.room.grow(len).ok_or(LinkError::Frame(FrameError::Length));
        let read = room.and_then(|room| match &mut self.chunks {
            Some(chunks) => chunks.content(room, &mut |bytes| reader.content(bytes)),
            None => reader.content(room),
        });
        if let Err(error) = read {
            return Err(self.cut_off(error));
        }
        self.taken += len;
        if self.taken == self.len && self.chunks.is_none() {
            self.give_back();
        }
        Ok(())
    }

    fn cut_off(&mut self, error: LinkError) -> Error {
        let error = error.into_error().on(&self.name).with_retry(Retry::OtherStream);
        self.reader = None;
        self.back.put(Err(error.clone()));
        error
    }

    fn give_back(&mut self) {
        if let Some(reader) = self.reader.take() {
            if let Some(arrived) = self.arrived.take() {
                arrived();
            }
            self.back.put(Ok(reader));
        }
    }
}

impl ArrivingContent for ReplyContent {
    fn next(&mut self) -> Result<&[u8]> {
        let len = PIECE.min(self.len - self.taken);
        if len == 0 {
            return Ok(&[]);
        }
        self.read(len)?;
        Ok(self.room.bytes())
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        let Some(chunks) = self.chunks.take() else { return Ok(None) };
        let Some(reader) = &mut self.reader else {
            return Err(Connection::lost("its content was read before"));
        };
        let proof = match chunks.trailer(&mut |bytes| reader.content(bytes)) {
            Ok(proof) => proof,
            Err(error) => return Err(self.cut_off(error)),
        };
        self.give_back();
        self.is_withdrawn = proof.is_none();
        proof.map(Some).ok_or_else(withdrawn)
    }
}

impl Drop for ReplyContent {
    fn drop(&mut self) {
        if self.reader.take().is_some() {
            let error: Error = Connection::lost("the content of a response was not read");
            self.back.put(Err(error));
        }
    }
}

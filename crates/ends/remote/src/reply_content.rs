//! The content of a reply. The thread that asked for it reads it from the connection, while the reader thread waits: so
//! it can pass each piece on while that is in the cache of the CPU.

use std::mem;
use std::sync::Arc;

use haul_core::sink::ArrivingContent;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{Buffer, Error, Result, Retry};
use haul_transport::LinkError;
use haul_wire::FrameError;

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
        (Self { name, arrived, len, taken: 0, room, reader, back: Arc::clone(&back) }, back)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Reads all of it, of which nothing was read before.
    ///
    /// # Errors
    /// If it does not arrive. The request may be repeated on another connection.
    pub(super) fn collect(mut self) -> Result<Buffer> {
        if self.taken > 0 {
            return Err(Connection::lost("its content was read before"));
        }
        self.read(self.len)?;
        Ok(mem::take(&mut self.room))
    }

    /// Reads the next `len` bytes into the beginning of the memory.
    fn read(&mut self, len: usize) -> Result<()> {
        self.room.truncate(0);
        let Some(reader) = &mut self.reader else {
            return Err(Connection::lost("its content was read before"));
        };
        // The content fits into a buffer of a pool; a buffer without memory is a programming error.
        let room = self.room.grow(len).ok_or(LinkError::Frame(FrameError::Length));
        if let Err(error) = room.and_then(|room| reader.content(room)) {
            let error = error.into_error().on(&self.name).with_retry(Retry::OtherStream);
            self.reader = None;
            self.back.put(Err(error.clone()));
            return Err(error);
        }
        self.taken += len;
        if self.taken == self.len {
            self.give_back();
        }
        Ok(())
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
}

impl Drop for ReplyContent {
    fn drop(&mut self) {
        if self.reader.take().is_some() {
            let error: Error = Connection::lost("the content of a response was not read");
            self.back.put(Err(error));
        }
    }
}

//! The writing direction of a connection, which several threads share.
//!
//! A frame is written under a lock. A slice that is read while it is sent has its turn until its frame ends, but holds the
//! lock only while a piece is written: its disk may stall, and the other end still gets signs of life.

use std::io;
use std::time::Duration;

use haul_core::sink::ArrivingContent;
use haul_core::sync::{Condvar, Mutex, MutexGuard};
use haul_core::{ChainingValue, Error, ErrorKind, Result, Side};
use haul_wire::encode_ping;
use haul_wire::passing::{SIGN_OF_LIFE, chunk_header, encode_trailer};

use crate::frames::FrameWriter;

/// A thread that waits for its turn gives a sign of life after this time.
const QUIET: Duration = Duration::from_secs(1);
/// They take the place of content that could not be read.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Where the bytes of a connection go.
pub trait FrameOutput: Send {
    /// Writes two runs of bytes.
    ///
    /// # Errors
    /// If the stream broke, or was given up.
    fn write(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()>;

    /// Whether a few bytes can be written without waiting.
    fn is_ready(&self) -> bool;

    /// Ends it, so that the other end sees the end of its input.
    fn close(self: Box<Self>);
}

impl FrameOutput for FrameWriter {
    fn write(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        Self::write(self, head, payload)
    }

    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn close(self: Box<Self>) {
        Self::close(*self);
    }
}

/// The writing direction of a connection.
pub struct SharedWriter {
    state: Mutex<WriterState>,
    turn: Condvar,
}

struct WriterState {
    /// `None` once the direction has ended.
    output: Option<Box<dyn FrameOutput>>,
    passing: Passing,
}

/// A slice that is read while it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// There is none.
    No,
    /// Its first piece is being read. Nothing of its frame was written.
    Begins,
    /// Its next piece is being read.
    Within,
}

impl SharedWriter {
    /// Writes to `output`.
    #[must_use]
    pub fn new(output: Box<dyn FrameOutput>) -> Self {
        let state = WriterState { output: Some(output), passing: Passing::No };
        Self { state: Mutex::new(state), turn: Condvar::new() }
    }

    /// Writes a frame. Waits for the frames before it.
    ///
    /// # Errors
    /// If the stream broke or has ended.
    pub fn write(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        self.own_turn().output()?.write(head, payload)
    }

    /// Writes a frame whose content of `len` bytes is read meanwhile, and its proof. If the content cannot be read to its end,
    /// `withdraw` is called before the other end can know that, and the frame has no proof.
    ///
    /// # Errors
    /// If the stream broke or has ended.
    pub fn pass(
        &self,
        head: &[u8],
        content: &mut dyn ArrivingContent,
        len: usize,
        withdraw: &mut dyn FnMut(Error),
    ) -> io::Result<()> {
        let mut turn = PassingTurn::begin(self, head);
        let mut left = len;
        let proof = loop {
            match content.next() {
                Ok([]) => break proof_of(content, left),
                Ok(piece) if piece.len() <= left => {
                    turn.chunk(piece)?;
                    left -= piece.len();
                }
                Ok(_) => break Err(other_length()),
                Err(error) => break Err(error),
            }
        };
        let proof = proof.map_err(withdraw).ok();
        // The content has the length that the head says.
        while left > 0 {
            let zeros = &ZEROS[..left.min(ZEROS.len())];
            turn.chunk(zeros)?;
            left -= zeros.len();
        }
        turn.end(proof)
    }

    /// Gives the other end a sign of life, unless that would wait.
    ///
    /// # Errors
    /// If the stream broke or has ended.
    pub fn sign_of_life(&self) -> io::Result<()> {
        self.state.try_lock().map_or(Ok(()), |mut state| state.sign_of_life())
    }

    /// Whether bytes are being written.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.state.try_lock().is_none()
    }

    /// Ends the direction, so that the other end sees the end of its input. Does nothing while bytes are written.
    pub fn close(&self) {
        let output = self.state.try_lock().and_then(|mut state| state.output.take());
        self.turn.notify_all();
        if let Some(output) = output {
            output.close();
        }
    }

    /// Waits until no slice is on its way.
    fn own_turn(&self) -> MutexGuard<'_, WriterState> {
        let mut state = self.state.lock();
        while state.is_passing() {
            let waits = |state: &mut WriterState| state.is_passing();
            let (waited, result) = self.turn.wait_timeout_while(state, QUIET, waits);
            state = waited;
            if result.timed_out() {
                // If it fails, so does the slice.
                let _ = state.sign_of_life();
            }
        }
        state
    }
}

impl WriterState {
    fn output(&mut self) -> io::Result<&mut Box<dyn FrameOutput>> {
        self.output.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn is_passing(&self) -> bool {
        self.passing != Passing::No && self.output.is_some()
    }

    fn sign_of_life(&mut self) -> io::Result<()> {
        let is_within = self.passing == Passing::Within;
        let output = self.output()?;
        if !output.is_ready() {
            return Ok(());
        }
        if is_within { output.write(&SIGN_OF_LIFE, &[]) } else { output.write(&encode_ping(), &[]) }
    }
}

/// The turn of a slice. If it ends within its frame, the direction ends: nothing else could be read there.
struct PassingTurn<'a> {
    writer: &'a SharedWriter,
    /// The head, until it was written.
    head: &'a [u8],
}

impl<'a> PassingTurn<'a> {
    fn begin(writer: &'a SharedWriter, head: &'a [u8]) -> Self {
        writer.own_turn().passing = Passing::Begins;
        Self { writer, head }
    }

    /// Writes the next chunk.
    fn chunk(&mut self, content: &[u8]) -> io::Result<()> {
        let mut state = self.writer.state.lock();
        let header = chunk_header(content.len());
        let head = std::mem::take(&mut self.head);
        state.passing = Passing::Within;
        state.output()?.write(&[head, &header].concat(), content)
    }

    fn end(self, proof: Option<ChainingValue>) -> io::Result<()> {
        let mut state = self.writer.state.lock();
        state.output()?.write(self.head, &encode_trailer(proof))?;
        state.passing = Passing::No;
        Ok(())
    }
}

impl Drop for PassingTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.writer.state.lock();
        if state.passing == Passing::Within {
            state.output = None;
        }
        state.passing = Passing::No;
        drop(state);
        self.writer.turn.notify_all();
    }
}

fn proof_of(content: &mut dyn ArrivingContent, left: usize) -> Result<ChainingValue> {
    content.proof()?.filter(|_| left == 0).ok_or_else(other_length)
}

fn other_length() -> Error {
    Error::new(ErrorKind::SourceChanged, Side::Source, "read", "it has another length than before")
}

#[cfg(test)]
#[path = "shared_writer_tests.rs"]
mod tests;

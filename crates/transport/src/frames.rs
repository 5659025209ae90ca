//! Frames over streams.

use std::io;
use std::sync::Arc;

use haul_core::{Error, ErrorKind, Limiter, Side};
use haul_wire::{FrameError, FrameHeader, HEADER_LEN};

use crate::liveness::Liveness;
use crate::nonblocking::given_up;
use crate::stream::{Receive, Transmit};

/// Why there is no further frame.
#[derive(Debug)]
pub enum LinkError {
    /// The stream ended between two frames.
    Closed,
    /// The stream broke, or ended within a frame.
    Io(io::Error),
    /// The frame breaks a rule.
    Frame(FrameError),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FrameError> for LinkError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl LinkError {
    /// The error in words.
    #[must_use]
    pub fn into_error(self) -> Error {
        let lost =
            |cause: String| Error::new(ErrorKind::Unreachable, Side::Wire, "talk to the other end", cause);
        match self {
            Self::Closed => lost("the connection was closed".to_owned()),
            Self::Io(error) => lost(error.to_string()),
            Self::Frame(error) => error.into(),
        }
    }
}

/// Waits until some of `len` bytes of content may move; gives how many.
fn pace(limit: Option<&Limiter>, len: usize, liveness: &Liveness) -> io::Result<usize> {
    match limit {
        None => Ok(len),
        Some(limit) => limit.take(len, &|| liveness.is_ended()).ok_or_else(given_up),
    }
}

/// Reads frames.
pub struct FrameReader {
    input: Receive,
    liveness: Arc<Liveness>,
    limit: Option<Arc<Limiter>>,
}

impl FrameReader {
    /// Reads from a stream.
    #[must_use]
    pub fn new(input: Receive, liveness: Arc<Liveness>) -> Self {
        Self { input, liveness, limit: None }
    }

    /// Limits the rate of content. Headers and bodies count too, but never wait.
    pub fn limit(&mut self, limit: Arc<Limiter>) {
        self.limit = Some(limit);
    }

    /// The stream, to read on by other means.
    #[must_use]
    pub fn into_inner(self) -> Receive {
        self.input
    }

    /// Fills `into`; gives how much of it was filled, which is less only at the end of the stream.
    ///
    /// # Errors
    /// If the stream broke, or was given up.
    pub fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = self.fill_listening(into);
        self.liveness.listened();
        result
    }

    fn fill_listening(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    self.liveness.received(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.liveness.listen();
                    self.input.wait(into.len() - filled, &self.liveness)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn fill_all(&mut self, into: &mut [u8]) -> io::Result<()> {
        if self.fill(into)? == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads the next header and body. If the header announces a payload, the caller reads it next.
    ///
    /// # Errors
    /// If the stream ends, is abandoned, or holds no valid frame.
    pub fn head(&mut self) -> Result<(FrameHeader, Vec<u8>), LinkError> {
        let mut head = [0; HEADER_LEN];
        let filled = self.fill(&mut head)?;
        self.body(&head, filled)
    }

    /// Goes on after the first `filled` bytes of a header have been read.
    ///
    /// # Errors
    /// As [`FrameReader::head`].
    pub fn body(
        &mut self,
        head: &[u8; HEADER_LEN],
        filled: usize,
    ) -> Result<(FrameHeader, Vec<u8>), LinkError> {
        if filled == 0 {
            return Err(LinkError::Closed);
        }
        FrameHeader::check_prefix(&head[..filled.min(HEADER_LEN)])?;
        if filled < HEADER_LEN {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let header = FrameHeader::decode(head)?;
        let mut body = vec![0; header.body_len as usize];
        self.fill_all(&mut body)?;
        header.check_body(&body)?;
        if let Some(limit) = &self.limit {
            limit.count(HEADER_LEN + body.len());
        }
        Ok((header, body))
    }

    /// Reads the next part of a payload.
    ///
    /// # Errors
    /// If it does not come.
    pub fn content(&mut self, mut room: &mut [u8]) -> Result<(), LinkError> {
        while !room.is_empty() {
            // While it waits it does not listen: silence is its own.
            let step = pace(self.limit.as_deref(), room.len(), &self.liveness)?;
            let (now, later) = room.split_at_mut(step);
            self.fill_all(now)?;
            room = later;
        }
        Ok(())
    }
}

/// Writes frames.
pub struct FrameWriter {
    output: Transmit,
    liveness: Arc<Liveness>,
    limit: Option<Arc<Limiter>>,
}

impl FrameWriter {
    /// Writes to a stream.
    #[must_use]
    pub fn new(output: Transmit, liveness: Arc<Liveness>) -> Self {
        Self { output, liveness, limit: None }
    }

    /// Writes a header with its body, and its payload, as one run of bytes.
    ///
    /// # Errors
    /// If the stream broke, or was given up.
    pub fn write(&mut self, mut head: &[u8], mut payload: &[u8]) -> io::Result<()> {
        if let Some(limit) = &self.limit {
            limit.count(head.len());
        }
        loop {
            let step = if payload.is_empty() {
                0
            } else {
                pace(self.limit.as_deref(), payload.len(), &self.liveness)?
            };
            let (now, later) = payload.split_at(step);
            self.output.write(head, now, &self.liveness)?;
            if later.is_empty() {
                return Ok(());
            }
            (head, payload) = (&[], later);
        }
    }

    /// Limits the rate of content. Headers and bodies count too, but never wait.
    pub fn limit(&mut self, limit: Arc<Limiter>) {
        self.limit = Some(limit);
    }

    /// Ends the writing direction, also of a socket that a reader still holds.
    pub fn close(self) {
        self.output.close();
    }

    /// Whether a small frame can be written without waiting.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.output.is_ready()
    }
}

//! Frames over a pair of byte streams.
//!
//! Both ends of a lane use these: descriptors are set non-blocking and waited for with `poll`, so that every byte
//! that moves is seen as a sign of life and a lane that was given up ends its reader and its writer.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::{Buffer, Error, ErrorKind, Limiter, Side};
use haul_wire::{FrameError, HEADER_LEN, Header};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How long a wait for a descriptor goes on without looking whether the lane was given up.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Bytes that the reader may take ahead of what was asked for. Headers and small bodies then come with one system
/// call; of a payload no more than this is copied a second time.
const READ_AHEAD: usize = 8 * 1024;

/// A pipe wakes who waits for it with every 32 KiB that ssh moves. In the middle of a payload, with a pipe that holds
/// this much, it is cheaper to come back a little later for more at a time. Sockets see to that by themselves.
const ROOMY: usize = 512 * 1024;
/// How much later: a fraction of the time in which the fastest ssh fills or empties such a pipe.
const NAP: Duration = Duration::from_millis(1);
/// Bytes that must be left of a payload for that.
const WORTH_A_NAP: usize = 256 * 1024;

/// What is known of the life of a lane.
#[derive(Debug)]
pub struct Pulse {
    origin: Instant,
    heard: AtomicU64,
    /// Whether the reader waits for bytes. While it does something else, silence is our own.
    listening: AtomicBool,
    sent: AtomicU64,
    /// When the lane is given up by itself, in milliseconds; 0 is never.
    deadline: AtomicU64,
    ended: AtomicBool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            heard: AtomicU64::new(0),
            listening: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes came from the other end.
    pub fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    fn listen(&self) {
        if !self.listening.swap(true, Ordering::Relaxed) {
            self.heard();
        }
    }

    /// Bytes were taken on the way to the other end.
    pub fn sent(&self) {
        self.sent.store(self.now(), Ordering::Relaxed);
    }

    /// For how long we listened and nothing was heard. What was sent is no sign of life: pipes take it from us for a
    /// while even if nobody is at their end any more.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        if !self.listening.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        Duration::from_millis(self.now().saturating_sub(self.heard.load(Ordering::Relaxed)))
    }

    /// For how long nothing was sent.
    #[must_use]
    pub fn quiet_for(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.sent.load(Ordering::Relaxed)))
    }

    /// The lane is given up: its reader and its writer end within a second.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Gives the lane up `after` this time unless it is called again; `None` takes it back.
    pub fn end_after(&self, after: Option<Duration>) {
        let deadline =
            after.map_or(0, |after| self.now() + u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2));
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Whether the lane was given up.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        self.ended.load(Ordering::Relaxed) || (deadline > 0 && self.now() > deadline)
    }
}

/// Why no further frame comes.
#[derive(Debug)]
pub enum LinkError {
    /// The stream ended between two frames.
    Closed,
    /// The stream broke, or ended within a frame.
    Io(io::Error),
    /// What came is not allowed.
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

/// Makes a descriptor ready for [`FrameReader`] or [`FrameWriter`].
///
/// # Errors
/// If the system refuses.
pub fn prepare(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(())
}

fn is_roomy_pipe(fd: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size >= ROOMY)
}

fn given_up() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up")
}

/// Waits until some of `len` bytes of content may move; gives how many.
fn pace(limit: Option<&Limiter>, len: usize, pulse: &Pulse) -> io::Result<usize> {
    match limit {
        None => Ok(len),
        Some(limit) => limit.take(len, &|| pulse.is_ended()).ok_or_else(given_up),
    }
}

fn wait(fd: &File, flags: PollFlags, pulse: &Pulse) -> io::Result<()> {
    loop {
        if pulse.is_ended() {
            return Err(given_up());
        }
        match poll(&mut [PollFd::new(fd, flags)], Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads frames.
pub struct FrameReader {
    input: BufReader<File>,
    naps: bool,
    pulse: Arc<Pulse>,
    limit: Option<Arc<Limiter>>,
}

impl FrameReader {
    /// Reads from `fd`, see [`prepare`].
    #[must_use]
    pub fn new(fd: OwnedFd, pulse: Arc<Pulse>) -> Self {
        let naps = is_roomy_pipe(&fd);
        Self { input: BufReader::with_capacity(READ_AHEAD, File::from(fd)), naps, pulse, limit: None }
    }

    /// Reads from `fd` never a byte more than was asked for, so that another process can go on after it.
    #[must_use]
    pub fn exact(fd: OwnedFd, pulse: Arc<Pulse>) -> Self {
        Self { input: BufReader::with_capacity(0, File::from(fd)), naps: false, pulse, limit: None }
    }

    /// Content is read no faster than `limit` lets it; what is said about it counts too, but never waits.
    pub fn limit(&mut self, limit: Arc<Limiter>) {
        self.limit = Some(limit);
    }

    /// The stream itself.
    #[must_use]
    pub fn get_ref(&self) -> &File {
        self.input.get_ref()
    }

    /// Fills `into`; gives how much of it was filled, which is less only at the end of the stream.
    ///
    /// # Errors
    /// If the stream broke, or the lane was given up.
    pub fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = self.fill_listening(into);
        self.pulse.listening.store(false, Ordering::Relaxed);
        result
    }

    fn fill_listening(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    self.pulse.heard();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pulse.listen();
                    wait(self.input.get_ref(), PollFlags::IN, &self.pulse)?;
                    if self.naps && into.len() - filled >= WORTH_A_NAP {
                        std::thread::sleep(NAP);
                    }
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

    /// Reads the next header and body. The payload, if the header tells of one, is to be read next.
    ///
    /// # Errors
    /// If no frame comes.
    pub fn head(&mut self) -> Result<(Header, Vec<u8>), LinkError> {
        let mut head = [0; HEADER_LEN];
        let filled = self.fill(&mut head)?;
        self.body(&head, filled)
    }

    /// Goes on after the first `filled` bytes of a header have been read.
    ///
    /// # Errors
    /// As [`FrameReader::head`].
    pub fn body(&mut self, head: &[u8; HEADER_LEN], filled: usize) -> Result<(Header, Vec<u8>), LinkError> {
        if filled == 0 {
            return Err(LinkError::Closed);
        }
        Header::check_prefix(&head[..filled.min(HEADER_LEN)])?;
        if filled < HEADER_LEN {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let header = Header::decode(head)?;
        let mut body = vec![0; header.body_len as usize];
        self.fill_all(&mut body)?;
        header.check_body(&body)?;
        if let Some(limit) = &self.limit {
            limit.count(HEADER_LEN + body.len());
        }
        Ok((header, body))
    }

    /// Reads the payload that `header` tells of.
    ///
    /// # Errors
    /// If it does not come.
    pub fn payload(&mut self, header: &Header, into: &mut Buffer) -> Result<(), LinkError> {
        into.truncate(0);
        // A header's payload fits into a buffer of a pool; one without memory is somebody's mistake.
        let mut room = into.grow(header.payload_len as usize).ok_or(FrameError::Length)?;
        while !room.is_empty() {
            // While it waits it does not listen: silence is its own.
            let step = pace(self.limit.as_deref(), room.len(), &self.pulse)?;
            let (now, later) = room.split_at_mut(step);
            self.fill_all(now)?;
            room = later;
        }
        Ok(())
    }
}

/// Writes frames.
pub struct FrameWriter {
    output: File,
    naps: bool,
    pulse: Arc<Pulse>,
    limit: Option<Arc<Limiter>>,
}

impl FrameWriter {
    /// Writes to `fd`, see [`prepare`].
    #[must_use]
    pub fn new(fd: OwnedFd, pulse: Arc<Pulse>) -> Self {
        Self { naps: is_roomy_pipe(&fd), output: File::from(fd), pulse, limit: None }
    }

    /// Content is written no faster than `limit` lets it; what is said about it counts too, but never waits.
    pub fn limit(&mut self, limit: Arc<Limiter>) {
        self.limit = Some(limit);
    }

    /// The stream itself.
    #[must_use]
    pub fn get_ref(&self) -> &File {
        &self.output
    }

    /// Writes a header with its body, and its payload, as one run of bytes.
    ///
    /// # Errors
    /// If the stream broke, or the lane was given up.
    pub fn write(&mut self, mut head: &[u8], mut payload: &[u8]) -> io::Result<()> {
        if let Some(limit) = &self.limit {
            limit.count(head.len());
        }
        loop {
            let step =
                if payload.is_empty() { 0 } else { pace(self.limit.as_deref(), payload.len(), &self.pulse)? };
            let (now, later) = payload.split_at(step);
            self.write_now(head, now)?;
            if later.is_empty() {
                return Ok(());
            }
            (head, payload) = (&[], later);
        }
    }

    fn write_now(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let slices = &mut [IoSlice::new(head), IoSlice::new(payload)];
        let mut rest: &mut [IoSlice<'_>] = slices;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.output.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.pulse.sent();
                    IoSlice::advance_slices(&mut rest, n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.output, PollFlags::OUT, &self.pulse)?;
                    if self.naps && rest.iter().map(|slice| slice.len()).sum::<usize>() >= WORTH_A_NAP {
                        std::thread::sleep(NAP);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends what is written, also where the stream is a socket that a reader holds too.
    pub fn close(self) {
        // A pipe is no socket, and is closed by being dropped.
        let _ = rustix::net::shutdown(&self.output, rustix::net::Shutdown::Write);
    }

    /// Whether a small frame can be written without waiting.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.output, PollFlags::OUT)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
    }
}

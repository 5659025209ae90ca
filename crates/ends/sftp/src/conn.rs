//! One connection: requests go out from whoever asks, a thread hands the answers back by their numbers.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use haul_core::{Error, ErrorKind, Ops, Result, Retry, Side};

use super::checks::{Checks, Expected, Held};
use super::packet::{self, Attrs, Data, MAX_PACKET, Names, PLAIN_DATA, Request, Response};
use super::pipe::{Life, Pipe};
use super::wave::Wave;
use haul_ssh::Pipes;
use haul_ssh::dial::Helper;

/// The most data in one request. OpenSSH allows a little less than a packet.
const MOST_DATA: u32 = 255 * 1024;
/// The least data in one write, whatever the server says: with a few bytes in each no copy would come to its end.
const LEAST_WRITE: u32 = 4 * 1024;
/// Open files at a time, of a server that does not say how many it has.
const FEW_HANDLES: usize = 64;
/// A server may be silent for so many times longer while it waits for its disk.
const DISK: u32 = 4;
/// Handles that are left to journals and the odd listing, if there are so many.
const SPARE_HANDLES: u64 = 64;

/// What a server can do.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) posix_rename: bool,
    pub(super) hardlink: bool,
    pub(super) fsync: bool,
    pub(super) lsetstat: bool,
    pub(super) statvfs: bool,
    pub(super) expand_path: bool,
    /// Bytes of data in a read.
    pub(super) max_read: u32,
    /// Bytes of data in a write.
    pub(super) max_write: u32,
    /// Files that may be open at a time.
    pub(super) handles: usize,
    /// Where paths that are not absolute begin.
    pub(super) home: Vec<u8>,
    /// How long an answer takes that costs the server nothing.
    pub(super) round_trip: Duration,
}

/// Why there is no answer that can be used.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The server says no: code and words.
    Status(u32, String),
    /// The connection is lost, or what it said makes no sense.
    Lost(Error),
}

impl Fault {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Status(packet::NO_SUCH_FILE, _))
    }
}

/// An answer, or why there is none.
#[derive(Debug)]
pub(super) struct Reply(
    pub(super) Result<Response>,
    #[expect(dead_code, reason = "it counts as long as it is there")] Option<Held>,
);

impl Reply {
    /// There is none.
    pub(super) fn none(error: Error) -> Self {
        Self(Err(error), None)
    }

    fn take<T>(self, wanted: impl FnOnce(Response) -> Option<T>) -> Result<T, Fault> {
        match self.0 {
            Err(error) => Err(Fault::Lost(error)),
            Ok(Response::Status(code, words)) if code != packet::OK => {
                Err(Fault::Status(code, haul_core::path::printable(&words)))
            }
            Ok(response) => wanted(response).ok_or_else(|| {
                let cause = "the server sent another answer than was asked for";
                Fault::Lost(Error::new(ErrorKind::Protocol, Side::Wire, "talk to the SFTP server", cause))
            }),
        }
    }

    pub(super) fn ok(self) -> Result<(), Fault> {
        self.take(|response| matches!(response, Response::Status(..)).then_some(()))
    }

    pub(super) fn handle(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| if let Response::Handle(handle) = response { Some(handle) } else { None })
    }

    pub(super) fn attrs(self) -> Result<Attrs, Fault> {
        self.take(|response| if let Response::Attrs(attrs) = response { Some(attrs) } else { None })
    }

    /// Content; `None` at the end of the file.
    pub(super) fn data(self) -> Result<Option<Data>, Fault> {
        if let Ok(Response::Status(packet::EOF, _)) = self.0 {
            return Ok(None);
        }
        self.take(|response| if let Response::Data(data) = response { Some(Some(data)) } else { None })
    }

    /// Names of a listing; `None` at its end.
    pub(super) fn names(self) -> Result<Option<Names>, Fault> {
        if let Ok(Response::Status(packet::EOF, _)) = self.0 {
            return Ok(None);
        }
        self.take(|response| if let Response::Names(names) = response { Some(Some(names)) } else { None })
    }

    /// The one name of an answer that has one.
    pub(super) fn name(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| match response {
            Response::Names(names) => names.into_iter().next().map(|(name, _)| name),
            _ => None,
        })
    }

    pub(super) fn extended(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| if let Response::Extended(bytes) = response { Some(bytes) } else { None })
    }
}

/// One ssh process with an SFTP server at its other end.
pub(super) struct Conn {
    pub(super) server: Server,
    pub(super) name: String,
    writer: Mutex<Pipe>,
    pending: Mutex<Pending>,
    next: AtomicU32,
    checks: Checks,
    /// Bytes that were asked for or sent and not yet answered.
    load: AtomicU64,
    life: Arc<Life>,
    /// What lets requests through.
    pub(super) ops: Arc<Ops>,
    helper: Arc<dyn Helper>,
    handles: Mutex<usize>,
    returned: Condvar,
    /// Held by who is sending content.
    sending: Mutex<()>,
}

#[derive(Default)]
struct Pending {
    waiting: HashMap<u32, Waiting>,
    lost: Option<Error>,
}

struct Waiting {
    to: Sender<(usize, Reply)>,
    at: usize,
    weight: u64,
    expected: Expected,
    /// Whether the answer may take long though nothing is wrong.
    slow: bool,
}

/// What a reading thread needs.
pub(super) struct Answers(BufReader<Pipe>);

/// An error that says that the connection is gone; the same may work on another one.
pub(super) fn lost(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "reach", why).on(name).with_retry(Retry::OtherStream)
}

impl Conn {
    /// Greets the server. The reader is to be run by a thread of its own, with [`Conn::listen`].
    pub(super) fn greet(
        pipes: Pipes,
        name: &str,
        life: Arc<Life>,
        ops: Arc<Ops>,
        held: Arc<AtomicU64>,
    ) -> io::Result<(Self, Answers)> {
        let mut writer = Pipe::new(pipes.to, life.clone())?;
        let mut reader = BufReader::with_capacity(32 * 1024, Pipe::new(pipes.from, life.clone())?);
        writer.write_all(&packet::encode_init())?;
        let strange = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let first = read_packet(&mut reader)?;
        let (version, offered) =
            packet::decode_version(&first).map_err(|_| strange("it did not greet as an SFTP server does"))?;
        if version < packet::VERSION {
            return Err(strange(&format!("it speaks version {version} of SFTP, haul speaks version 3")));
        }
        let offers = |name: &str| offered.iter().any(|(offered, _)| offered == name.as_bytes());
        let server = Server {
            posix_rename: offers(packet::POSIX_RENAME),
            hardlink: offers(packet::HARDLINK),
            fsync: offers(packet::FSYNC),
            lsetstat: offers(packet::LSETSTAT),
            statvfs: offers(packet::STATVFS),
            expand_path: offers(packet::EXPAND_PATH),
            max_read: PLAIN_DATA,
            max_write: PLAIN_DATA,
            handles: FEW_HANDLES,
            home: Vec::new(),
            round_trip: Duration::ZERO,
        };
        let limits = offers(packet::LIMITS);
        let mut conn = Self {
            server,
            name: name.to_owned(),
            writer: Mutex::new(writer),
            pending: Mutex::default(),
            next: AtomicU32::new(0),
            checks: Checks::new(held),
            load: AtomicU64::new(0),
            life,
            ops,
            helper: pipes.helper,
            handles: Mutex::new(0),
            returned: Condvar::new(),
            sending: Mutex::new(()),
        };
        conn.ask_limits(&mut reader, limits).map_err(|error| strange(error.cause()))?;
        Ok((conn, Answers(reader)))
    }

    /// Asks what the server allows and where its paths begin, before there is a thread that listens.
    fn ask_limits(&mut self, reader: &mut BufReader<Pipe>, limits: bool) -> Result<()> {
        let fail = |fault: Fault| match fault {
            Fault::Lost(error) => error,
            Fault::Status(_, words) => lost(&self.name, &words),
        };
        let begun = Instant::now();
        let mut wave = Wave::new(self);
        wave.ask(&Request::Realpath { path: b"." });
        if limits {
            wave.ask(&Request::Limits);
        }
        wave.flush();
        let mut took = Duration::ZERO;
        for _ in 0..wave.sent() {
            let packet = read_packet(reader).map_err(|e| lost(&self.name, &e.to_string()))?;
            self.answer(packet)?;
            if took.is_zero() {
                took = begun.elapsed();
            }
        }
        let home = wave.next().map(Reply::name).transpose().map_err(fail)?.unwrap_or_default();
        // A server that offers limits and then does not tell them is taken as one that does not.
        let told = wave.next().and_then(|reply| reply.extended().ok());
        drop(wave);
        self.server.home = home;
        self.server.round_trip = took;
        if let Some(Ok([longest, read, write, handles])) = told.map(|told| packet::decode_numbers::<4>(&told))
        {
            // Zero says that there is no limit, or that the server does not know it.
            let unknown = |limit: u64| if limit == 0 { u64::from(PLAIN_DATA) } else { limit };
            let data =
                |limit: u64, least: u32| u32::try_from(limit).unwrap_or(u32::MAX).clamp(least, MOST_DATA);
            // A write's packet has a head beside its data.
            let packet = if longest == 0 { u64::MAX } else { longest.saturating_sub(1024) };
            // Of more than it gives a server gives less, so that asking for it does no harm.
            self.server.max_read = data(unknown(read), PLAIN_DATA);
            self.server.max_write = data(unknown(write).min(packet), LEAST_WRITE);
            let handles = if handles == 0 {
                FEW_HANDLES as u64
            } else {
                handles.saturating_sub(SPARE_HANDLES).max(handles / 2)
            };
            self.server.handles = usize::try_from(handles).unwrap_or(FEW_HANDLES).clamp(1, 1000);
        }
        Ok(())
    }

    /// Hands out answers until the connection ends, and says why it did.
    pub(super) fn listen(&self, mut answers: Answers) -> Error {
        let error = loop {
            let packet = match read_packet(&mut answers.0) {
                Ok(packet) => packet,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    break lost(&self.name, "the connection was closed");
                }
                Err(error) => break lost(&self.name, &error.to_string()),
            };
            if let Err(error) = self.answer(packet) {
                break error;
            }
        };
        self.lose(error)
    }

    fn answer(&self, packet: Vec<u8>) -> Result<()> {
        let strange = || lost(&self.name, "the server sent what is no answer to a request");
        let (id, mut response) = packet::decode(packet).map_err(|_| strange())?;
        let waiting = self.lock().waiting.remove(&id).ok_or_else(strange)?;
        self.load.fetch_sub(waiting.weight, Ordering::Relaxed);
        let looked = self.checks.look(&mut response, waiting.expected, waiting.weight);
        let (reply, answered) = match looked {
            Ok(held) => (Reply(Ok(response), held), Ok(())),
            Err(why) => (Reply::none(lost(&self.name, why)), Err(lost(&self.name, why))),
        };
        // Who asked may have had enough.
        let _ = waiting.to.send((waiting.at, reply));
        answered
    }

    /// Registers a request whose answer goes to `to` with the number `at`. The request's own number; `None` if the
    /// connection is lost, which has been answered.
    pub(super) fn register(
        &self,
        to: &Sender<(usize, Reply)>,
        at: usize,
        request: &Request<'_>,
        more: u64,
    ) -> Option<u32> {
        let weight = request.owes() + more;
        let (expected, slow) = (Expected::of(request), matches!(request, Request::Fsync { .. }));
        self.checks.asked(request);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut pending = self.lock();
        if let Some(error) = pending.lost.clone() {
            let _ = to.send((at, Reply::none(error)));
            return None;
        }
        if pending.waiting.is_empty() {
            self.life.heard();
        }
        self.load.fetch_add(weight, Ordering::Relaxed);
        pending.waiting.insert(id, Waiting { to: to.clone(), at, weight, expected, slow });
        Some(id)
    }

    /// Sends bytes, one after the other. If that fails the connection is lost.
    pub(super) fn send(&self, first: &[u8], second: &[u8]) {
        let mut writer = self.writer.lock();
        let written = writer.write_both(first, second);
        drop(writer);
        if let Err(error) = written {
            self.lose(lost(&self.name, &error.to_string()));
        }
    }

    /// Gives the connection up. The first reason counts, and is returned.
    pub(super) fn lose(&self, error: Error) -> Error {
        let mut pending = self.lock();
        let error = pending.lost.get_or_insert(error).clone();
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        self.life.end();
        self.helper.kill();
        for (_, waiting) in waiting {
            let _ = waiting.to.send((waiting.at, Reply::none(error.clone())));
        }
        // Who waits for a handle finds the connection lost when it asks.
        *self.lock_handles() = 0;
        self.returned.notify_all();
        error
    }

    /// Ends it; what it was asked and has not answered fails.
    pub(super) fn close(&self) {
        self.lose(lost(&self.name, "the run has ended"));
    }

    /// Collects the process behind it.
    pub(super) fn collect(&self, patience: Duration) {
        self.helper.collect(patience);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lock().lost.is_some()
    }

    /// For how long answers are owed and nothing was heard; waiting for a disk counts a quarter.
    pub(super) fn silent_for(&self) -> Duration {
        let pending = self.lock();
        if pending.waiting.is_empty() {
            self.life.heard();
        }
        let slow = pending.waiting.values().any(|waiting| waiting.slow);
        self.life.silent_for() / if slow { DISK } else { 1 }
    }

    pub(super) fn heard(&self) {
        self.life.heard();
    }

    pub(super) fn load(&self) -> u64 {
        self.load.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    fn lock_handles(&self) -> MutexGuard<'_, usize> {
        self.handles.lock()
    }

    /// The turn to send content: who has begun gets through before the next one begins, so that on a slow link
    /// slices are complete one after the other.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.sending.lock()
    }

    /// Files that one wave may have open: some, so that several waves go side by side.
    pub(super) fn files_at_once(&self) -> usize {
        (self.server.handles / 3).clamp(1, 256)
    }

    /// Takes the right to have `count` files open ([`Conn::files_at_once`] at most), waiting until it is free. All
    /// that a caller needs is taken at once, so nobody waits for one who waits.
    pub(super) fn handles(&self, count: usize) -> Handles<'_> {
        let mut used = self.lock_handles();
        while *used > 0 && *used + count > self.server.handles && !self.is_lost() {
            used = self.returned.wait(used);
        }
        *used += count;
        Handles { conn: self, count }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.close();
    }
}

/// The right to have files open.
pub(super) struct Handles<'a> {
    conn: &'a Conn,
    count: usize,
}

impl Drop for Handles<'_> {
    fn drop(&mut self) {
        let mut used = self.conn.lock_handles();
        *used = used.saturating_sub(self.count);
        drop(used);
        self.conn.returned.notify_all();
    }
}

/// Reads a packet without its length. Memory is taken once the length is known to be allowed.
fn read_packet(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    reader.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if len == 0 || len > MAX_PACKET {
        let why = "what came is no SFTP; does a login script there print something?";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut packet = vec![0; len];
    reader.read_exact(&mut packet)?;
    Ok(packet)
}

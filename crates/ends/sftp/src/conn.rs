//! One connection: any thread sends requests, and one thread hands out the answers by their numbers.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::io::{self, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Sender;
use haul_core::{Error, Ops, Result};

use super::checks::{Checks, ExpectedAnswer};
use super::packet::{self, SftpRequest, read_packet};
use super::pipe::{Life, PipeEnd};
use super::reply::{Reply, lost};
use super::server::ServerFeatures;
use haul_ssh::dial::Helper;

/// A server may be silent for this many times longer while it waits for its disk.
const DISK: u32 = 4;
/// One ssh process with an SFTP server at its other end.
pub(super) struct Conn {
    pub(super) server: ServerFeatures,
    pub(super) name: String,
    writer: Mutex<PipeEnd>,
    pending: Mutex<PendingRequests>,
    next: AtomicU32,
    checks: Checks,
    /// Bytes requested or sent without an answer yet.
    load: AtomicU64,
    life: Arc<Life>,
    /// The limit of requests per second.
    pub(super) ops: Arc<Ops>,
    helper: Arc<dyn Helper>,
    handles: Mutex<usize>,
    returned: Condvar,
    /// Locked by the thread that sends content.
    sending: Mutex<()>,
}

#[derive(Default)]
struct PendingRequests {
    waiting: HashMap<u32, WaitingRequest>,
    lost: Option<Error>,
}

struct WaitingRequest {
    to: Sender<(usize, Reply)>,
    at: usize,
    weight: u64,
    expected: ExpectedAnswer,
    /// Whether the answer may take long without an error.
    slow: bool,
}

/// The incoming answers of a connection, for its reading thread.
pub(super) struct Answers(BufReader<PipeEnd>);

impl Answers {
    pub(super) fn new(reader: BufReader<PipeEnd>) -> Self {
        Self(reader)
    }
}

impl Conn {
    /// A connection to a server that was greeted.
    pub(super) fn new(
        server: ServerFeatures,
        name: &str,
        writer: PipeEnd,
        life: Arc<Life>,
        ops: Arc<Ops>,
        helper: Arc<dyn Helper>,
        held: Arc<AtomicU64>,
    ) -> Self {
        Self {
            server,
            name: name.to_owned(),
            writer: Mutex::new(writer),
            pending: Mutex::default(),
            next: AtomicU32::new(0),
            checks: Checks::new(held),
            load: AtomicU64::new(0),
            life,
            ops,
            helper,
            handles: Mutex::new(0),
            returned: Condvar::new(),
            sending: Mutex::new(()),
        }
    }

    /// Reads one answer and hands it to whoever asked.
    pub(super) fn take_one(&self, answers: &mut Answers) -> Result<()> {
        let packet = read_packet(&mut answers.0).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                _ => error.to_string(),
            };
            lost(&self.name, &why)
        })?;
        self.answer(packet)
    }

    /// Hands out answers until the connection ends, and returns why it ended.
    pub(super) fn listen(&self, mut answers: Answers) -> Error {
        let error = loop {
            if let Err(error) = self.take_one(&mut answers) {
                break error;
            }
        };
        self.lose(error)
    }

    fn answer(&self, packet: Vec<u8>) -> Result<()> {
        let strange = || lost(&self.name, "the server sent data that answers no request");
        let (id, mut response) = packet::decode(packet).map_err(|_| strange())?;
        let waiting = self.pending.lock().waiting.remove(&id).ok_or_else(strange)?;
        self.load.fetch_sub(waiting.weight, Ordering::Relaxed);
        let looked = self.checks.look(&mut response, &waiting.expected, waiting.weight);
        let (reply, answered) = match looked {
            Ok(held) => (Reply(Ok(response), held), Ok(())),
            Err(why) => (Reply::none(lost(&self.name, why)), Err(lost(&self.name, why))),
        };
        // The thread that asked may not wait any more.
        let _ = waiting.to.send((waiting.at, reply));
        answered
    }

    /// Registers a request whose answer goes to `to` with the number `at`. Returns the id of the request; `None` if the
    /// connection is lost, which `to` was told.
    pub(super) fn register(
        &self,
        to: &Sender<(usize, Reply)>,
        at: usize,
        request: &SftpRequest<'_>,
        more: u64,
    ) -> Option<u32> {
        let weight = request.owes() + more;
        let (expected, slow) = (ExpectedAnswer::of(request), matches!(request, SftpRequest::Fsync { .. }));
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut pending = self.pending.lock();
        if let Some(error) = pending.lost.clone() {
            let _ = to.send((at, Reply::none(error)));
            return None;
        }
        if pending.waiting.is_empty() {
            self.life.heard();
        }
        self.load.fetch_add(weight, Ordering::Relaxed);
        pending.waiting.insert(id, WaitingRequest { to: to.clone(), at, weight, expected, slow });
        Some(id)
    }

    /// Sends both runs of bytes. If that fails, the connection is lost.
    pub(super) fn send(&self, first: &[u8], second: &[u8]) {
        let mut writer = self.writer.lock();
        let written = writer.write_both(first, second);
        drop(writer);
        if let Err(error) = written {
            self.lose(lost(&self.name, &error.to_string()));
        }
    }

    /// Ends the connection for this reason. Returns the first reason that was given.
    pub(super) fn lose(&self, error: Error) -> Error {
        let mut pending = self.pending.lock();
        let error = pending.lost.get_or_insert(error).clone();
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        self.life.end();
        self.helper.kill();
        for (_, waiting) in waiting {
            let _ = waiting.to.send((waiting.at, Reply::none(error.clone())));
        }
        // A thread that waits for a handle then finds the connection lost.
        *self.handles.lock() = 0;
        self.returned.notify_all();
        error
    }

    /// Ends the connection. Requests without an answer fail.
    pub(super) fn close(&self) {
        self.lose(lost(&self.name, "the run has ended"));
    }

    /// Collects the process behind it.
    pub(super) fn collect(&self, timeout: Duration) {
        self.helper.collect(timeout);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.pending.lock().lost.is_some()
    }

    /// How long the server has been silent while it owes answers. Time that it may spend on its disk counts a quarter.
    pub(super) fn silent_for(&self) -> Duration {
        let pending = self.pending.lock();
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

    /// The turn to send content: one thread at a time, so that on a slow link slices become complete one after the
    /// other.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.sending.lock()
    }

    /// Files that one pipeline may have open: some, so that several waves go side by side.
    pub(super) fn files_at_once(&self) -> usize {
        (self.server.handles / 3).clamp(1, 256)
    }

    /// Takes the right to have `count` files open ([`Conn::files_at_once`] at most), and waits until it is free. A
    /// caller takes all that it needs at once, so there is no deadlock.
    pub(super) fn handles(&self, count: usize) -> HandlePermits<'_> {
        let mut used = self.handles.lock();
        while *used > 0 && *used + count > self.server.handles && !self.is_lost() {
            used = self.returned.wait(used);
        }
        *used += count;
        HandlePermits { conn: self, count }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.close();
    }
}

/// The right to have files open.
pub(super) struct HandlePermits<'a> {
    conn: &'a Conn,
    count: usize,
}

impl Drop for HandlePermits<'_> {
    fn drop(&mut self) {
        let mut used = self.conn.handles.lock();
        *used = used.saturating_sub(self.count);
        drop(used);
        self.conn.returned.notify_all();
    }
}

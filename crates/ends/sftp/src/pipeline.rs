//! Pipelined requests: sent without waiting for answers.

use std::collections::VecDeque;

use crossbeam_channel::{Receiver, Sender};

use super::conn::Conn;
use super::packet::SftpRequest;
use super::reply::{Reply, lost};

/// Small requests are collected up to this many bytes.
const COLLECT: usize = 48 * 1024;
/// Shorter data of a write is copied to the collected requests.
const COPIED: usize = 8 * 1024;

/// Sends requests without waiting for answers, and returns the answers in the order of the requests.
pub(super) struct Pipeline<'a> {
    conn: &'a Conn,
    buffer: Vec<u8>,
    to: Sender<(usize, Reply)>,
    from: Receiver<(usize, Reply)>,
    sent: usize,
    taken: usize,
    /// Answers that arrived before their turn, starting with the next one.
    early: VecDeque<Option<Reply>>,
}

/// Sends one request and waits for its answer.
pub(super) fn ask_one(conn: &Conn, request: &SftpRequest<'_>) -> Reply {
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(request);
    pipeline.next_reply()
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(conn: &'a Conn) -> Self {
        let (to, from) = crossbeam_channel::unbounded();
        Self { conn, buffer: Vec::new(), to, from, sent: 0, taken: 0, early: VecDeque::new() }
    }

    /// Adds a request.
    pub(super) fn ask(&mut self, request: &SftpRequest<'_>) {
        self.enter(request, 0);
        if self.buffer.len() >= COLLECT {
            self.flush();
        }
    }

    /// Adds a write of `bytes`, which must fit into one request.
    pub(super) fn write(&mut self, handle: &[u8], offset: u64, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.enter(&SftpRequest::Write { handle, offset, len }, bytes.len() as u64);
        if bytes.len() < COPIED {
            self.buffer.extend_from_slice(bytes);
            if self.buffer.len() >= COLLECT {
                self.flush();
            }
        } else {
            self.send(bytes);
        }
    }

    fn enter(&mut self, request: &SftpRequest<'_>, more: u64) {
        if self.conn.ops.is_limited() && !matches!(request, SftpRequest::Close { .. }) {
            // Send collected requests before a wait, or the server would seem to be silent.
            self.flush();
            self.conn.ops.one();
        }
        let id = self.conn.register(&self.to, self.sent, request, more);
        self.sent += 1;
        if let Some(id) = id {
            request.encode(id, &mut self.buffer);
        }
    }

    /// The number of requests.
    pub(super) fn sent(&self) -> usize {
        self.sent
    }

    /// Sends the collected requests.
    pub(super) fn flush(&mut self) {
        self.send(&[]);
    }

    fn send(&mut self, data: &[u8]) {
        // The buffer is empty if the connection is lost.
        if !self.buffer.is_empty() {
            self.conn.send(&self.buffer, data);
            self.buffer.clear();
        }
    }

    /// The next answer; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Reply> {
        self.flush();
        if self.taken == self.sent {
            return None;
        }
        while !matches!(self.early.front(), Some(Some(_))) {
            let (at, reply) = self.from.recv().ok()?;
            let at = at - self.taken;
            if self.early.len() <= at {
                self.early.resize_with(at + 1, || None);
            }
            self.early[at] = Some(reply);
        }
        self.taken += 1;
        self.early.pop_front().flatten()
    }

    /// The next answer, which must exist. A missing one counts as lost.
    pub(super) fn next_reply(&mut self) -> Reply {
        let missing = || Reply::none(lost(&self.conn.name, "an answer is missing"));
        self.next().unwrap_or_else(missing)
    }
}

//! Measures the link to a remote haul with its own requests, on the connections that a copy would use.

use haul_core::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haul_core::buffer::BUFFER_LEN;
use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{Error, Result, Retry, Side};
use haul_wire::{FrameKind, Request, Response, encode};

use super::peer::{Peer, only, unexpected_answer};
use super::state::{OnReply, Pick, RawReply};

/// Requests to measure a round trip: the quickest one counts.
const TRIPS: usize = 9;
/// Messages in flight: on one connection, and on all connections at most.
const ON_ONE: usize = 6;
const ON_ALL: usize = 40;
/// The least bytes in a message.
const LEAST: u64 = 16 * 1024;
/// How many seconds the messages in flight should take, so that the end of a measurement is quick on a slow link.
const AHEAD: f64 = 0.8;
/// How often to check the number of bytes that have arrived.
const LOOK: Duration = Duration::from_millis(50);
/// How long to skip after a connection was opened, while its window grows.
const GROWING: Duration = Duration::from_millis(500);
/// Connections that may die before a measurement fails.
const LOSSES: u64 = 20;
/// The length of a large message, and how long it may take on a very slow link.
const LARGE: usize = 192 * 1024;
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The direction of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentDirection {
    /// To the remote end.
    There,
    /// From the remote end.
    Back,
}

/// The throughput of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkThroughput {
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// The number of connections.
    pub connections: u32,
    /// Seconds lost before this rate was reached, while connections were opened and their windows grew.
    pub ramp: f64,
}

impl Peer {
    /// Asks the remote end for a measurement or for facts.
    ///
    /// # Errors
    /// If the remote end cannot be reached, or the place cannot be resolved.
    pub fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        self.ask(&Request::Probe(task.clone()), only!(Probe))
    }

    /// Measures a round trip, with the time that haul and ssh add.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn round_trip(&self) -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..TRIPS {
            let begun = Instant::now();
            self.call(&Request::Nothing)?;
            best = best.min(begun.elapsed());
        }
        Ok(best)
    }

    /// How far the remote clock is ahead of the local one, in seconds, to within half a round trip.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn clock_ahead(&self) -> Result<f64> {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let before = now();
        let ProbeResult::Clock(there) = self.probe(&ProbeTask::Clock)? else {
            return Err(unexpected_answer());
        };
        let middle = f64::midpoint(before, now());
        Ok(there.sec as f64 + f64::from(there.nsec) / 1e9 - middle)
    }

    /// Whether a message of many full packets arrives within ten seconds.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn carries_large(&self, direction: ContentDirection) -> Result<bool> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let on_reply = Box::new(move |reply: Result<RawReply>| {
            let read = reply.and_then(|reply| reply.content.map(|mut content| content.collect()).transpose());
            drop(sender.send(read.map(drop)));
        });
        self.exchange(direction, &noise(LARGE), LARGE, Pick::Small, on_reply)?;
        match receiver.recv_timeout(LARGE_TIMEOUT) {
            Ok(answered) => answered.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Measures the throughput of one connection.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn throughput_of_one(&self, direction: ContentDirection, time: Duration) -> Result<LinkThroughput> {
        let connections = self.session.connections();
        let connection = connections.last().map(|connection| connection.number);
        let connection = connection.ok_or_else(|| self.session.unreachable("there is no connection"))?;
        let measured = LinkMeasurement::new(self, direction, Some(connection), ON_ONE, 0.0).measure(time)?;
        Ok(LinkThroughput { connections: 1, ..measured })
    }

    /// Measures the throughput of all connections together, including those that are opened under the load. `one` is
    /// the throughput of one connection, in bytes per second.
    ///
    /// # Errors
    /// If the remote end cannot be reached.
    pub fn throughput(
        &self,
        direction: ContentDirection,
        time: Duration,
        one: f64,
    ) -> Result<LinkThroughput> {
        // On a slow link many messages would take long to end.
        let messages = (one * 16.0 * AHEAD / LEAST as f64) as usize;
        LinkMeasurement::new(self, direction, None, messages.clamp(8, ON_ALL), one).measure(time)
    }

    /// Sends one message with content in this direction.
    fn exchange(
        &self,
        direction: ContentDirection,
        noise: &[u8],
        len: usize,
        pick: Pick,
        on_reply: OnReply,
    ) -> Result<()> {
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        let (request, payload, buffer) = match direction {
            ContentDirection::There => (Request::Swallow, &noise[..len], None),
            ContentDirection::Back => (Request::Produce { bytes }, &[][..], Some(self.session.pool.take())),
        };
        let mut frame = encode(FrameKind::Request, 0, &request, payload.len())?;
        self.session.submit(&mut frame, payload, pick, buffer, on_reply);
        Ok(())
    }
}

/// One measurement.
struct LinkMeasurement<'a> {
    peer: &'a Peer,
    direction: ContentDirection,
    /// The only connection that is used.
    connection: Option<u64>,
    messages: usize,
    /// Bytes per second to begin with.
    hint: f64,
    noise: Vec<u8>,
    begun: Instant,
    arrived: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
    failed: Mutex<Option<Error>>,
}

impl<'a> LinkMeasurement<'a> {
    fn new(
        peer: &'a Peer,
        direction: ContentDirection,
        connection: Option<u64>,
        messages: usize,
        hint: f64,
    ) -> Self {
        Self {
            peer,
            direction,
            connection,
            messages,
            hint,
            noise: noise(if direction == ContentDirection::There { BUFFER_LEN } else { 0 }),
            begun: Instant::now(),
            arrived: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            over: AtomicBool::new(false),
            failed: Mutex::default(),
        }
    }

    fn measure(self, time: Duration) -> Result<LinkThroughput> {
        let mut measured = LinkThroughput { bytes_per_second: 0.0, connections: 0, ramp: 0.0 };
        thread::scope(|scope| -> Result<()> {
            for _ in 0..self.messages {
                let started = thread::Builder::new().spawn_scoped(scope, || self.send());
                if let Err(error) = started {
                    self.over.store(true, Ordering::Relaxed);
                    return Err(Error::io(Side::Local, "start a thread", &error));
                }
            }
            measured = self.watch(time);
            self.over.store(true, Ordering::Relaxed);
            Ok(())
        })?;
        match self.failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(measured),
        }
    }

    /// Measures until no connection was added for `time`, and for three times as long at most.
    fn watch(&self, time: Duration) -> LinkThroughput {
        let mut connections = self.peer.streams();
        let mut since = Instant::now();
        // Seconds and bytes until the windows of the connections had grown.
        let mut grown: Option<(f64, u64)> = None;
        loop {
            thread::sleep(LOOK);
            let now = self.peer.streams();
            let elapsed = self.begun.elapsed();
            let arrived = self.arrived.load(Ordering::Relaxed);
            if now != connections && self.connection.is_none() && elapsed < time * 2 {
                connections = now;
                (since, grown) = (Instant::now(), None);
            }
            if grown.is_none() && since.elapsed() >= GROWING {
                grown = Some((elapsed.as_secs_f64(), arrived));
            }
            let elapsed = elapsed.as_secs_f64();
            let measured = grown.filter(|(before, first)| {
                arrived > *first && elapsed - before >= time.saturating_sub(GROWING).as_secs_f64()
            });
            let late = elapsed >= time.as_secs_f64() * 3.0;
            if measured.is_none() && !late && self.failed.lock().is_none() {
                continue;
            }
            // If this host stood still meanwhile, nothing was counted after the growth: then all counts.
            let (before, first) = measured.or(grown.filter(|grown| arrived > grown.1)).unwrap_or_default();
            let bytes_per_second = (arrived - first) as f64 / (elapsed - before).max(0.001);
            let ramp = (before - first as f64 / bytes_per_second.max(1.0)).clamp(0.0, before);
            return LinkThroughput { bytes_per_second, connections, ramp };
        }
    }

    /// Sends one message after the other.
    fn send(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let len = self.message_len();
            let pick = match (self.connection, self.direction) {
                (Some(connection), _) => Pick::Connection(connection),
                (None, ContentDirection::There) => Pick::Write(len as u64),
                (None, ContentDirection::Back) => Pick::Read(len as u64),
            };
            match self.send_one(len, pick) {
                Ok(()) => {
                    self.arrived.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(error) => {
                    let again = error.retry() == Retry::OtherStream && self.connection.is_none();
                    if !again || self.lost.fetch_add(1, Ordering::Relaxed) >= LOSSES {
                        self.failed.lock().get_or_insert(error);
                        return;
                    }
                }
            }
        }
    }

    fn send_one(&self, len: usize, pick: Pick) -> Result<()> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let on_reply = Box::new(move |reply| drop(sender.send(reply)));
        self.peer.exchange(self.direction, &self.noise, len, pick, on_reply)?;
        let Ok(reply) = receiver.recv() else { return Err(unexpected_answer()) };
        let expected = if self.direction == ContentDirection::Back { len } else { 0 };
        let reply = reply?;
        let right = reply.payload_len == expected;
        let (response, content) = self.peer.session.open_reply(reply, None)?;
        content.map(|mut content| content.collect()).transpose()?;
        match response {
            Response::Done | Response::Produced if right => Ok(()),
            Response::Failed(error) => Err(error),
            _ => Err(unexpected_answer()),
        }
    }

    /// Messages grow with the rate: small ones cost a fast link round trips, large ones a slow one its time.
    fn message_len(&self) -> usize {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.01);
        let rate = (self.arrived.load(Ordering::Relaxed) as f64 / seconds).max(self.hint);
        let len = (rate * AHEAD / self.messages as f64) as u64;
        usize::try_from(len.clamp(LEAST, BUFFER_LEN as u64)).unwrap_or(BUFFER_LEN)
    }
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    haul_probe::fill_random(&mut bytes, 4);
    bytes
}

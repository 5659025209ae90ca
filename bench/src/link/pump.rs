//! The thread that moves the packets of one direction from one device to the other.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::gso::{MAX_PACKET, PacketShape, cut};
use super::shape::{Loss, Ring, Shaper};

/// Without a delay, packets due this soon leave at once.
const SLACK: u64 = 20_000;
/// Packets read before those due are written.
const BATCH: usize = 32;
/// How long a thread with nothing to do sleeps before it looks whether it shall end.
const IDLE: u64 = 100_000_000;

/// The traffic of one direction since the link was made.
#[derive(Default)]
pub(crate) struct Counters {
    /// Bytes delivered, IP headers included.
    pub(crate) bytes: AtomicU64,
    /// Segments delivered.
    pub(crate) packets: AtomicU64,
    /// Segments dropped because the queue was full.
    pub(crate) dropped: AtomicU64,
    /// Segments lost at random.
    pub(crate) lost: AtomicU64,
}

/// One direction.
pub(crate) struct Pump {
    pub(crate) input: Arc<File>,
    pub(crate) output: Arc<File>,
    pub(crate) shaper: Shaper,
    pub(crate) loss: Loss,
    pub(crate) ring: Ring,
    /// With a delay, nanoseconds between two looks while packets pass: waking for every packet
    /// would cost more than moving it. 0 without.
    pub(crate) tick: u64,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) scratch: Vec<u8>,
}

impl Pump {
    /// Moves packets until told to stop or until the device is gone.
    pub(crate) fn run(mut self) {
        prefer_this_thread();
        while !self.stop.load(Relaxed) {
            let Ok((read, drained)) = self.read_some() else {
                break;
            };
            let written = self.write_due();
            if drained {
                self.wait(read + written > 0);
            }
        }
    }

    /// Reads a batch of packets; how many, and whether that was all there was.
    fn read_some(&mut self) -> std::io::Result<(usize, bool)> {
        for count in 0..BATCH {
            let got = match self.ring.reserve(MAX_PACKET) {
                Some(room) => (&*self.input).read(room),
                None => {
                    // The queue is bounded so that this does not happen; should it do, the
                    // packet is dropped as by a full queue.
                    self.scratch.resize(MAX_PACKET, 0);
                    let got = (&*self.input).read(&mut self.scratch);
                    if got.is_ok() {
                        self.counters.dropped.fetch_add(1, Relaxed);
                        continue;
                    }
                    got
                }
            };
            match got {
                Ok(length) => self.accept(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((count, true)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((BATCH, false))
    }

    /// Queues the packet that was just read into the ring, without the segments that are lost or exceed the queue.
    fn accept(&mut self, length: usize) {
        let now = now();
        let shape = PacketShape::of(self.ring.reserved(length));
        let all = 0..shape.segments;
        let wire = shape.wire_bytes(&all);
        let lost = self.loss.next(shape.segments);
        if lost.is_none() && wire <= self.shaper.room(now) {
            let due = self.shaper.send(now, wire);
            self.ring.push(length, wire, due);
            return;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(self.ring.reserved(length));
        let mut start = 0;
        let mut lost = lost;
        while let Some(gap) = lost {
            let at = start + gap;
            self.counters.lost.fetch_add(1, Relaxed);
            self.accept_part(now, &shape, start..at);
            start = at + 1;
            lost = self.loss.next(shape.segments - start);
        }
        self.accept_part(now, &shape, start..shape.segments);
    }

    /// Queues some segments of the packet in the scratch space, as many as there is room for.
    fn accept_part(&mut self, now: u64, shape: &PacketShape, part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        let room = self.shaper.room(now);
        let mut part = part;
        let whole = part.len();
        while !part.is_empty() && shape.wire_bytes(&part) > room {
            part.end -= 1;
        }
        self.counters.dropped.fetch_add((whole - part.len()) as u64, Relaxed);
        if part.is_empty() {
            return;
        }
        let complete = part.len() == shape.segments;
        if !complete && !shape.can_cut() {
            self.counters.dropped.fetch_add(part.len() as u64, Relaxed);
            return;
        }
        let Some(out) = self.ring.reserve(MAX_PACKET) else {
            self.counters.dropped.fetch_add(part.len() as u64, Relaxed);
            return;
        };
        let length = if complete {
            out[..self.scratch.len()].copy_from_slice(&self.scratch);
            self.scratch.len()
        } else {
            cut(&self.scratch, shape, &part, out)
        };
        let wire = shape.wire_bytes(&part);
        let due = self.shaper.send(now, wire);
        self.ring.push(length, wire, due);
    }

    /// Writes the packets whose time has come, or nearly so; how many.
    fn write_due(&mut self) -> usize {
        let slack = if self.tick > 0 { self.tick / 2 } else { SLACK };
        let mut soon = now() + slack;
        let mut count = 0;
        while let Some((packet, wire, due)) = self.ring.first() {
            if due > soon {
                soon = now() + slack;
                if due > soon {
                    break;
                }
            }
            // A packet that the other side has no memory for is lost, as on a wire.
            if (&*self.output).write(packet).is_ok() {
                self.counters.bytes.fetch_add(wire, Relaxed);
                let segments = PacketShape::of(packet).segments;
                self.counters.packets.fetch_add(segments as u64, Relaxed);
            } else {
                self.counters.dropped.fetch_add(1, Relaxed);
            }
            self.ring.pop();
            count += 1;
        }
        count
    }

    /// Sleeps until there is something to do.
    fn wait(&self, busy: bool) {
        if busy && self.tick > 0 {
            std::thread::sleep(Duration::from_nanos(self.tick));
        }
        let pause = self.ring.next_due().map_or(IDLE, |due| due.saturating_sub(now()).min(IDLE));
        let pause = Timespec { tv_sec: 0, tv_nsec: pause as _ };
        let mut fds = [PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN)];
        // An interrupted wait is a short wait.
        let _ = poll(&mut fds, Some(&pause));
    }
}

/// Lets this thread wake in time: as far as permitted, it comes before the measured programs.
fn prefer_this_thread() {
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
    // SAFETY: takes plain numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Nanoseconds of the steady clock.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

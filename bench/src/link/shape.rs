//! One direction of the link as arithmetic: when a packet leaves, which one is lost, and the
//! memory where packets wait. Nothing here touches the system.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Decides when packets leave: a queue before a line of fixed rate, then a fixed delay.
///
/// Time is in nanoseconds of any steady clock.
pub(crate) struct Shaper {
    /// Bits per second.
    rate: u64,
    /// Time on the way after the last bit was sent.
    delay: u64,
    /// Bytes that may wait for the line.
    queue: u64,
    /// When the line has sent all it was given, in picoseconds.
    free_at: u128,
}

impl Shaper {
    /// A line of `rate` bits per second with `delay` nanoseconds and a queue of `queue` bytes.
    pub(crate) fn new(rate: u64, delay: u64, queue: u64) -> Self {
        Self { rate, delay, queue, free_at: 0 }
    }

    /// Bytes that the queue still takes.
    pub(crate) fn room(&self, now: u64) -> u64 {
        let wait = self.free_at.saturating_sub(u128::from(now) * 1000);
        let backlog = wait * u128::from(self.rate) / 8_000_000_000_000;
        self.queue.saturating_sub(u64::try_from(backlog).unwrap_or(u64::MAX))
    }

    /// Queues a packet of that many bytes; the time of its arrival at the other end.
    pub(crate) fn send(&mut self, now: u64, bytes: u64) -> u64 {
        let start = self.free_at.max(u128::from(now) * 1000);
        self.free_at = start + u128::from(bytes) * 8_000_000_000_000 / u128::from(self.rate);
        (self.free_at / 1000) as u64 + self.delay
    }
}

/// Picks segments to lose, independently of each other.
pub(crate) struct Loss {
    random: ChaCha8Rng,
    /// ln(1 - probability); 0 when nothing is ever lost.
    log_keep: f64,
    /// Segments that pass before the next one is lost.
    until_next: u64,
}

impl Loss {
    /// Loses each segment with that probability.
    pub(crate) fn new(probability: f64, seed: u64) -> Self {
        let mut loss = Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            log_keep: (-probability).ln_1p(),
            until_next: u64::MAX,
        };
        loss.draw();
        loss
    }

    fn draw(&mut self) {
        if self.log_keep < 0.0 {
            let uniform = ((self.random.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            self.until_next = (uniform.ln() / self.log_keep) as u64;
        }
    }

    /// The first lost one among the next `count` segments, or none. After a loss only the
    /// segments up to and with the lost one have been drawn.
    pub(crate) fn next(&mut self, count: usize) -> Option<usize> {
        if self.log_keep == 0.0 {
            return None;
        }
        if self.until_next >= count as u64 {
            self.until_next -= count as u64;
            return None;
        }
        let lost = self.until_next as usize;
        self.draw();
        Some(lost)
    }
}

struct QueuedPacket {
    at: usize,
    length: usize,
    wire: u64,
    due: u64,
}

/// The packets on their way, in memory allocated once; in order, first in first out.
pub(crate) struct Ring {
    memory: Vec<u8>,
    slots: VecDeque<QueuedPacket>,
    tail: usize,
}

impl Ring {
    /// A ring that holds that many bytes of packets.
    pub(crate) fn new(capacity: usize) -> Self {
        // Not zeros: the system would hand out the memory only when packets come.
        Self { memory: vec![1; capacity], slots: VecDeque::with_capacity(4096), tail: 0 }
    }

    /// Room for a packet of up to `length` bytes, to be filled and given to [`Ring::push`].
    pub(crate) fn reserve(&mut self, length: usize) -> Option<&mut [u8]> {
        match self.slots.front() {
            // Begin anew, so that a ring that is nearly empty stays in the cache.
            None => self.tail = 0,
            Some(first) if self.tail > first.at => {
                if self.memory.len() - self.tail < length {
                    if first.at <= length {
                        return None;
                    }
                    self.tail = 0;
                }
            }
            Some(first) if first.at - self.tail <= length => return None,
            Some(_) => {}
        }
        self.memory.get_mut(self.tail..self.tail + length)
    }

    /// The bytes reserved last.
    pub(crate) fn reserved(&self, length: usize) -> &[u8] {
        &self.memory[self.tail..self.tail + length]
    }

    /// Adds the packet that was written to the reserved room.
    pub(crate) fn push(&mut self, length: usize, wire: u64, due: u64) {
        self.slots.push_back(QueuedPacket { at: self.tail, length, wire, due });
        self.tail += length;
    }

    /// The next packet, its bytes on the wire and when it is due.
    pub(crate) fn first(&self) -> Option<(&[u8], u64, u64)> {
        let slot = self.slots.front()?;
        let bytes = &self.memory[slot.at..slot.at + slot.length];
        Some((bytes, slot.wire, slot.due))
    }

    /// Removes the next packet.
    pub(crate) fn pop(&mut self) {
        self.slots.pop_front();
    }

    /// When the next packet is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.slots.front().map(|slot| slot.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_sends_one_after_the_other() {
        let mut shaper = Shaper::new(1_000_000_000, 30_000_000, 3000);
        assert_eq!(shaper.send(0, 1500), 12_000 + 30_000_000);
        assert_eq!(shaper.room(0), 1500);
        assert_eq!(shaper.send(0, 1500), 24_000 + 30_000_000);
        assert_eq!(shaper.room(0), 0);
        assert_eq!(shaper.room(12_000), 1500);
        assert_eq!(shaper.send(1_000_000, 125), 1_001_000 + 30_000_000);
    }

    #[test]
    fn losses_come_at_their_rate() {
        let mut loss = Loss::new(0.01, 7);
        let (mut lost, mut sent) = (0, 0);
        while sent < 1_000_000 {
            match loss.next(40) {
                Some(at) => {
                    sent += at + 1;
                    lost += 1;
                }
                None => sent += 40,
            }
        }
        assert!((9_000..11_000).contains(&lost), "{lost} of {sent}");
        assert_eq!(Loss::new(0.0, 7).next(1 << 40), None);
    }

    #[test]
    fn the_ring_wraps_and_fills() {
        let mut ring = Ring::new(100);
        let mut expected = VecDeque::new();
        let (mut value, mut refused) = (0u8, 0);
        for step in 0..1000 {
            if let Some(room) = ring.reserve(30) {
                let length = 10 + step % 20;
                room[..length].fill(value);
                ring.push(length, 0, 0);
                expected.push_back((value, length));
                value = value.wrapping_add(1);
            } else {
                refused += 1;
            }
            if step % 3 != 0 {
                if let Some((bytes, ..)) = ring.first() {
                    let (value, length) = expected.pop_front().unwrap();
                    assert_eq!(bytes, vec![value; length]);
                }
                ring.pop();
            }
        }
        assert!(refused > 0);
    }
}

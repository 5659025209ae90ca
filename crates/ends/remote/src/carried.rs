//! Measures the rate at which the connections take content, so that the next run knows the link.

use std::time::Duration;

/// A rate that differs by less than this factor is the same.
const SAME: f64 = 1.1;
/// The link was the limit of a run if it was that of this share of the ticks, two at least.
const LIMITED: f64 = 0.75;
/// Connections that are the limit have something to send for this share of the time.
const BUSY: f64 = 0.5;

/// The limit of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateLimit {
    /// The connections could have got more content than they took.
    Link,
    /// Something else. The link carries at least so much.
    Other,
    /// The CPUs that compress: the rate says nothing about the link.
    Compression,
}

impl RateLimit {
    /// `waited`: content waited for connections; `compressed`: some of it was compressed.
    pub(super) fn of(waited: bool, compressed: bool) -> Self {
        match (waited, compressed) {
            (true, _) => Self::Link,
            (false, true) => Self::Compression,
            (false, false) => Self::Other,
        }
    }
}

/// Whether connections that had something to send for so long, all together, were busy in this time.
pub(super) fn are_busy(sending: Duration, time: Duration, connections: u32) -> bool {
    sending.as_secs_f64() >= BUSY * time.as_secs_f64() * f64::from(connections)
}

/// The highest rate of a run so far.
#[derive(Debug, Default)]
pub(super) struct CarriedRate {
    /// Whether content flowed in the last tick. The first tick also fills the buffers on the way.
    flows: bool,
    ticks: u32,
    limited: u32,
    most: f64,
}

impl CarriedRate {
    /// In so many seconds the connections took `bytes` of content. Returns the rate of the link if it is not the one that is
    /// `known`.
    pub(super) fn tick(
        &mut self,
        bytes: u64,
        seconds: f64,
        limit: RateLimit,
        known: Option<f64>,
    ) -> Option<f64> {
        let flowed = std::mem::replace(&mut self.flows, bytes > 0);
        if !flowed || bytes == 0 || seconds <= 0.0 || limit == RateLimit::Compression {
            return None;
        }
        self.ticks += 1;
        self.limited += u32::from(limit == RateLimit::Link);
        self.most = self.most.max(bytes as f64 / seconds);
        let is_limit = self.limited >= 2 && f64::from(self.limited) >= LIMITED * f64::from(self.ticks);
        // Where something else was the limit, the link may carry more.
        let rate = if is_limit { self.most } else { known.map_or(self.most, |known| known.max(self.most)) };
        let is_known = known.is_some_and(|known| rate <= known * SAME && known <= rate * SAME);
        (!is_known).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::RateLimit::{Compression, Link, Other};
    use super::*;

    /// The rate that is known after these ticks of half a second.
    fn run(ticks: &[(u64, RateLimit)], mut known: Option<f64>) -> Option<f64> {
        let mut carried = CarriedRate::default();
        for (bytes, limit) in ticks {
            known = carried.tick(*bytes, 0.5, *limit, known).or(known);
        }
        known
    }

    #[test]
    fn the_first_tick_fills_buffers() {
        assert_eq!(run(&[(100, Link)], None), None);
        assert_eq!(run(&[(100, Link), (50, Link), (0, Other), (90, Link)], None), Some(100.0));
    }

    #[test]
    fn a_lower_rate_counts_only_if_the_link_was_the_limit() {
        let slow = [(20, Link), (20, Link), (20, Link), (20, Other)];
        assert_eq!(run(&slow, None), Some(40.0));
        assert_eq!(run(&slow, Some(100.0)), Some(40.0));
        assert_eq!(run(&slow.map(|(bytes, _)| (bytes, Other)), Some(100.0)), Some(100.0));
        assert_eq!(run(&[(20, Other), (80, Other)], Some(100.0)), Some(160.0));
    }

    #[test]
    fn the_rate_of_compression_is_not_that_of_the_link() {
        let slow = [(20, Compression); 9];
        assert_eq!(run(&slow, None), None);
        assert_eq!(run(&slow, Some(100.0)), Some(100.0));
        let link = [(20, Link), (20, Compression), (30, Link), (20, Compression), (40, Link), (30, Link)];
        assert_eq!(run(&link, Some(100.0)), Some(80.0));
        let of = [(true, true), (true, false), (false, true), (false, false)];
        assert_eq!(
            of.map(|(waited, compressed)| RateLimit::of(waited, compressed)),
            [Link, Link, Compression, Other]
        );
    }

    #[test]
    fn connections_without_content_in_flight_are_not_busy() {
        let second = Duration::from_secs(1);
        assert!(are_busy(Duration::from_millis(3900), second, 4));
        assert!(!are_busy(Duration::from_millis(1900), second, 4));
        assert!(are_busy(Duration::from_millis(1900), second, 2));
    }

    #[test]
    fn a_small_difference_is_none() {
        let mut carried = CarriedRate { flows: true, ..CarriedRate::default() };
        assert_eq!(carried.tick(52, 0.5, Link, Some(100.0)), None);
        assert_eq!(carried.tick(60, 0.5, Link, Some(100.0)), Some(120.0));
    }
}

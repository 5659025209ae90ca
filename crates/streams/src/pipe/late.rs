//! Which slices are late: their connection is slow, or recovers from losses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A slice is late only if it has been in flight for longer than others by this time.
pub(super) const LATE: Duration = Duration::from_millis(250);

/// The slices that were sent and have not arrived.
#[derive(Default)]
pub(super) struct SentSlices {
    sent: BTreeMap<u32, SentSlice>,
    /// When the newest slice that has arrived was sent.
    newest: Option<Instant>,
    /// The usual time from sending to arrival.
    latency: Duration,
}

struct SentSlice {
    at: Instant,
    /// It was sent a second time, as it was late.
    twice: bool,
}

impl SentSlices {
    /// A slice is sent.
    pub(super) fn sent(&mut self, index: u32, now: Instant) {
        self.sent.entry(index).or_insert(SentSlice { at: now, twice: false }).at = now;
    }

    /// A late slice is sent a second time.
    pub(super) fn sent_twice(&mut self, index: u32) {
        if let Some(slice) = self.sent.get_mut(&index) {
            slice.twice = true;
        }
    }

    /// A slice has arrived.
    pub(super) fn arrived(&mut self, index: u32, now: Instant) {
        // Of one that was sent twice, it is unknown which one has arrived.
        if let Some(slice) = self.sent.remove(&index).filter(|slice| !slice.twice) {
            let time = now - slice.at;
            self.latency = if self.newest.is_some() { (self.latency * 7 + time) / 8 } else { time };
            self.newest = self.newest.max(Some(slice.at));
        }
    }

    /// All slices before this one have arrived.
    pub(super) fn arrived_before(&mut self, index: u32) {
        self.sent = self.sent.split_off(&index);
    }

    /// Whether this slice is in flight and was not sent twice.
    pub(super) fn may_be_late(&self, index: u32) -> bool {
        self.sent.get(&index).is_some_and(|slice| !slice.twice)
    }

    /// The first slice that is late: one that was sent later by half of the usual time has arrived.
    pub(super) fn first_late(&self) -> Option<u32> {
        let before = self.newest?.checked_sub(LATE.max(self.latency / 2))?;
        self.sent.iter().find(|(_, slice)| !slice.twice && slice.at < before).map(|(index, _)| *index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_late_once_much_newer_ones_have_arrived() {
        let begun = Instant::now();
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let mut slices = SentSlices::default();
        for index in 0..20 {
            slices.sent(index, at(u64::from(index) * 100));
        }
        // 3 and 4 are on a connection that stands still. The others take 400 ms.
        for index in (0..7).filter(|index| ![3, 4].contains(index)) {
            slices.arrived(index, at(u64::from(index) * 100 + 400));
        }
        assert_eq!(slices.first_late(), Some(3));
        assert!(slices.may_be_late(4) && !slices.may_be_late(5));
        slices.sent_twice(3);
        assert_eq!((slices.first_late(), slices.may_be_late(3)), (None, false));
        slices.arrived(7, at(1100));
        assert_eq!(slices.first_late(), Some(4));
        slices.sent_twice(4);
        // Their arrival tells nothing of later ones.
        slices.arrived(3, at(1400));
        slices.arrived(4, at(1400));
        assert_eq!(slices.first_late(), None);
        assert_eq!(slices.latency, Duration::from_millis(400));
        slices.arrived_before(20);
        assert!(slices.sent.is_empty());
    }

    #[test]
    fn on_a_slow_link_a_slice_may_take_half_as_long_again() {
        let begun = Instant::now();
        let at = |secs: u64| begun + Duration::from_secs(secs);
        let mut slices = SentSlices::default();
        (0..10).for_each(|index| slices.sent(index, at(u64::from(index))));
        for index in 1..6 {
            slices.arrived(index, at(u64::from(index) + 10));
        }
        assert_eq!(slices.first_late(), None);
        slices.arrived(6, at(16));
        assert_eq!(slices.first_late(), Some(0));
    }
}

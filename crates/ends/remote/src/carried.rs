//! Measures the rate at which the connections take content, so that the next run knows the link.

/// A rate that differs by less than this factor is the same.
const SAME: f64 = 1.1;
/// The link was the limit of a run if content waited for connections in this share of the ticks, two at least.
const WAITED: f64 = 0.75;

/// The highest rate of a run so far.
#[derive(Debug, Default)]
pub(super) struct CarriedRate {
    /// Whether content flowed in the last tick. The first tick also fills the buffers on the way.
    flows: bool,
    ticks: u32,
    waited: u32,
    most: f64,
}

impl CarriedRate {
    /// In so many seconds the connections took `bytes` of content; `waited`: they could have got more. Returns the rate of the link
    /// if it is not the one that is `known`.
    pub(super) fn tick(&mut self, bytes: u64, seconds: f64, waited: bool, known: Option<f64>) -> Option<f64> {
        let flowed = std::mem::replace(&mut self.flows, bytes > 0);
        if !flowed || bytes == 0 || seconds <= 0.0 {
            return None;
        }
        self.ticks += 1;
        self.waited += u32::from(waited);
        self.most = self.most.max(bytes as f64 / seconds);
        let is_limit = self.waited >= 2 && f64::from(self.waited) >= WAITED * f64::from(self.ticks);
        // Where something else was the limit, the link may carry more.
        let rate = if is_limit { self.most } else { known.map_or(self.most, |known| known.max(self.most)) };
        let is_known = known.is_some_and(|known| rate <= known * SAME && known <= rate * SAME);
        (!is_known).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate that is known after these ticks of half a second.
    fn run(ticks: &[(u64, bool)], mut known: Option<f64>) -> Option<f64> {
        let mut carried = CarriedRate::default();
        for (bytes, waited) in ticks {
            known = carried.tick(*bytes, 0.5, *waited, known).or(known);
        }
        known
    }

    #[test]
    fn the_first_tick_fills_buffers() {
        assert_eq!(run(&[(100, true)], None), None);
        assert_eq!(run(&[(100, true), (50, true), (0, false), (90, true)], None), Some(100.0));
    }

    #[test]
    fn a_lower_rate_counts_only_if_the_link_was_the_limit() {
        let slow = [(20, true), (20, true), (20, true), (20, false)];
        assert_eq!(run(&slow, None), Some(40.0));
        assert_eq!(run(&slow, Some(100.0)), Some(40.0));
        assert_eq!(run(&slow.map(|(bytes, _)| (bytes, false)), Some(100.0)), Some(100.0));
        assert_eq!(run(&[(20, false), (80, false)], Some(100.0)), Some(160.0));
    }

    #[test]
    fn a_small_difference_is_none() {
        let mut carried = CarriedRate { flows: true, ..CarriedRate::default() };
        assert_eq!(carried.tick(52, 0.5, true, Some(100.0)), None);
        assert_eq!(carried.tick(60, 0.5, true, Some(100.0)), Some(120.0));
    }
}

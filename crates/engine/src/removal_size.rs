//! How many entries one request deletes.

/// The numbers of the first request, of the smallest one and of the largest one.
const FIRST: usize = 64;
const LEAST: usize = 16;
const MOST: usize = 1024;
/// How long a request shall take, in seconds: progress moves when one is done.
const SECONDS: f64 = 0.5;
/// How many times as large as the one before a request may be.
const GROWTH: usize = 8;

/// The number of entries in the next request, by the time that the last one took.
pub(crate) struct RemovalSize(usize);

impl Default for RemovalSize {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl RemovalSize {
    pub(crate) fn next(&self) -> usize {
        self.0
    }

    /// A request for `count` entries took so many seconds.
    pub(crate) fn took(&mut self, count: usize, seconds: f64) {
        let wanted = count as f64 / seconds.max(1e-6) * SECONDS;
        self.0 = (wanted as usize).min(self.0 * GROWTH).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the first requests at so many deletions in a second, after `round_trip` seconds each.
    fn sizes(rate: f64, round_trip: f64) -> Vec<usize> {
        let mut size = RemovalSize::default();
        let mut next = || {
            let count = size.next();
            size.took(count, round_trip + count as f64 / rate);
            count
        };
        (0..4).map(|_| next()).collect()
    }

    #[test]
    fn a_request_takes_about_half_a_second_and_fast_ends_get_large_ones() {
        assert_eq!(sizes(100_000.0, 0.0), [64, 512, 1024, 1024]);
        assert_eq!(sizes(100_000.0, 0.06), [64, 512, 1024, 1024]);
        assert_eq!(sizes(40.0, 0.0), [64, 20, 20, 20]);
        assert_eq!(sizes(1.0, 0.0), [64, 16, 16, 16], "a round trip for each entry would take longer");
        let mut last = RemovalSize::default();
        last.took(3, 0.0);
        assert_eq!(last.next(), 512, "no division by zero");
    }
}

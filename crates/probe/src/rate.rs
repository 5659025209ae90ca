//! Rates of measurements.

/// A number divided by its time, at least 1; `None` if either is zero.
pub(crate) fn per_second(count: u64, seconds: f64) -> Option<u64> {
    (count > 0 && seconds > 0.0).then(|| (count as f64 / seconds).round().max(1.0) as u64)
}

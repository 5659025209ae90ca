//! The rate of a run that yields to other users of a machine. It falls at once and rises slowly.

use haul_core::pressure::Strain;

/// The rate never falls below this, so that every run ends. Bytes per second.
const FLOOR: f64 = 1024.0 * 1024.0;
/// The factor of the rate for each second of high strain.
const DECREASE: f64 = 0.5;
/// The rise for each second without strain, as a fraction of the rate before the first fall.
const INCREASE: f64 = 0.05;

/// A limit on the rate that follows the strain on a machine.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Bytes per second; `None` is no limit.
    cap: Option<f64>,
    /// The rate before the first fall.
    peak: f64,
}

impl Backoff {
    /// The limit for the next second in bytes per second. In the last second `moved` bytes moved, and other processes
    /// felt `strain`.
    pub(crate) fn step(&mut self, strain: Strain, moved: f64) -> Option<u64> {
        match (strain, self.cap) {
            // A run that hardly moves is not the cause of the strain.
            (Strain::High, None) if moved <= FLOOR => {}
            (Strain::High, None) => {
                self.peak = moved;
                self.cap = Some((moved * DECREASE).max(FLOOR));
            }
            (Strain::High, Some(cap)) => self.cap = Some((cap.min(moved.max(FLOOR)) * DECREASE).max(FLOOR)),
            (Strain::None, Some(cap)) => {
                // The old rate caused strain, so the rate rises beyond it as slowly as before.
                let more = cap + self.peak * INCREASE;
                self.cap = (more < self.peak * 2.0).then_some(more);
            }
            (Strain::Some, _) | (Strain::None, None) => {}
        }
        self.cap.map(|cap| cap as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = FLOOR;

    #[test]
    fn the_rate_falls_at_once_but_never_to_zero() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.step(Strain::Some, 100.0 * MIB), None);
        let mut moved = 100.0 * MIB;
        for expected in [50.0, 25.0, 12.5, 6.25, 3.125, 1.5625, 1.0, 1.0] {
            let cap = backoff.step(Strain::High, moved).unwrap();
            assert_eq!(cap as f64, expected * MIB);
            moved = cap as f64;
        }
        // Nothing moved in this second.
        assert_eq!(backoff.step(Strain::High, 0.0), Some(1 << 20));
    }

    #[test]
    fn the_rate_rises_slowly_until_the_limit_is_lifted() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.step(Strain::High, 100.0 * MIB), Some(50 << 20));
        assert_eq!(backoff.step(Strain::Some, 50.0 * MIB), Some(50 << 20), "some strain keeps the rate");
        let mut seconds = 0;
        let mut before = 50 << 20;
        while let Some(cap) = backoff.step(Strain::None, before as f64) {
            assert!(cap > before && (cap - before) as f64 <= 5.0 * MIB + 1.0);
            (before, seconds) = (cap, seconds + 1);
        }
        assert_eq!(seconds, 29);
        assert_eq!(backoff.step(Strain::None, 100.0 * MIB), None);
    }

    #[test]
    fn an_idle_run_gets_no_limit() {
        assert_eq!(Backoff::default().step(Strain::High, 1000.0), None);
    }
}

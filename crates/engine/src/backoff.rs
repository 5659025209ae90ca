//! How much a run takes while others have to wait: it gives way at once and comes back slowly.

use haul_core::pressure::Strain;

/// A run never gives way further: it has to end some day. Bytes per second.
const FLOOR: f64 = 1024.0 * 1024.0;
/// What it takes of its rate while others are held up, each second.
const LESS: f64 = 0.5;
/// What it takes more while nobody is, each second: this part of the rate that it gave way from.
const MORE: f64 = 0.05;

/// The cap that gives way.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Bytes per second; `None` while there is no need for one.
    cap: Option<f64>,
    /// The rate that it gave way from.
    peak: f64,
}

impl Backoff {
    /// The cap for the next second in bytes per second, after one in which `moved` bytes moved and others felt
    /// `strain`.
    pub(crate) fn step(&mut self, strain: Strain, moved: f64) -> Option<u64> {
        match (strain, self.cap) {
            // What hardly moves is not what holds them up.
            (Strain::High, None) if moved <= FLOOR => {}
            (Strain::High, None) => {
                self.peak = moved;
                self.cap = Some((moved * LESS).max(FLOOR));
            }
            (Strain::High, Some(cap)) => self.cap = Some((cap.min(moved.max(FLOOR)) * LESS).max(FLOOR)),
            (Strain::None, Some(cap)) => {
                // Where it came from others were held up: it may go on beyond, but no faster than before.
                let more = cap + self.peak * MORE;
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
    fn it_gives_way_at_once_and_never_stops() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.step(Strain::Some, 100.0 * MIB), None);
        let mut moved = 100.0 * MIB;
        for expected in [50.0, 25.0, 12.5, 6.25, 3.125, 1.5625, 1.0, 1.0] {
            let cap = backoff.step(Strain::High, moved).unwrap();
            assert_eq!(cap as f64, expected * MIB);
            moved = cap as f64;
        }
        // In a second in which it could not move anything, too.
        assert_eq!(backoff.step(Strain::High, 0.0), Some(1 << 20));
    }

    #[test]
    fn it_comes_back_slowly_and_then_the_cap_is_gone() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.step(Strain::High, 100.0 * MIB), Some(50 << 20));
        assert_eq!(backoff.step(Strain::Some, 50.0 * MIB), Some(50 << 20), "between the two it stays");
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
    fn what_does_not_move_gives_no_way() {
        assert_eq!(Backoff::default().step(Strain::High, 1000.0), None);
    }
}

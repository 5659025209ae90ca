//! The measured rate that each rung carried.

use crate::ladder::LADDER;

/// The weight of one window.
const WEIGHT: f64 = 0.5;
/// Windows after which a result says nothing any more.
const AGE: u32 = 40;
/// Content whose gain differs by more than this factor is other content. That of samples is a rough estimate.
const OTHER: f64 = 1.8;
/// A rung that carries less than this share of another one's result is left: after two windows, and after one.
const WORSE: f64 = 0.92;
const MUCH_WORSE: f64 = 0.85;
/// Windows until a rung that was left may be tried again. Doubled each time.
const HOLD: u32 = 16;
const MAX_HOLD: u32 = 256;

#[derive(Clone, Copy, Debug, Default)]
struct SeenResult {
    /// Plain bytes per second.
    rate: f64,
    /// The gain of the content at that time.
    gain: f64,
    /// The number of windows that it is made of.
    windows: u32,
    age: u32,
    /// Windows until the rung may be tried again, and how long the next hold lasts.
    held: u32,
    hold: u32,
}

/// The results of all rungs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Results([SeenResult; LADDER.len()]);

impl Results {
    /// A window on rung `at`, after the first one, carried `rate` plain bytes per second. Returns the rung to go back to
    /// if this one is clearly worse.
    pub(crate) fn add(&mut self, at: usize, rate: f64, gain: f64) -> Option<usize> {
        let is_fresh = |seen: &SeenResult| {
            seen.windows > 1 && seen.age < AGE && (1.0 / OTHER..OTHER).contains(&(seen.gain / gain))
        };
        let this = &mut self.0[at];
        if is_fresh(this) || this.windows == 1 && this.age == 1 {
            this.rate += WEIGHT * (rate - this.rate);
            this.windows = this.windows.saturating_add(1);
        } else {
            (this.rate, this.windows) = (rate, 1);
        }
        (this.gain, this.age) = (gain, 0);
        let this = *this;
        let others = self.0.iter().enumerate().filter(|(rung, seen)| *rung != at && is_fresh(seen));
        let (best, most) = others.max_by(|a, b| a.1.rate.total_cmp(&b.1.rate))?;
        if this.rate >= most.rate * if this.windows > 1 { WORSE } else { MUCH_WORSE } {
            return None;
        }
        let hold = (this.hold * 2).clamp(HOLD, MAX_HOLD);
        (self.0[at].held, self.0[at].hold) = (hold, hold);
        Some(best)
    }

    /// A window has passed.
    pub(crate) fn pass(&mut self) {
        for seen in &mut self.0 {
            seen.age = seen.age.saturating_add(1);
            seen.held = seen.held.saturating_sub(1);
        }
    }

    /// Whether the rung may be tried.
    pub(crate) fn allows(&self, rung: usize) -> bool {
        self.0[rung].held == 0
    }

    /// The link has changed.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows on one rung.
    fn run(results: &mut Results, at: usize, rates: &[f64]) -> Option<usize> {
        let mut back = None;
        for rate in rates {
            results.pass();
            back = results.add(at, *rate, 0.7);
        }
        back
    }

    #[test]
    fn a_rung_that_carries_less_is_left_and_held_longer_each_time() {
        let mut results = Results::default();
        assert_eq!(run(&mut results, 0, &[100.0, 100.0, 100.0]), None);
        assert_eq!(run(&mut results, 3, &[88.0]), None, "one window may be chance");
        assert_eq!(run(&mut results, 3, &[88.0]), Some(0));
        for hold in [HOLD, 2 * HOLD] {
            assert!(!results.allows(3));
            let _ = run(&mut results, 0, &vec![100.0; hold as usize]);
            assert!(results.allows(3));
            assert_eq!(run(&mut results, 3, &[50.0]), Some(0));
        }
    }

    #[test]
    fn old_results_and_those_of_other_content_do_not_count() {
        let mut results = Results::default();
        let _ = run(&mut results, 0, &[100.0, 100.0]);
        results.pass();
        assert_eq!(results.add(3, 10.0, 2.0), None, "the content is another one");
        let _ = run(&mut results, 3, &[10.0; 2]);
        assert!(!results.allows(3));
        results.forget();
        assert!(results.allows(3));
        let _ = run(&mut results, 0, &[100.0, 100.0]);
        (0..AGE).for_each(|_| results.pass());
        assert_eq!(run(&mut results, 3, &[10.0, 10.0]), None);
    }
}

//! Decides whether slices are passed on while they are read.
//!
//! While a piece is read, the connection that the slice goes on waits. That costs nothing if the file is cached or the disk
//! is quick. From a slow disk, more threads than connections read whole slices ahead.

use std::time::Duration;

use haul_core::sync::Mutex;

/// A disk is slow if reading takes this share of the time of a slice, in percent.
const SLOW: u128 = 30;
/// Slices to read as a whole before the disk is tried again: at first, and at most.
const FIRST_PAUSE: u32 = 32;
const LONGEST_PAUSE: u32 = 1024;

/// Decides whether slices are passed on while they are read.
#[derive(Default)]
pub(super) struct PassingChoice(Mutex<Pauses>);

#[derive(Default)]
struct Pauses {
    /// Slices to read as a whole from now on.
    left: u32,
    /// The length of the last pause; 0 if the disk was quick.
    last: u32,
}

impl PassingChoice {
    /// Whether the next slice may be passed on.
    pub(super) fn next(&self) -> bool {
        let mut pauses = self.0.lock();
        let passes = pauses.left == 0;
        pauses.left = pauses.left.saturating_sub(1);
        passes
    }

    /// Of the time of a slice, so much was spent on reading.
    pub(super) fn passed(&self, reading: Duration, all: Duration) {
        let mut pauses = self.0.lock();
        if reading.as_nanos() * 100 < all.as_nanos() * SLOW {
            pauses.last = 0;
        } else if pauses.left == 0 {
            pauses.last = (pauses.last * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            pauses.left = pauses.last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_is_tried_ever_more_seldom() {
        let choice = PassingChoice::default();
        let (slow, all) = (Duration::from_millis(SLOW as u64), Duration::from_millis(100));
        let pause = || std::iter::repeat_with(|| choice.next()).take_while(|passes| !passes).count() as u32;
        assert_eq!(pause(), 0);
        for expected in [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] {
            // Others that began before the disk was found slow make the pause no longer.
            (0..3).for_each(|_| choice.passed(slow, all));
            assert_eq!(pause(), expected);
        }
        choice.passed(slow - Duration::from_millis(1), all);
        assert_eq!(pause(), 0);
        choice.passed(slow, all);
        assert_eq!(pause(), FIRST_PAUSE);
    }
}

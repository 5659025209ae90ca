//! Finds how many connections should carry content.
//!
//! One TCP connection carries at most its buffers per round trip, so the first number is a guess from the round trip;
//! without delay, from the cores. The number then grows while the rate grows, and shrinks when it does not: superfluous
//! connections cost memory and CPU time, and take a larger share of the link from other traffic.

use std::time::Duration;

use haul_core::connections_for_link;

const FEWEST: u32 = 4;
/// Without delay a core is the limit of a connection, so there are as many as cores, up to this many.
const FEWEST_FOR_CORES: u32 = 16;
/// The most connections.
pub(super) const MOST: u32 = 32;

/// How often to call [`Tuner::tick`].
pub(super) const TICK: Duration = Duration::from_millis(500);
/// Ticks to average a rate over, and ticks to skip before, as new connections start slowly.
const MEASURED: u32 = 3;
const SETTLE: u32 = 1;
/// Ticks before the first change, if the first number may be too small.
const BEGIN: u32 = 4;
/// Ticks between attempts after one has not helped.
const HOLD: u32 = 20;
/// The least gain of a step up, and the greatest loss of a step down.
const GAIN: f64 = 1.08;
const LOSS: f64 = 0.98;

/// The initial number of connections, on a machine with so many cores.
pub(super) fn first(round_trip: Option<Duration>, cores: usize) -> u32 {
    let for_link = connections_for_link(round_trip.unwrap_or_default());
    let is_near = for_link <= FEWEST;
    let fewest = if is_near { (cores as u32).clamp(FEWEST, FEWEST_FOR_CORES) } else { FEWEST };
    for_link.clamp(fewest, MOST)
}

/// Finds the number by experiments.
#[derive(Debug)]
pub(super) struct Tuner {
    active: u32,
    /// The number before the last step, and its rate; `None` while the present number's own is not known.
    before: Option<(u32, f64)>,
    /// Whether the number is still the initial one, and may be large enough.
    guessed: bool,
    /// Ticks to wait, to settle, measured.
    wait: u32,
    settle: u32,
    measured: u32,
    bytes: u64,
    /// Whether the next attempt is upwards.
    up: bool,
    /// Whether the present number was found by an experiment and not reported yet.
    found: bool,
}

impl Tuner {
    /// Begins with `active` connections. Where each takes its time to speed up (`remote`), the first step waits and is
    /// one back: further ones would hold up the end of a short run.
    pub(super) fn new(active: u32, remote: bool) -> Self {
        let wait = if remote { HOLD } else { BEGIN };
        Self {
            active,
            before: None,
            guessed: remote,
            wait,
            settle: 0,
            measured: 0,
            bytes: 0,
            up: !remote,
            found: false,
        }
    }

    /// How many connections may carry content.
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    /// The number, if an experiment has just found it.
    pub(super) fn found(&mut self) -> Option<u32> {
        std::mem::take(&mut self.found).then_some(self.active)
    }

    /// `bytes` were moved over `connections` connections since the last tick. `waited`: more would have been moved over
    /// more connections. `held`: the buffers of the connections limit them.
    pub(super) fn tick(&mut self, bytes: u64, connections: u32, waited: bool, held: bool) {
        if held && std::mem::take(&mut self.guessed) {
            (self.wait, self.up) = (self.wait.min(BEGIN), true);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        if !waited || connections < self.active {
            // A measurement now would say nothing about the number of connections.
            self.measured = 0;
            self.bytes = 0;
            return;
        }
        if self.settle > 0 {
            self.settle -= 1;
            return;
        }
        self.bytes += bytes;
        self.measured += 1;
        if self.measured < MEASURED {
            return;
        }
        let rate = self.bytes as f64 / f64::from(MEASURED);
        self.measured = 0;
        self.bytes = 0;
        self.judge(rate);
    }

    fn judge(&mut self, rate: f64) {
        let Some((active, was)) = self.before.take() else {
            return self.step(rate);
        };
        let went_up = self.active > active;
        let good = if went_up { rate >= was * GAIN } else { rate >= was * LOSS };
        if good {
            self.step(rate);
        } else {
            self.active = active;
            self.found = true;
            self.up = !went_up;
            self.wait = HOLD;
        }
    }

    fn step(&mut self, rate: f64) {
        let next = if self.up { (self.active * 3).div_ceil(2) } else { self.active * 3 / 4 };
        let next = next.clamp(1, MOST);
        if next == self.active {
            self.up = !self.up;
            self.wait = HOLD;
            return;
        }
        self.before = Some((self.active, rate));
        self.active = next;
        self.settle = SETTLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs against a link where `rate` tells the bytes of a tick from the number of connections.
    fn run(tuner: &mut Tuner, ticks: u32, rate: impl Fn(u32) -> f64) {
        for _ in 0..ticks {
            let active = tuner.active();
            tuner.tick(rate(active) as u64, active, true, false);
        }
    }

    #[test]
    fn begins_with_the_number_for_the_round_trip() {
        let first = |ms| first(Some(Duration::from_millis(ms)), 2);
        assert_eq!((first(0), first(20), first(60), first(300)), (4, 6, 18, 32));
        assert_eq!(super::first(None, 2), 4);
    }

    #[test]
    fn begins_with_the_number_of_cores_without_delay() {
        let first = |ms, cores| first(Some(Duration::from_millis(ms)), cores);
        assert_eq!((first(0, 1), first(0, 8), first(1, 64)), (4, 8, 16));
        assert_eq!((first(20, 64), first(60, 64)), (6, 18));
    }

    #[test]
    fn climbs_while_it_helps_and_stays_near_enough() {
        let mut tuner = Tuner::new(4, false);
        assert_eq!(tuner.found(), None);
        run(&mut tuner, 60, |n| f64::from(n.min(20)) * 50e6);
        assert_eq!(tuner.found(), Some(tuner.active()));
        assert!((18..=30).contains(&tuner.active()), "{tuner:?}");
    }

    #[test]
    fn goes_back_when_fewer_do_as_well() {
        let mut tuner = Tuner::new(16, true);
        run(&mut tuner, 400, |n| f64::from(n.min(2)) * 50e6);
        assert!(tuner.active() <= 4, "{tuner:?}");
        // And up again when the link has changed.
        run(&mut tuner, 400, |n| f64::from(n.min(12)) * 50e6);
        assert!(tuner.active() >= 9, "{tuner:?}");
    }

    #[test]
    fn connections_held_back_by_their_buffers_get_more_at_once() {
        for (held, more) in [(false, false), (true, true)] {
            let mut tuner = Tuner::new(16, true);
            for _ in 0..8 {
                tuner.tick(500_000_000, tuner.active(), true, held);
            }
            assert_eq!(tuner.active() > 16, more, "{tuner:?}");
        }
    }

    #[test]
    fn nothing_is_learnt_while_the_link_is_not_the_limit() {
        let mut tuner = Tuner::new(6, false);
        for _ in 0..100 {
            tuner.tick(1_000_000, 6, false, false);
            tuner.tick(1_000_000, 5, true, false);
        }
        assert_eq!(tuner.active(), 6);
    }
}

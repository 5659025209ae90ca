//! How hard to pack: a controller without clocks or threads.
//!
//! It looks at windows of a fraction of a second. What a window says is which of three limits holds: the link (batches
//! wait for it), the processors (batches wait to be packed), or neither (the source or the remote end). From that it
//! keeps what the link takes, and predicts for each rung of the ladder how many plain bytes a second would arrive:
//! no more than the link takes when packed so, no more than the processors give, no more than the remote end was seen to
//! take. The cheapest rung that comes near the best is taken.
//!
//! Two things cannot be seen and are tried: what a link takes that is not full is guessed higher and higher, until a
//! cheaper rung looks as good; and a remote end that is slow looks from here like a link that is, so a rung that should
//! bring more is held to it, and now and then a rung that should bring less is tried.

use crate::ladder::{Content, LADDER, Rung, START, UNKNOWN};

/// What was seen in one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Its length.
    pub(crate) seconds: f64,
    /// Bytes of content that the link has taken.
    pub(crate) plain: f64,
    /// Bytes that they were on the wire.
    pub(crate) wire: f64,
    /// Batches that were with the link or waited for it, on average.
    pub(crate) sending: f64,
    /// Batches that were being packed or waited for it, on average.
    pub(crate) packing: f64,
    /// Processors that packing may have: those that are idle, and those that it had, or its share of busy ones.
    pub(crate) cores: f64,
    /// Processors that everything else in this process had.
    pub(crate) other: f64,
}

/// A rung is taken if it is this much better than the present one.
const BETTER: f64 = 1.08;
/// A cheaper rung is as good as the best if it comes this near to it.
const AS_GOOD: f64 = 0.97;
/// How much of the idle processors is counted on: others want some too, and the remote end may be on the same machine.
const SHARE: f64 = 0.85;
/// Weight of one batch in what is known of the content.
const BATCH_WEIGHT: f64 = 0.15;
/// Weight of one window in what the link is known to take.
const LINK_WEIGHT: f64 = 0.35;
/// Batches that tell how a rung compares with the one before it, not what the content is like.
const FRESH: u32 = 3;
/// Windows after a step until it is judged; the first of them is still full of what was packed before.
const TRIAL: u32 = 3;
/// Windows with a full link until it is looked whether it is the link indeed. Each time that it was, twice as many.
const DOUBT: u32 = 20;
/// How much less a rung should bring for that: more than rates vary by themselves.
const LESS: f64 = 0.8;
/// If it brings this much of what was before, it is not the link.
const SAME: f64 = 0.92;
/// How fast a limit of the remote end is forgotten, in each window: after some five seconds it is tried again.
const FORGET: f64 = 1.004;
/// Windows within which a step down that had to be taken back counts as a mistake.
const MISTAKE: u32 = 12;
/// A link that took this much more than ever before is still coming to speed: its connections begin slowly.
const RISING: f64 = 1.2;
/// Windows that a link may take for that.
const RAMP: u32 = 6;
/// The most windows that a step down is put off for after mistakes.
const PATIENCE: u32 = 48;

/// A step whose gain or loss is to be seen.
#[derive(Clone, Copy, Debug)]
struct Trial {
    windows: u32,
    /// The rung before it.
    from: usize,
    /// Plain bytes a second before it.
    rate: f64,
    /// Plain bytes for each byte on the wire before it.
    ratio: f64,
    /// What the link took before it.
    link: f64,
}

/// The controller.
#[derive(Debug)]
pub(crate) struct Chooser {
    at: usize,
    rungs: [Rung; LADDER.len()],
    content: Content,
    fresh: u32,
    /// Bytes a second that the link takes, as far as it is known.
    link: Option<f64>,
    /// The same as it was last measured, and windows in a row that were quite different.
    firm: Option<f64>,
    odd: u32,
    /// The most that it took, and windows until it counts as being at speed.
    most: f64,
    ramp: u32,
    /// Plain bytes a second that the remote end takes, where it was seen to be the limit.
    remote: f64,
    /// Windows since the link was the limit.
    slack: u32,
    patience: u32,
    since_down: u32,
    trial: Option<Trial>,
    /// Windows with a full link while packing, and how many of them raise a doubt.
    full: u32,
    doubt: u32,
}

impl Default for Chooser {
    fn default() -> Self {
        Self {
            at: START,
            rungs: LADDER,
            content: UNKNOWN,
            fresh: 0,
            link: None,
            firm: None,
            odd: 0,
            most: 0.0,
            ramp: RAMP,
            remote: f64::INFINITY,
            slack: 0,
            patience: 0,
            since_down: MISTAKE,
            trial: None,
            full: 0,
            doubt: DOUBT,
        }
    }
}

impl Chooser {
    /// The rung to be used.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// `plain` bytes became `packed` on a rung, in so many seconds of processor time.
    pub(crate) fn packed(&mut self, on: usize, plain: f64, packed: f64, cpu: f64) {
        if cpu <= 0.0 || packed <= 0.0 || on == 0 {
            return;
        }
        let (ratio, speed) = ((plain / packed).max(1.01), plain / cpu);
        let rung = &mut self.rungs[on];
        let seen = Content { speed: speed / rung.speed, gain: ratio.ln() / rung.gain };
        if self.fresh > 0 && on == self.at {
            self.fresh -= 1;
            let (first, content) = (LADDER[on], self.content);
            let halfway = |seen: f64, known: f64| (seen / known).clamp(0.2, 5.0).sqrt();
            rung.speed =
                (rung.speed * halfway(seen.speed, content.speed)).clamp(first.speed / 3.0, first.speed * 3.0);
            rung.gain =
                (rung.gain * halfway(seen.gain, content.gain)).clamp(first.gain / 1.5, first.gain * 1.5);
            return;
        }
        self.content.speed += BATCH_WEIGHT * (seen.speed - self.content.speed);
        self.content.gain += BATCH_WEIGHT * (seen.gain - self.content.gain);
    }

    /// A sample of content that is sent as it is would become so many times smaller by LZ4.
    pub(crate) fn sampled(&mut self, ratio: f64) {
        // A short sample has little to refer to: the whole would do somewhat better.
        let gain = 1.2 * ratio.max(1.0).ln() / self.rungs[1].gain;
        self.content.gain += BATCH_WEIGHT * (gain - self.content.gain);
    }

    /// A window has ended.
    pub(crate) fn tick(&mut self, sight: &Sight) {
        let (plain, wire) = (sight.plain / sight.seconds, sight.wire / sight.seconds);
        self.since_down = self.since_down.saturating_add(1);
        self.remote *= FORGET;
        let waiting = sight.sending + sight.packing;
        let full = sight.sending >= 0.7 && sight.sending >= 0.6 * waiting;
        let rising = wire > self.most * RISING;
        self.most = self.most.max(wire);
        self.ramp = self.ramp.saturating_sub(1);
        if full && rising && self.ramp > 0 {
            // To pack harder now would keep it from ever being filled.
            self.link = Some(wire);
            self.choose(sight, plain, wire, false);
            self.link = None;
            return;
        }
        if let Some(mut trial) = self.trial.take() {
            trial.windows += 1;
            if trial.windows < TRIAL {
                self.trial = Some(trial);
                return;
            }
            if self.judge(trial, plain, wire, full) {
                self.choose(sight, plain, wire, true);
                return;
            }
        }
        if full {
            self.link = Some(self.measured(wire));
            self.slack = 0;
            if self.at > 0 {
                self.full += 1;
            }
            if self.full >= self.doubt && self.look_below(plain, wire) {
                return;
            }
        } else {
            self.slack = self.slack.saturating_add(1);
            if self.slack > 1 {
                // Once may be a buffer that grew.
                self.firm = self.firm.map(|known| known.max(wire));
            }
            let eager = self.slack.saturating_sub(self.patience).min(6);
            // Where nobody waits for anything, the source is the limit, and nothing is gained by haste.
            let eager = if waiting < 0.7 { eager.min(1) } else { eager };
            let guess = if eager == 0 { 1.0 } else { 1.0 + 0.05 * f64::from(1_u32 << (eager - 1)) };
            self.link = self.link.map(|known| (known * guess).max(wire));
        }
        let remote = self.remote;
        if waiting < 0.7 {
            self.remote = self.remote.min(plain);
        }
        self.choose(sight, plain, wire, true);
        self.remote = remote;
    }

    /// What the link takes, now that it was full with so much. Buffers on the way make single windows vary; what is
    /// twice in a row quite another rate is another link now. What was only guessed is forgotten.
    fn measured(&mut self, wire: f64) -> f64 {
        let known = self.firm.unwrap_or(wire);
        self.odd = if (0.6..1.7).contains(&(wire / known)) { 0 } else { self.odd + 1 };
        let link = if self.odd < 2 {
            known + LINK_WEIGHT * (wire - known)
        } else {
            (self.odd, self.patience) = (0, 0);
            (self.full, self.doubt) = (0, DOUBT);
            wire
        };
        self.firm = Some(link);
        link
    }

    /// Judges a step. `false` if the window that has ended is one like any other.
    fn judge(&mut self, trial: Trial, plain: f64, wire: f64, full: bool) -> bool {
        let up = self.at > trial.from;
        let change = plain / wire / trial.ratio;
        if if up { change < 1.04 } else { change > 0.96 } {
            // Other content: nothing can be said.
            if !up {
                self.step(trial.from);
            }
            return !up;
        }
        let same = if up { full && plain < trial.rate * 1.04 } else { plain > trial.rate * SAME };
        if same {
            // As much as before arrives though it is packed otherwise: it is not the link that is full.
            self.remote = plain.max(trial.rate) * 1.02;
            self.link = Some(trial.link.max(wire));
            self.firm = self.link;
        } else if !up {
            self.doubt = self.doubt.saturating_mul(2);
            self.step(trial.from);
            return true;
        }
        same
    }

    /// Tries a rung that should bring clearly less.
    fn look_below(&mut self, plain: f64, wire: f64) -> bool {
        self.full = 0;
        if plain * LESS < wire {
            // What goes by at the moment does not pack, on whichever rung.
            return false;
        }
        let ratio = |at: usize| self.rungs[at].ratio(&self.content);
        let enough = ratio(self.at) * LESS;
        let (Some(to), Some(link)) = ((0..self.at).rev().find(|at| ratio(*at) <= enough), self.link) else {
            return false;
        };
        self.trial = Some(Trial { windows: 0, from: self.at, rate: plain, ratio: plain / wire, link });
        self.step(to);
        true
    }

    /// Plain bytes a second that would arrive by way of a rung.
    fn predict(&self, rung: &Rung, sight: &Sight, plain: f64) -> f64 {
        let link = self.link.map_or(f64::INFINITY, |link| link * rung.ratio(&self.content));
        let besides = if plain > 0.0 { sight.other / plain } else { 0.0 };
        let cost = if rung.method.is_some() { rung.cost(&self.content) } else { 0.0 };
        let cores = if rung.method.is_some() { sight.cores * SHARE } else { sight.cores } + sight.other;
        let processors = if besides + cost > 0.0 { cores / (besides + cost) } else { f64::INFINITY };
        link.min(processors).min(self.remote)
    }

    /// Takes the best rung, a harder one only if that is `allowed`.
    fn choose(&mut self, sight: &Sight, plain: f64, wire: f64, allowed: bool) {
        let rates = self.rungs.map(|rung| self.predict(&rung, sight, plain));
        let best = rates.iter().copied().fold(0.0, f64::max);
        let Some(to) = rates.iter().position(|rate| *rate >= best * AS_GOOD) else { return };
        if to > self.at && allowed && rates[to] > rates[self.at] * BETTER {
            if self.since_down < MISTAKE {
                self.patience = (self.patience * 2).clamp(4, PATIENCE);
            }
            self.trial = self.link.map(|link| Trial {
                windows: 0,
                from: self.at,
                rate: plain,
                ratio: plain / wire,
                link,
            });
            self.step(to);
        } else if to < self.at {
            self.since_down = 0;
            self.step(to);
        }
    }

    fn step(&mut self, to: usize) {
        // What is known of the content from samples alone is no measure for a rung.
        self.fresh = if to == 0 || self.at == 0 { 0 } else { FRESH };
        self.at = to;
    }
}

#[cfg(test)]
#[path = "tests/simulation.rs"]
mod simulation;

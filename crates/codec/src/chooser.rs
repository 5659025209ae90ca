//! Chooses how hard to compress: a controller without clocks or threads.
//!
//! It evaluates windows of a fraction of a second. A window shows which of three limits holds: the link (batches wait
//! for it), the CPUs (batches wait to be compressed), or neither (the source or the remote end). From this it estimates
//! the rate of the link (an earlier run may have found it), and predicts for each rung of the ladder how many plain bytes per second would arrive: limited
//! by the link at the rung's ratio, by the CPUs, and by the observed rate of the remote end. It takes the cheapest rung
//! that comes close to the best.
//!
//! Two things cannot be observed and are tried. The rate of a link that is not full is guessed higher and higher, until
//! a cheaper rung looks as good. A slow remote end looks like a slow link unless the kernel tells them apart, so a rung
//! that promises more is judged by its result, and sometimes a rung that promises less is tried.
//!
//! Predictions only decide which rung is tried. A rung that carries less than another one did a moment ago is left,
//! and the time until it is tried again doubles with each attempt in vain.

use crate::ladder::{ContentProperties, LADDER, Rung, SAMPLE_GAIN, START, UNKNOWN};
use crate::results::Results;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// Length in seconds.
    pub(crate) seconds: f64,
    /// Bytes of content that the link has taken.
    pub(crate) plain: f64,
    /// The same, in bytes on the wire.
    pub(crate) wire: f64,
    /// Batches in the link or waiting for it, on average.
    pub(crate) sending: f64,
    /// Batches being compressed or waiting for it, on average.
    pub(crate) packing: f64,
    /// CPUs available for compression: idle ones, and those that it used, or its share of busy ones.
    pub(crate) cores: f64,
    /// CPUs used by everything else in this process.
    pub(crate) other: f64,
    /// The share of the time in which the receiver held the connections back, if the kernel tells.
    pub(crate) held: Option<f64>,
}

/// To try a rung, content is sent on it. So many bytes are on their way before there is a result. A try is due once it
/// costs no more than this share of the time.
const TRIED: f64 = 84e6;
const TRY_SHARE: f64 = 1.0 / 30.0;
/// The longest time in seconds for which the rate of an earlier run is trusted while the link is not full.
const TRUSTED: f64 = 20.0;
/// CPU seconds per plain byte besides compression, until they are measured: reading, hashing, encrypting and sending.
const BESIDES: f64 = 1.2e-9;
/// A rung must be this much better than the present one to be taken.
const BETTER: f64 = 1.08;
/// A cheaper rung counts as good as the best if it comes this close.
const AS_GOOD: f64 = 0.97;
/// The same if the kernel says that the link is the limit, rungs were compared on the same content, and the CPUs have room: a few per cent of a slow link are worth more than CPU time that nothing else needs.
const BETTER_WITH_ROOM: f64 = 1.03;
const AS_GOOD_WITH_ROOM: f64 = 0.98;
/// The CPUs have room if they could compress so many times the bytes that the link takes.
const ROOM: f64 = 2.0;
/// The usable share of idle CPUs: others need some, and the remote end may be on the same host.
const SHARE: f64 = 0.85;
/// The weight of one batch in the estimate of the content.
const BATCH_WEIGHT: f64 = 0.15;
/// The weight of one window in the estimate of the link.
const LINK_WEIGHT: f64 = 0.35;
/// Batches after a step that measure the new rung, not the content.
const FRESH: u32 = 3;
/// While the link is the limit, one batch out of so many is compressed on two rungs; at first one out of fewer.
const COMPARED: u32 = 16;
const COMPARED_FIRST: u32 = 2;
/// The rungs that a rung is compared with: those that compress, except itself.
const OTHERS: u32 = LADDER.len() as u32 - 2;
/// Windows after which a step is judged, not counting the first one: it still sends batches that were compressed
/// before.
const TRIAL: u32 = 2;
/// Windows with a full link until it is checked that the link is the limit. Doubled with each confirmation.
const DOUBT: u32 = 20;
/// How much less a rung should yield in this check: more than the natural variation.
const LESS: f64 = 0.8;
/// If it yields this share of the previous rate, the link is not the limit.
const SAME: f64 = 0.92;
/// How fast the remote end's limit is forgotten, per window: it is tried again after some five seconds.
const FORGET: f64 = 1.004;
/// Connections that the receiver holds back for less than this share of their time wait for the link.
const HELD: f64 = 0.2;
/// A link that takes this much more than ever before is still ramping up.
const RISING: f64 = 1.2;
/// The most windows of a ramp-up.
const RAMP: u32 = 6;

/// A step that is to be judged.
#[derive(Clone, Copy, Debug)]
struct Trial {
    windows: u32,
    /// The rung before it.
    from: usize,
    /// Plain bytes per second before it.
    rate: f64,
    /// Compression ratio before it.
    ratio: f64,
    /// The rate of the link before it.
    link: f64,
}

/// The controller.
#[derive(Debug)]
pub(crate) struct Chooser {
    at: usize,
    rungs: [Rung; LADDER.len()],
    content: ContentProperties,
    fresh: u32,
    /// The estimated rate of the link in bytes per second.
    link: Option<f64>,
    /// The rate of the link in an earlier run, and for how many seconds it is trusted.
    known: Option<f64>,
    trusted: f64,
    /// The rate as last measured, and the number of successive windows with a different one.
    firm: Option<f64>,
    odd: u32,
    /// The highest rate, and the windows until the ramp-up counts as finished.
    most: f64,
    ramp: u32,
    /// Plain bytes per second that the remote end takes, where it was found to be the limit.
    remote: f64,
    /// Windows since the link was the limit.
    slack: u32,
    trial: Option<Trial>,
    /// Windows with a full link during compression, and how many of them trigger a check.
    full: u32,
    doubt: u32,
    /// Whether the link was the limit in the last window.
    full_now: bool,
    /// Batches since the last comparison, and the number of comparisons.
    uncompared: u32,
    comparisons: u32,
    /// Windows since the last step. The first one still sends batches that were compressed before.
    settled: u32,
    results: Results,
}

impl Default for Chooser {
    fn default() -> Self {
        Self {
            at: START,
            rungs: LADDER,
            content: UNKNOWN,
            fresh: 0,
            link: None,
            known: None,
            trusted: 0.0,
            firm: None,
            odd: 0,
            most: 0.0,
            ramp: RAMP,
            remote: f64::INFINITY,
            slack: 0,
            trial: None,
            full: 0,
            doubt: DOUBT,
            full_now: false,
            uncompared: 0,
            comparisons: 0,
            settled: 1,
            results: Results::default(),
        }
    }
}

impl Chooser {
    /// The rung to use.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Before the first window: the link carried `rate` bytes per second in an earlier run, and there are so many CPUs.
    pub(crate) fn expect(&mut self, rate: f64, cores: f64) {
        (self.link, self.known, self.firm) = (Some(rate), Some(rate), Some(rate));
        self.trusted = (TRIED / rate / TRY_SHARE).min(TRUSTED);
        let sight = Sight { seconds: 1.0, plain: 1.0, wire: 1.0, cores, other: BESIDES, ..Sight::default() };
        let predicted = |rung: usize| self.predict(&LADDER[rung], &sight, sight.plain);
        if predicted(0) >= predicted(START) * AS_GOOD {
            self.at = 0;
        }
    }

    /// `plain` bytes were compressed to `packed` bytes on a rung, in so many seconds of CPU time.
    pub(crate) fn packed(&mut self, on: usize, plain: f64, packed: f64, cpu: f64) {
        if cpu <= 0.0 || packed <= 0.0 || on == 0 {
            return;
        }
        let (ratio, speed) = ((plain / packed).max(1.01), plain / cpu);
        let rung = &mut self.rungs[on];
        let seen = ContentProperties { speed: speed / rung.speed, gain: ratio.ln() / rung.gain };
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

    /// A batch begins: the rung on which part of it is to be compressed too, to compare it with the present one. It costs
    /// idle CPUs alone, where to try that rung on the link would cost the difference.
    pub(crate) fn rival(&mut self) -> Option<usize> {
        self.uncompared += 1;
        let every = if self.comparisons < OTHERS { COMPARED_FIRST } else { COMPARED };
        if !self.full_now || self.at == 0 || self.uncompared < every {
            return None;
        }
        // Each of the rungs that compress, except the present one.
        let next = 1 + (self.comparisons % OTHERS) as usize;
        (self.uncompared, self.comparisons) = (0, self.comparisons.wrapping_add(1));
        Some(if next < self.at { next } else { next + 1 })
    }

    /// The same content was compressed by these ratios in these times.
    pub(crate) fn compared(&mut self, [on, rival]: [usize; 2], ratios: [f64; 2], cpu: [f64; 2]) {
        let [gain, other] = ratios.map(|ratio| ratio.max(1.01).ln());
        if cpu[0] <= 0.0 || cpu[1] <= 0.0 {
            return;
        }
        let (known, first) = (self.rungs[on], LADDER[rival]);
        let rung = &mut self.rungs[rival];
        rung.gain = (known.gain * other / gain).clamp(first.gain / 2.0, first.gain * 2.0);
        rung.speed = (known.speed * cpu[0] / cpu[1]).clamp(first.speed / 3.0, first.speed * 3.0);
    }

    /// A sample of uncompressed content was compressed by LZ4 with this ratio.
    pub(crate) fn sampled(&mut self, ratio: f64) {
        // A short sample offers few matches: the whole would compress somewhat better.
        let gain = 1.2 * ratio.max(1.0).ln() / SAMPLE_GAIN;
        self.content.gain += BATCH_WEIGHT * (gain - self.content.gain);
    }

    /// Evaluates a window.
    pub(crate) fn tick(&mut self, sight: &Sight) {
        let (plain, wire) = (sight.plain / sight.seconds, sight.wire / sight.seconds);
        self.remote *= FORGET;
        self.settled = self.settled.saturating_add(1);
        self.results.pass();
        let waiting = sight.sending + sight.packing;
        let full = sight.sending >= 0.7 && sight.sending >= 0.6 * waiting;
        self.full_now = full;
        let is_link = full && sight.held.is_some_and(|share| share < HELD);
        let rising = wire > self.most * RISING;
        self.most = self.most.max(wire);
        self.ramp = self.ramp.saturating_sub(1);
        if full && rising && self.ramp > 0 {
            // Harder compression now would keep the link from ever being filled.
            self.link = Some(wire);
            self.choose(sight, plain, wire, false);
            self.link = self.known;
            return;
        }
        if self.settled < 2 {
            return;
        }
        // If nothing waits, the source is the limit, and the rate says nothing about the rung.
        let better = if waiting < 0.7 { None } else { self.results.add(self.at, plain, self.content.gain) };
        // On a link that has changed, earlier results say nothing.
        if let (Some(better), None, false) = (better, self.trial, full && self.is_odd(wire)) {
            self.step(better);
            return;
        }
        if let Some(mut trial) = self.trial.take() {
            trial.windows += 1;
            if trial.windows < TRIAL {
                self.trial = Some(trial);
                return;
            }
            if self.judge(trial, plain, wire, full && !is_link) {
                self.choose(sight, plain, wire, true);
                return;
            }
        }
        if full {
            self.link = Some(self.measured(wire));
            self.slack = 0;
            if self.at > 0 && !is_link {
                self.full += 1;
            }
            if self.full >= self.doubt && self.look_below(plain, wire) {
                return;
            }
        } else {
            self.slack = self.slack.saturating_add(1);
            self.trusted -= sight.seconds;
            if self.slack > 1 {
                // A single window may show a growing buffer.
                self.firm = self.firm.map(|known| known.max(wire));
            }
            let eager = if self.trusted > 0.0 { 0 } else { self.slack.min(6) };
            // If nothing waits, the source is the limit and there is no hurry.
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

    /// Whether the link was full at a very different rate than before.
    fn is_odd(&self, wire: f64) -> bool {
        self.firm.is_some_and(|known| !(0.6..1.7).contains(&(wire / known)))
    }

    /// Updates the rate of a link that was full at this rate. Buffers make single windows vary; two successive windows
    /// with a very different rate mean that the link has changed. A guessed rate is replaced.
    fn measured(&mut self, wire: f64) -> f64 {
        let known = self.firm.unwrap_or(wire);
        self.odd = if self.is_odd(wire) { self.odd + 1 } else { 0 };
        let link = if self.odd < 2 {
            known + LINK_WEIGHT * (wire - known)
        } else {
            (self.odd, self.full, self.doubt) = (0, 0, DOUBT);
            self.results.forget();
            wire
        };
        self.firm = Some(link);
        link
    }

    /// Judges a step. `false` if the window needs the normal evaluation. Only if `open`, the remote end may be the
    /// limit.
    fn judge(&mut self, trial: Trial, plain: f64, wire: f64, open: bool) -> bool {
        let up = self.at > trial.from;
        let change = plain / wire / trial.ratio;
        if if up { change < 1.04 } else { change > 0.96 } {
            // The content has changed: there is no verdict.
            if !up {
                self.step(trial.from);
            }
            return !up;
        }
        let same = if up { open && plain < trial.rate * 1.04 } else { plain > trial.rate * SAME };
        if same {
            // The same rate arrives at another ratio, so the link is not the limit.
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

    /// Tries a rung that should yield clearly less.
    fn look_below(&mut self, plain: f64, wire: f64) -> bool {
        self.full = 0;
        if plain * LESS < wire {
            // The current content does not compress on any rung.
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

    /// Predicts the plain bytes per second that would arrive on a rung.
    fn predict(&self, rung: &Rung, sight: &Sight, plain: f64) -> f64 {
        let link = self.link.map_or(f64::INFINITY, |link| link * rung.ratio(&self.content));
        link.min(self.processors(rung, sight, plain)).min(self.remote)
    }

    /// Predicts the plain bytes per second for which the CPUs suffice on a rung.
    fn processors(&self, rung: &Rung, sight: &Sight, plain: f64) -> f64 {
        let besides = if plain > 0.0 { sight.other / plain } else { 0.0 };
        let cost = if rung.method.is_some() { rung.cost(&self.content) } else { 0.0 };
        let cores = if rung.method.is_some() { sight.cores * SHARE } else { sight.cores } + sight.other;
        if besides + cost > 0.0 { cores / (besides + cost) } else { f64::INFINITY }
    }

    /// Takes the best rung; a harder one only if that is `allowed`.
    fn choose(&mut self, sight: &Sight, plain: f64, wire: f64, allowed: bool) {
        let rate = |at: usize| {
            let is_open = at == self.at || self.results.allows(at);
            if is_open { self.predict(&self.rungs[at], sight, plain) } else { 0.0 }
        };
        let rates: [f64; LADDER.len()] = std::array::from_fn(rate);
        let best = rates.iter().copied().fold(0.0, f64::max);
        let Some(first) = rates.iter().position(|rate| *rate >= best) else { return };
        let has_room = self.full_now
            && sight.held.is_some_and(|share| share < HELD)
            && self.comparisons >= OTHERS
            && self.processors(&self.rungs[first], sight, plain) >= ROOM * best;
        let (as_good, better) =
            if has_room { (AS_GOOD_WITH_ROOM, BETTER_WITH_ROOM) } else { (AS_GOOD, BETTER) };
        let Some(to) = rates.iter().position(|rate| *rate >= best * as_good) else { return };
        if to > self.at && allowed && rates[to] > rates[self.at] * better {
            self.trial = self.link.map(|link| Trial {
                windows: 0,
                from: self.at,
                rate: plain,
                ratio: plain / wire,
                link,
            });
            self.step(to);
        } else if to < self.at {
            self.step(to);
        }
    }

    fn step(&mut self, to: usize) {
        // An estimate from samples alone cannot judge a rung.
        self.fresh = if to == 0 || self.at == 0 { 0 } else { FRESH };
        (self.at, self.settled) = (to, 0);
    }
}

#[cfg(test)]
#[path = "tests/simulation.rs"]
mod simulation;

//! Measures time windows for the [`Chooser`]: compression, waits for the link, and CPU use.

use haul_core::sync::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use haul_core::Method;

use crate::chooser::{Chooser, Sight};
use crate::ladder::LADDER;
use crate::load::{LinkTime, Ticks, process_time};

/// The minimum length of a window.
const WINDOW: Duration = Duration::from_millis(250);
/// The batches that a window should have sent; else it lasts for [`LONG`].
const BATCHES: u32 = 4;
/// The length of a window on a link that takes seconds per batch.
const LONG: Duration = Duration::from_secs(1);
/// The first window must distinguish the link from the buffers before it, which take this many bytes at any speed.
const BUFFERED: u64 = 12 << 20;
/// The minimum length of the first window.
const FIRST: Duration = Duration::from_millis(100);
/// While content is sent uncompressed, one batch out of so many is sampled.
const SAMPLED: u64 = 8;

/// Feeds the chooser with windows.
pub(crate) struct Auto {
    state: Mutex<AutoState>,
    /// CPUs that this process may use.
    allowed: f64,
    link: OnceLock<AskLink>,
}

/// Asks the kernel for the time of the connections that content takes; `None` if it cannot tell.
pub(crate) type AskLink = Box<dyn Fn() -> Option<LinkTime> + Send + Sync>;

struct AutoState {
    chooser: Chooser,
    window: MeasuringWindow,
    first: bool,
    batches: u64,
    packing: u32,
    sending: u32,
}

/// The measurements since the last window.
struct MeasuringWindow {
    since: Instant,
    ticks: Option<Ticks>,
    link: Option<LinkTime>,
    process: Duration,
    touched: Instant,
    /// Batches being compressed, times seconds.
    packing: f64,
    sending: f64,
    pack_cpu: f64,
    sent: u32,
    plain: u64,
    wire: u64,
}

impl MeasuringWindow {
    fn new(now: Instant, link: Option<LinkTime>) -> Self {
        Self {
            since: now,
            ticks: Ticks::now(),
            link,
            process: process_time(),
            touched: now,
            packing: 0.0,
            sending: 0.0,
            pack_cpu: 0.0,
            sent: 0,
            plain: 0,
            wire: 0,
        }
    }

    fn is_over(&self, now: Instant, first: bool) -> bool {
        let length = now - self.since;
        if first {
            return length >= LONG && self.sent > 0 || length >= FIRST && self.wire >= BUFFERED;
        }
        length >= WINDOW && self.sent >= BATCHES || length >= LONG && self.sent > 0
    }
}

/// A rung and its method.
pub(crate) type Rated = (usize, Method);

/// The treatment of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// Compress it by the method of this rung, if a sample shows that this is worthwhile, and compare the other rung.
    Pack(Rated, Option<Rated>),
    /// Send it uncompressed, and report how a sample of it compresses.
    Sample,
    /// Send it uncompressed.
    Plain,
}

impl Auto {
    pub(crate) fn new(allowed: usize) -> Self {
        let window = MeasuringWindow::new(Instant::now(), None);
        let state = AutoState {
            chooser: Chooser::default(),
            window,
            first: true,
            batches: 0,
            packing: 0,
            sending: 0,
        };
        Self { state: Mutex::new(state), allowed: allowed as f64, link: OnceLock::new() }
    }

    /// Asks the kernel about the connections from now on.
    pub(crate) fn watch(&self, link: AskLink) {
        let _ = self.link.set(link);
    }

    /// The link carried `rate` bytes per second in an earlier run. After the first window this says no more.
    pub(crate) fn expect(&self, rate: f64) {
        let mut state = self.state.lock();
        if state.first {
            state.chooser.expect(rate, self.allowed);
        }
    }

    /// A batch begins. After [`Choice::Pack`] it counts as being compressed until [`Auto::packed`].
    pub(crate) fn begin(&self) -> Choice {
        let mut state = self.at(Instant::now());
        if state.batches == 0 {
            // The time before the first batch does not count.
            state.window = MeasuringWindow::new(Instant::now(), self.link());
        }
        state.batches += 1;
        let at = state.chooser.at();
        match LADDER[at].method {
            Some(method) => {
                state.packing += 1;
                let rival = state.chooser.rival().and_then(|rung| Some((rung, LADDER[rung].method?)));
                Choice::Pack((at, method), rival)
            }
            None if state.batches % SAMPLED == 1 => Choice::Sample,
            None => Choice::Plain,
        }
    }

    /// Whether the next batch is sent uncompressed without a sample. If so, it begins.
    pub(crate) fn begin_plain(&self) -> bool {
        let mut state = self.at(Instant::now());
        let is_plain = LADDER[state.chooser.at()].method.is_none() && (state.batches + 1) % SAMPLED != 1;
        // The first batch begins the measurement.
        let begins = is_plain && state.batches > 0;
        state.batches += u64::from(begins);
        begins
    }

    /// A batch of `plain` bytes was compressed to `packed` bytes (if that was smaller), in so much CPU time.
    pub(crate) fn packed(&self, rung: usize, plain: usize, packed: Option<usize>, cpu: Duration) {
        let mut state = self.at(Instant::now());
        state.packing = state.packing.saturating_sub(1);
        state.window.pack_cpu += cpu.as_secs_f64();
        if let Some(packed) = packed {
            state.chooser.packed(rung, plain as f64, packed as f64, cpu.as_secs_f64());
        }
    }

    /// Part of a batch was compressed on two rungs, with these ratios, in so much CPU time.
    pub(crate) fn compared(&self, rungs: [usize; 2], ratios: [f64; 2], cpu: [Duration; 2]) {
        self.at(Instant::now()).chooser.compared(rungs, ratios, cpu.map(|time| time.as_secs_f64()));
    }

    /// A sample was compressed by this ratio.
    pub(crate) fn sampled(&self, ratio: f64) {
        self.at(Instant::now()).chooser.sampled(ratio);
    }

    /// A batch, or its next piece, is passed to the link.
    pub(crate) fn sending(&self) {
        self.at(Instant::now()).sending += 1;
    }

    /// A batch that is passed to the link waits for its next piece.
    pub(crate) fn pauses(&self) {
        let mut state = self.at(Instant::now());
        state.sending = state.sending.saturating_sub(1);
    }

    /// The link has taken the batch.
    pub(crate) fn sent(&self, plain: u64, wire: u64) {
        let now = Instant::now();
        let mut state = self.at(now);
        state.sending = state.sending.saturating_sub(1);
        state.window.sent += 1;
        state.window.plain += plain;
        state.window.wire += wire;
        if state.window.is_over(now, state.first) {
            state.first = false;
            let window = std::mem::replace(&mut state.window, MeasuringWindow::new(now, self.link()));
            let sight = window.sight(&state.window, self.allowed);
            state.chooser.tick(&sight);
        }
    }

    /// Batches that are being passed to the link.
    #[cfg(test)]
    pub(crate) fn being_sent(&self) -> u32 {
        self.state.lock().sending
    }

    fn link(&self) -> Option<LinkTime> {
        self.link.get()?()
    }

    /// The state, with the time until now accounted for.
    fn at(&self, now: Instant) -> MutexGuard<'_, AutoState> {
        let mut state = self.state.lock();
        let seconds = now.saturating_duration_since(state.window.touched).as_secs_f64();
        let (packing, sending) = (f64::from(state.packing), f64::from(state.sending));
        let window = &mut state.window;
        window.touched = window.touched.max(now);
        window.packing += seconds * packing;
        window.sending += seconds * sending;
        state
    }
}

impl MeasuringWindow {
    /// The measurements from the beginning of this window to that of `next`.
    fn sight(&self, next: &Self, allowed: f64) -> Sight {
        let seconds = (next.since - self.since).as_secs_f64();
        let process = next.process.saturating_sub(self.process).as_secs_f64() / seconds;
        let packing = (self.pack_cpu / seconds).min(process);
        let ours = (allowed - process).max(0.0);
        let idle = match (next.ticks, self.ticks) {
            (Some(now), Some(before)) => now.idle_since(before).map_or(ours, |idle| idle.min(ours)),
            _ => ours,
        };
        // If others use all CPUs, compression still gets its fair share of them.
        let share = next.ticks.map_or(0.0, |now| now.fair_share().min(allowed));
        Sight {
            seconds,
            plain: self.plain as f64,
            wire: self.wire as f64,
            sending: self.sending / seconds,
            packing: self.packing / seconds,
            cores: (idle + packing).max(share),
            other: process - packing,
            held: next.link.zip(self.link).and_then(|(now, before)| now.held_since(before)),
        }
    }
}

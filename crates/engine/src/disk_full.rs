//! A destination that is full: the run sends nothing more until a trial shows that there is space again.

use haul_core::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use haul_core::text::bytes;
use haul_core::{Error, ErrorKind, Result};

use crate::meter::Meter;
use crate::options::OnFull;
use crate::repeat;

/// The time until the first trial. It doubles with each trial.
const FIRST_TRIAL: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 1000 });
/// The longest time between two trials.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often a waiting thread checks whether the run was stopped.
const CHECK: Duration = Duration::from_millis(200);
/// The shortest time between two warnings, for a disk that is full again and again.
const WARN: Duration = Duration::from_secs(60);

/// How long everything must fit before the user is told that there is free space: a small file may fit where a large one
/// does not.
const SETTLED: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 5000 });

/// Makes senders wait while the destination is full.
pub(crate) struct DiskFullGate {
    on_full: OnFull,
    state: Mutex<DiskFullState>,
    changed: Condvar,
}

#[derive(Default)]
struct DiskFullState {
    full: Option<Full>,
    /// The time of the last warning.
    warned: Option<Instant>,
    /// Since when everything has fitted again, until the user is told.
    fits_since: Option<Instant>,
}

struct Full {
    error: Error,
    since: Instant,
    /// The user was warned, so the user is also told when it is over.
    warned: bool,
    /// A thread is trying whether there is space.
    trying: bool,
    pause: Duration,
    next: Instant,
}

/// The answer of the gate to a sender.
pub(crate) enum GatePass {
    /// Send.
    Go,
    /// Stop, because the run was stopped.
    Stopped,
    /// End the run with this error, because there was no space for too long.
    Over(Error),
}

impl DiskFullGate {
    pub(crate) fn new(on_full: OnFull) -> Self {
        Self { on_full, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether the run waits for space after this error.
    pub(crate) fn waits_for(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::NoSpace && self.on_full != OnFull::Fail
    }

    /// Waits while the destination is full. One thread at a time passes for a trial; it must report the result with
    /// [`Self::set_full`] or [`Self::set_not_full`].
    pub(crate) fn pass(&self, stopped: impl Fn() -> bool) -> GatePass {
        let OnFull::Pause(longest) = self.on_full else { return GatePass::Go };
        let mut state = self.state.lock();
        loop {
            let Some(full) = &mut state.full else { return GatePass::Go };
            if stopped() {
                return GatePass::Stopped;
            }
            let now = Instant::now();
            if now >= full.since + longest {
                return GatePass::Over(full.error.clone());
            }
            if !full.trying && now >= full.next {
                full.trying = true;
                return GatePass::Go;
            }
            state = self.changed.wait_timeout(state, CHECK).0;
        }
    }

    /// A write did not fit.
    pub(crate) fn set_full(&self, error: &Error, meter: &Meter<'_>) {
        let OnFull::Pause(longest) = self.on_full else { return };
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(full) = &mut state.full {
            if std::mem::take(&mut full.trying) {
                full.pause = (full.pause * 2).min(MAX_PAUSE);
            }
            full.next = now + full.pause;
            return;
        }
        let warns = state.warned.is_none_or(|warned| now - warned >= WARN);
        if warns {
            state.warned = Some(now);
        }
        let warned = state.fits_since.take().is_some() || warns;
        let (pause, next) = (FIRST_TRIAL, now + FIRST_TRIAL);
        state.full = Some(Full { error: error.clone(), since: now, warned, trying: false, pause, next });
        drop(state);
        meter.set_full(true);
        if warns {
            let most = match longest.as_secs() {
                seconds @ 0..=119 => format!("{seconds} s"),
                seconds => format!("{} min", seconds.div_ceil(60)),
            };
            let left = bytes(meter.totals().bytes_to_copy());
            let then = format!("{left} are still to copy; waiting for free space, {most} at most");
            meter.tell_full(error, &then);
        }
    }

    /// A write ended with another result than a full disk. `fits`: it succeeded; otherwise the trial proved nothing.
    pub(crate) fn set_not_full(&self, fits: bool, meter: &Meter<'_>) {
        let mut state = self.state.lock();
        let Some(full) = &mut state.full else {
            let settled = fits && state.fits_since.is_some_and(|since| since.elapsed() >= SETTLED);
            if settled {
                state.fits_since = None;
                drop(state);
                meter.warn("there is free space again: continuing");
            }
            return;
        };
        // A write that began before the disk was full proves nothing.
        if !std::mem::take(&mut full.trying) || !fits {
            return;
        }
        let warned = full.warned;
        state.fits_since = warned.then(Instant::now);
        state.full = None;
        drop(state);
        self.changed.notify_all();
        meter.set_full(false);
    }

    /// Asks the sink, and asks again about each question whose answer is a full disk. Before each further request it
    /// calls `wait`, which is `false` when the run has ended.
    ///
    /// # Errors
    /// The error of `ask`.
    pub(crate) fn ask<Q: Clone, A>(
        &self,
        meter: &Meter<'_>,
        questions: &[Q],
        wait: impl Fn() -> bool,
        ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
    ) -> Result<Vec<Result<A>>> {
        let waits = |answer: &Result<A>| answer.as_ref().is_err_and(|error| self.waits_for(error));
        let mut answers = ask(questions)?;
        loop {
            let open = repeat::open(&answers, waits);
            let Some(Err(error)) = open.first().map(|at| &answers[*at]) else { return Ok(answers) };
            self.set_full(error, meter);
            if !wait() {
                return Ok(answers);
            }
            let asked = repeat::ask_again(questions, &mut answers, &open, &ask);
            asked.inspect_err(|_| self.set_not_full(false, meter))?;
            if !open.iter().any(|at| waits(&answers[*at])) {
                self.set_not_full(true, meter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use haul_core::{Event, Reporter, Side};

    #[derive(Default)]
    struct Warnings(AtomicUsize);

    impl Reporter for Warnings {
        fn event(&self, event: &Event<'_>) {
            if matches!(event, Event::Warning(_) | Event::Full { .. }) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn error() -> Error {
        Error::new(ErrorKind::NoSpace, Side::Destination, "write", "full")
    }

    #[test]
    fn one_thread_at_a_time_tries_and_all_go_on_once_there_is_space() {
        let warnings = Warnings::default();
        let meter = Meter::new(&warnings);
        let gate = DiskFullGate::new(OnFull::Pause(Duration::from_secs(600)));
        assert!(matches!(gate.pass(|| false), GatePass::Go), "not full");
        gate.set_full(&error(), &meter);
        gate.set_full(&error(), &meter);
        assert_eq!(warnings.0.load(Ordering::Relaxed), 1, "one warning");
        gate.set_not_full(true, &meter);
        assert!(matches!(gate.pass(|| true), GatePass::Stopped), "an older write proves nothing");
        assert!(matches!(gate.pass(|| false), GatePass::Go), "the first thread may try");
        assert!(matches!(gate.pass(|| true), GatePass::Stopped), "no other thread may try meanwhile");
        gate.set_not_full(false, &meter);
        assert!(
            matches!(gate.pass(|| false), GatePass::Go),
            "the trial proved nothing: the next thread may try"
        );
        gate.set_not_full(true, &meter);
        assert!(matches!(gate.pass(|| true), GatePass::Go));
    }

    #[test]
    fn space_is_announced_once_everything_fits_and_not_for_one_small_file() {
        let warnings = Warnings::default();
        let meter = Meter::new(&warnings);
        let gate = DiskFullGate::new(OnFull::Pause(Duration::from_secs(600)));
        for _ in 0..2 {
            gate.set_full(&error(), &meter);
            assert!(matches!(gate.pass(|| false), GatePass::Go), "a trial");
            gate.set_not_full(true, &meter);
            assert_eq!(warnings.0.load(Ordering::Relaxed), 1, "the disk was full, once");
        }
        std::thread::sleep(SETTLED);
        gate.set_not_full(false, &meter);
        assert_eq!(warnings.0.load(Ordering::Relaxed), 1, "a failed write proves nothing");
        for _ in 0..2 {
            gate.set_not_full(true, &meter);
            assert_eq!(warnings.0.load(Ordering::Relaxed), 2, "there is space, once");
        }
    }

    #[test]
    fn waiting_for_space_ends() {
        let warnings = Warnings::default();
        let gate = DiskFullGate::new(OnFull::Pause(Duration::from_millis(1)));
        gate.set_full(&error(), &Meter::new(&warnings));
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(gate.pass(|| false), GatePass::Over(_)));
        let gate = DiskFullGate::new(OnFull::Fail);
        assert!(!gate.waits_for(&error()));
        gate.set_full(&error(), &Meter::new(&warnings));
        assert!(matches!(gate.pass(|| false), GatePass::Go));
    }
}

//! A destination that is full: nothing more is sent until a trial shows that there is room again.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Result};

use crate::copy::Run;
use crate::meter::Meter;

/// Time until the first trial, and between two of them at most; it doubles with each.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// How often who waits looks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);
/// A disk that is full again and again is told of no more often than this.
const SAY: Duration = Duration::from_secs(60);

/// What is done when the destination is full or over quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The run ends.
    Fail,
    /// It waits for room, so long at most each time, then it ends.
    Pause(Duration),
}

/// Holds up who would send, while the destination is full.
pub(crate) struct Room {
    on_full: OnFull,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    full: Option<Full>,
    /// When it was last told that it is full.
    said: Option<Instant>,
}

struct Full {
    error: Error,
    since: Instant,
    /// That it is full was told.
    told: bool,
    /// Somebody is trying whether there is room.
    trying: bool,
    wait: Duration,
    next: Instant,
}

/// What somebody who was held up does.
pub(crate) enum Pass {
    /// Send.
    Go,
    /// The run was stopped meanwhile.
    Stopped,
    /// There was no room for longer than it may wait.
    Over(Error),
}

impl Room {
    pub(crate) fn new(on_full: OnFull) -> Self {
        Self { on_full, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether this error is one that is waited out.
    pub(crate) fn waits_for(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::NoSpace && self.on_full != OnFull::Fail
    }

    /// Waits while the destination is full. One at a time may try whether it still is: it must tell what came out.
    pub(crate) fn pass(&self, stopped: impl Fn() -> bool) -> Pass {
        let OnFull::Pause(most) = self.on_full else { return Pass::Go };
        let mut state = self.lock();
        loop {
            let Some(full) = &mut state.full else { return Pass::Go };
            if stopped() {
                return Pass::Stopped;
            }
            let now = Instant::now();
            if now >= full.since + most {
                return Pass::Over(full.error.clone());
            }
            if !full.trying && now >= full.next {
                full.trying = true;
                return Pass::Go;
            }
            state = self.changed.wait_timeout(state, LOOK).0;
        }
    }

    /// Something did not fit.
    pub(crate) fn is_full(&self, error: &Error, meter: &Meter<'_>) {
        let OnFull::Pause(most) = self.on_full else { return };
        let now = Instant::now();
        let mut state = self.lock();
        match &mut state.full {
            Some(full) => {
                if std::mem::take(&mut full.trying) {
                    full.wait = (full.wait * 2).min(MOST);
                }
                full.next = now + full.wait;
            }
            None => {
                let told = state.said.is_none_or(|said| now - said >= SAY);
                if told {
                    state.said = Some(now);
                }
                let (wait, next) = (FIRST, now + FIRST);
                state.full = Some(Full { error: error.clone(), since: now, told, trying: false, wait, next });
                drop(state);
                meter.is_full(true);
                if told {
                    let minutes = most.as_secs().div_ceil(60);
                    meter.warn(&format!(
                        "the destination is full: {error}; waiting for room, {minutes} min at most"
                    ));
                }
            }
        }
    }

    /// Something that was sent did fit; `tried` is false where it came to no answer.
    pub(crate) fn is_not_full(&self, tried: bool, meter: &Meter<'_>) {
        let mut state = self.lock();
        let Some(full) = &mut state.full else { return };
        // What was under way when it became full says nothing of now.
        if !std::mem::take(&mut full.trying) || !tried {
            return;
        }
        let told = full.told;
        state.full = None;
        drop(state);
        self.changed.notify_all();
        meter.is_full(false);
        if told {
            meter.warn("there is room again: going on");
        }
    }
}

impl Run<'_> {
    /// Waits while the destination is full. `false`: there is nothing more to wait for, as the run has ended.
    pub(crate) fn go_on(&self) -> bool {
        match self.room.pass(|| self.stopped()) {
            Pass::Go => true,
            Pass::Stopped => false,
            Pass::Over(error) => {
                self.abort(error);
                false
            }
        }
    }

    /// Asks the sink, and again about what did not fit, once there may be room for it.
    pub(crate) fn patiently<Q: Clone, A>(
        &self,
        questions: &[Q],
        ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
    ) -> Result<Vec<Result<A>>> {
        let mut answers = ask(questions)?;
        loop {
            let waits = |answer: &Result<A>| answer.as_ref().is_err_and(|error| self.room.waits_for(error));
            let open: Vec<usize> = (0..answers.len()).filter(|at| waits(&answers[*at])).collect();
            let Some(Err(error)) = open.first().map(|at| &answers[*at]) else { return Ok(answers) };
            self.room.is_full(error, self.meter);
            if !self.go_on() {
                return Ok(answers);
            }
            let again: Vec<Q> = open.iter().filter_map(|at| questions.get(*at).cloned()).collect();
            let more = ask(&again).inspect_err(|_| self.room.is_not_full(false, self.meter))?;
            if !more.iter().any(waits) {
                self.room.is_not_full(true, self.meter);
            }
            for (at, answer) in open.into_iter().zip(more) {
                answers[at] = answer;
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
    struct Said(AtomicUsize);

    impl Reporter for Said {
        fn event(&self, event: &Event<'_>) {
            if matches!(event, Event::Warning(_)) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn error() -> Error {
        Error::new(ErrorKind::NoSpace, Side::Destination, "write", "full")
    }

    #[test]
    fn one_at_a_time_tries_and_all_go_on_once_there_is_room() {
        let said = Said::default();
        let meter = Meter::new(&said);
        let room = Room::new(OnFull::Pause(Duration::from_secs(600)));
        assert!(matches!(room.pass(|| false), Pass::Go), "nothing is full");
        room.is_full(&error(), &meter);
        room.is_full(&error(), &meter);
        assert_eq!(said.0.load(Ordering::Relaxed), 1, "said once");
        room.is_not_full(true, &meter);
        assert!(matches!(room.pass(|| true), Pass::Stopped), "what was under way says nothing");
        assert!(matches!(room.pass(|| false), Pass::Go), "the first may try");
        assert!(matches!(room.pass(|| true), Pass::Stopped), "no other meanwhile");
        room.is_not_full(false, &meter);
        assert!(matches!(room.pass(|| false), Pass::Go), "that came to nothing: the next may try");
        room.is_not_full(true, &meter);
        assert!(matches!(room.pass(|| true), Pass::Go));
        assert_eq!(said.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn waiting_has_an_end() {
        let said = Said::default();
        let room = Room::new(OnFull::Pause(Duration::from_millis(1)));
        room.is_full(&error(), &Meter::new(&said));
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(room.pass(|| false), Pass::Over(_)));
        let room = Room::new(OnFull::Fail);
        assert!(!room.waits_for(&error()));
        room.is_full(&error(), &Meter::new(&said));
        assert!(matches!(room.pass(|| false), Pass::Go));
    }
}

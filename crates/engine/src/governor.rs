//! What keeps a run's limits: looks each second which rate holds now, and how others on the machines fare.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use haul_core::pressure::Strain;
use haul_core::{Error, Pace, Pressure, Result, Side};

use crate::backoff::Backoff;

/// How often it looks.
const TICK: Duration = Duration::from_secs(1);
/// What was heard of a machine counts for so long.
const FRESH: Duration = Duration::from_secs(5);

/// Tells the rate that holds now, in bytes per second; `None` is no limit.
pub type Plan = Box<dyn Fn() -> Option<u64> + Send>;

/// Asks a machine what others there waited since it was asked last; `None` if it does not say. It may take a while.
pub type Gauge = Box<dyn FnMut() -> Option<Pressure> + Send>;

/// Sets the rates of a run by its plan, and lower where others are held up, until it is dropped.
pub struct Governor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    pace: Pace,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    plan: Plan,
    /// What was heard last of each machine that is watched.
    heard: Vec<Option<(Instant, Strain)>>,
    backoff: Backoff,
    /// The cap of those who are held up, in bytes per second.
    cap: Option<u64>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Keeps the rates.
    fn keep(&self) {
        let mut looked = (Instant::now(), self.pace.taken());
        let mut state = self.lock();
        while !state.ended {
            let elapsed = looked.0.elapsed();
            if elapsed >= TICK {
                let taken = self.pace.taken();
                let moved = (taken - looked.1) as f64 / elapsed.as_secs_f64();
                looked = (Instant::now(), taken);
                let fresh = state.heard.iter().flatten().filter(|(at, _)| at.elapsed() < FRESH);
                let worst = fresh.map(|(_, strain)| *strain).max();
                // Of whom nothing is heard, nothing is known: it stays as it was.
                state.cap = state.backoff.step(worst.unwrap_or(Strain::Some), moved);
            }
            let planned = (state.plan)();
            self.pace.set(match (planned, state.cap) {
                (Some(planned), Some(cap)) => Some(planned.min(cap)),
                (planned, cap) => planned.or(cap),
            });
            state = self.wake.wait_timeout(state, TICK).0;
        }
    }

    /// Asks about one machine.
    fn watch(&self, number: usize, mut gauge: Gauge) {
        loop {
            let pressure = gauge();
            let mut state = self.lock();
            state.heard[number] = pressure.map(|pressure| (Instant::now(), pressure.strain()));
            let waited = self.wake.wait_timeout_while(state, TICK, |state| !state.ended);
            if waited.0.ended {
                return;
            }
        }
    }
}

impl Governor {
    /// Sets the rates of `pace` by `plan`, at once and from now on.
    ///
    /// # Errors
    /// If its thread cannot be started.
    pub fn start(pace: Pace, plan: Plan) -> Result<Self> {
        pace.set(plan());
        let state = State { plan, heard: Vec::new(), backoff: Backoff::default(), cap: None, ended: false };
        let shared = Arc::new(Shared { pace, state: Mutex::new(state), wake: Condvar::new() });
        let mut governor = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        governor.spawn(move || shared.keep())?;
        Ok(governor)
    }

    /// Gives way to others on one more machine.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn watch(&mut self, gauge: Gauge) -> Result<()> {
        let number = {
            let mut state = self.shared.lock();
            state.heard.push(None);
            state.heard.len() - 1
        };
        let shared = Arc::clone(&self.shared);
        self.spawn(move || shared.watch(number, gauge))
    }

    /// A handle to change the plan with, from any thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new().name("haul-governor".to_owned()).spawn(run);
        self.threads.push(thread.map_err(|error| Error::io(Side::Local, "start a thread", &error))?);
        Ok(())
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Changes the plan of a [`Governor`].
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Another plan holds from now on.
    pub fn set(&self, plan: Plan) {
        self.0.lock().plan = plan;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn wait_for(pace: &Pace, what: impl Fn(Option<u64>) -> bool) {
        while !what(pace.inbound.rate()) || !what(pace.outbound.rate()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_plan_holds_from_the_first_byte_until_another_one_does() {
        let pace = Pace::default();
        let governor = Governor::start(pace.clone(), Box::new(|| Some(7))).unwrap();
        assert_eq!(pace.outbound.rate(), Some(7));
        governor.handle().set(Box::new(|| None));
        wait_for(&pace, |rate| rate.is_none());
        governor.handle().set(Box::new(|| Some(9)));
        wait_for(&pace, |rate| rate == Some(9));
    }

    #[test]
    fn it_gives_way_where_others_are_held_up_and_comes_back() {
        const MIB: u64 = 1 << 20;
        let pace = Pace::default();
        let mut governor = Governor::start(pace.clone(), Box::new(|| Some(1000 * MIB))).unwrap();
        let held_up = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&held_up);
        governor.watch(Box::new(|| None)).unwrap();
        let pressure =
            move || Some(Pressure { io: u16::from(seen.load(Ordering::Relaxed)) * 500, cpu: 0, own: false });
        governor.watch(Box::new(pressure)).unwrap();
        // Something has to move, or it is not ours that holds them up.
        let mover = pace.clone();
        wait_for(&pace, |rate| {
            mover.outbound.count(100_000);
            rate.is_some_and(|rate| rate < 1000 * MIB)
        });
        held_up.store(false, Ordering::Relaxed);
        let low = pace.outbound.rate();
        wait_for(&pace, |rate| rate > low);
    }
}

//! Controls the rate of a run: each second it sets the planned rate, or a lower one while other processes are slowed
//! down.

use haul_core::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use haul_core::pressure::Strain;
use haul_core::{Error, Pace, Pressure, Result, Side};

use crate::backoff::Backoff;

/// How often the rate is set.
const TICK: Duration = Duration::from_secs(1);
/// How long a measurement of a machine is valid.
const FRESH: Duration = Duration::from_secs(5);

/// Returns the planned rate at this moment, in bytes per second; `None` is no limit.
pub type PlannedRate = Box<dyn Fn() -> Option<u64> + Send>;

/// Measures how long other processes on a machine waited since the last call; `None` if that is unknown. It may block.
pub type PressureGauge = Box<dyn FnMut() -> Option<Pressure> + Send>;

/// Sets the rates of a run until it is dropped.
pub struct RateController {
    shared: Arc<SharedRate>,
    threads: Vec<JoinHandle<()>>,
}

struct SharedRate {
    pace: Pace,
    state: Mutex<RateState>,
    wake: Condvar,
}

struct RateState {
    plan: PlannedRate,
    /// Further limits that get the same rates.
    others: Vec<Pace>,
    /// The last measurement of each watched machine.
    strains: Vec<Option<(Instant, Strain)>>,
    backoff: Backoff,
    /// The limit because of strain, in bytes per second.
    cap: Option<u64>,
    ended: bool,
}

impl SharedRate {
    /// Sets the rates until the end.
    fn control(&self) {
        let mut last = (Instant::now(), self.pace.taken());
        let mut state = self.state.lock();
        while !state.ended {
            let elapsed = last.0.elapsed();
            if elapsed >= TICK {
                let taken = self.pace.taken();
                let moved = (taken - last.1) as f64 / elapsed.as_secs_f64();
                last = (Instant::now(), taken);
                let fresh = state.strains.iter().flatten().filter(|(at, _)| at.elapsed() < FRESH);
                let worst = fresh.map(|(_, strain)| *strain).max();
                // Without a measurement the limit stays.
                state.cap = state.backoff.step(worst.unwrap_or(Strain::Some), moved);
            }
            let planned = (state.plan)();
            let yields = state.cap.is_some_and(|cap| planned.is_none_or(|planned| cap < planned));
            self.pace.yields.store(yields, Ordering::Relaxed);
            let rate = match (planned, state.cap) {
                (Some(planned), Some(cap)) => Some(planned.min(cap)),
                (planned, cap) => planned.or(cap),
            };
            self.pace.set(rate);
            state.others.iter().for_each(|pace| pace.set(rate));
            state = self.wake.wait_timeout(state, TICK).0;
        }
    }

    /// Measures one machine until the end.
    fn watch(&self, number: usize, mut gauge: PressureGauge) {
        loop {
            let pressure = gauge();
            let mut state = self.state.lock();
            state.strains[number] = pressure.map(|pressure| (Instant::now(), pressure.strain()));
            let waited = self.wake.wait_timeout_while(state, TICK, |state| !state.ended);
            if waited.0.ended {
                return;
            }
        }
    }
}

impl RateController {
    /// Sets the rates of `pace` by `plan`, the first time before it returns.
    ///
    /// # Errors
    /// `Io` if its thread cannot be started.
    pub fn start(pace: Pace, plan: PlannedRate) -> Result<Self> {
        pace.set(plan());
        let state = RateState {
            plan,
            others: Vec::new(),
            strains: Vec::new(),
            backoff: Backoff::default(),
            cap: None,
            ended: false,
        };
        let shared = Arc::new(SharedRate { pace, state: Mutex::new(state), wake: Condvar::new() });
        let mut controller = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        controller.spawn(move || shared.control())?;
        Ok(controller)
    }

    /// Sets the rates of `pace`, too, from now on.
    pub fn add(&self, pace: Pace) {
        let mut state = self.shared.state.lock();
        pace.set(self.shared.pace.outbound.rate());
        state.others.push(pace);
    }

    /// Yields to other processes on one more machine.
    ///
    /// # Errors
    /// `Io` if a thread cannot be started.
    pub fn watch(&mut self, gauge: PressureGauge) -> Result<()> {
        let number = {
            let mut state = self.shared.state.lock();
            state.strains.push(None);
            state.strains.len() - 1
        };
        let shared = Arc::clone(&self.shared);
        self.spawn(move || shared.watch(number, gauge))
    }

    /// A handle that changes the plan, from any thread.
    #[must_use]
    pub fn handle(&self) -> RateHandle {
        RateHandle(Arc::clone(&self.shared))
    }

    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new().name("haul-rate".to_owned()).spawn(run);
        self.threads.push(thread.map_err(|error| Error::io(Side::Local, "start a thread", &error))?);
        Ok(())
    }
}

impl Drop for RateController {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Changes the plan of a [`RateController`].
#[derive(Clone)]
pub struct RateHandle(Arc<SharedRate>);

impl RateHandle {
    /// Replaces the plan.
    pub fn set(&self, plan: PlannedRate) {
        self.0.state.lock().plan = plan;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn wait_for(pace: &Pace, condition: impl Fn(Option<u64>) -> bool) {
        while !condition(pace.inbound.rate()) || !condition(pace.outbound.rate()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_plan_holds_from_the_start_until_it_is_replaced() {
        let pace = Pace::default();
        let controller = RateController::start(pace.clone(), Box::new(|| Some(7))).unwrap();
        assert_eq!(pace.outbound.rate(), Some(7));
        controller.handle().set(Box::new(|| None));
        wait_for(&pace, |rate| rate.is_none());
        controller.handle().set(Box::new(|| Some(9)));
        wait_for(&pace, |rate| rate == Some(9));
    }

    #[test]
    fn the_rate_falls_under_strain_and_rises_after_it() {
        const MIB: u64 = 1 << 20;
        let pace = Pace::default();
        let mut controller = RateController::start(pace.clone(), Box::new(|| Some(1000 * MIB))).unwrap();
        let strained = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&strained);
        controller.watch(Box::new(|| None)).unwrap();
        let pressure =
            move || Some(Pressure { io: u16::from(seen.load(Ordering::Relaxed)) * 500, cpu: 0, own: false });
        controller.watch(Box::new(pressure)).unwrap();
        // The rate of an idle run does not fall.
        let mover = pace.clone();
        wait_for(&pace, |rate| {
            mover.outbound.count(100_000);
            rate.is_some_and(|rate| rate < 1000 * MIB)
        });
        assert!(pace.yields.load(Ordering::Relaxed), "the strain is the cause");
        strained.store(false, Ordering::Relaxed);
        let low = pace.outbound.rate();
        wait_for(&pace, |rate| rate > low);
    }
}

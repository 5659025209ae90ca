//! What keeps a run's limits: looks once in a while which rate holds now.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use haul_core::{Error, Pace, Result, Side};

/// How often it looks.
const TICK: Duration = Duration::from_secs(1);

/// Tells the rate that holds now, in bytes per second; `None` is no limit.
pub type Plan = Box<dyn Fn() -> Option<u64> + Send>;

/// Sets the rates of a run by its plan, until it is dropped.
pub struct Governor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    pace: Pace,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    plan: Plan,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.ended {
            self.pace.set((state.plan)());
            state = self.wake.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
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
        let state = Mutex::new(State { plan, ended: false });
        let shared = Arc::new(Shared { pace, state, wake: Condvar::new() });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("haul-governor".to_owned()).spawn(move || own.run());
        let thread = thread.map_err(|error| Error::io(Side::Local, "start a thread", &error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A handle to change the plan with, from any thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
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

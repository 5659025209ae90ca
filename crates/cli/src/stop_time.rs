//! Stops a run at a time that the user set.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::Result;
use haul_engine::Cancel;
use haul_job::Observer;
use jiff::Timestamp;
use signal_hook::consts::SIGTERM;

use crate::args::LimitArgs;
use crate::render::Console;

/// How often the clock is read: it may be set meanwhile.
const TICK: Duration = Duration::from_millis(200);

/// Stops the run, as SIGTERM does, when the time of `--max-duration` or `--stop-at` has come.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn watch(limits: &LimitArgs, cancel: &Cancel, console: &Arc<Console>) -> Result<()> {
    let (longest, at) = (limits.max_duration, limits.stop_at);
    if longest.is_none() && at.is_none() {
        return Ok(());
    }
    let (cancel, console, began) = (cancel.clone(), Arc::clone(console), Instant::now());
    let watcher = move || {
        let option = loop {
            if longest.is_some_and(|longest| began.elapsed() >= longest) {
                break "--max-duration";
            }
            if at.is_some_and(|at| Timestamp::now() >= at) {
                break "--stop-at";
            }
            thread::sleep(TICK);
        };
        // A second signal would end the program at once.
        if !cancel.is_cancelled() {
            console.note(&format!("the time of {option} has come"));
            if signal_hook::low_level::raise(SIGTERM).is_err() {
                cancel.cancel();
            }
        }
    };
    thread::Builder::new()
        .name("stop time".to_owned())
        .spawn(watcher)
        .map_err(|error| haul_threads::refused(&error))?;
    Ok(())
}

//! The common start of commands, and commands for several locations.

use std::sync::Arc;

use haul_core::{Pace, Result};
use haul_engine::{Cancel, RateController};
use haul_job::{Ends, EndsConfig, Observer};

use crate::exit_code::Exit;
use crate::render::{Console, OutputSettings, Start, print_error};
use crate::signals;
use crate::values::Timetable;

/// Starts to show a run, and handles signals until the program ends.
///
/// # Errors
/// Those of [`Console::start`] and [`signals::watch`].
pub(super) fn start_run(output: OutputSettings, start: &Start) -> Result<(Arc<Console>, Cancel)> {
    let console = Console::start(output, start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    Ok((console, cancel))
}

/// The ends of a run, whose messages the console shows. Opens nothing yet.
pub(super) fn ends_of_run(config: EndsConfig, console: &Arc<Console>, cancel: &Cancel) -> Ends {
    let noted = Arc::clone(console);
    Ends::new(config, Arc::new(move |text| noted.note(text)), cancel.flag())
}

/// The limits of a rate that follows `plan` until the run is cancelled, and the thread that sets them until it is
/// dropped. An interrupted stream cannot keep its limit: it ends when the content on its way has passed.
///
/// # Errors
/// `Io` if the thread cannot be started.
pub(super) fn paced(plan: Option<&Timetable>, cancel: &Cancel) -> Result<(Pace, Option<RateController>)> {
    let pace = Pace::default();
    let Some(plan) = plan.cloned() else { return Ok((pace, None)) };
    let cancel = cancel.clone();
    let rate = move || plan.rate_now().filter(|_| !cancel.is_cancelled());
    let controller = RateController::start(pace.clone(), Box::new(rate))?;
    Ok((pace, Some(controller)))
}

/// Does `work` for each item. If there are several, the failure of one is printed.
pub(super) fn each<T>(all: &[T], mut work: impl FnMut(&T) -> Result<Exit>) -> Result<Exit> {
    let mut exit = Exit::Done;
    for one in all {
        match work(one) {
            Ok(Exit::Done) => {}
            Ok(other) => exit = other,
            Err(error) if all.len() == 1 => return Err(error),
            Err(error) => {
                print_error(&error);
                exit = Exit::Incomplete;
            }
        }
    }
    Ok(exit)
}

//! Ctrl-C: the first asks the run to finish what is in flight, the second ends the program at once.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::{Error, Result, Side};
use haul_engine::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit_code::Exit;
use crate::render::Console;

/// How long an interrupted run may take to end in order.
const PATIENCE: Duration = Duration::from_millis(4900);

/// Watches for SIGINT and SIGTERM until the program ends.
///
/// # Errors
/// If the handlers cannot be installed.
pub(crate) fn watch(cancel: &Cancel, console: &Arc<Console>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(Side::Local, "watch for signals", &error);
    // The handler itself sets the flag: whoever finds the other end of a pipe gone knows why.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, cancel.flag()).map_err(failed)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let console = Arc::clone(console);
    let watcher = move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        console.note("finishing what is in flight; again to stop at once");
        // An end that hangs must not hold the person up: what is durable by now is what the next run finds.
        let late = thread::Builder::new().name("patience".to_owned()).spawn(|| {
            thread::sleep(PATIENCE);
            end();
        });
        if late.is_err() || signals.next().is_some() {
            end();
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
    Ok(())
}

/// Ends the program, and the ssh processes that it has started: they do not hear of Ctrl-C themselves.
fn end() -> ! {
    haul_backends::peer::ssh::abandon();
    signal_hook::low_level::exit(i32::from(Exit::Interrupted as u8))
}

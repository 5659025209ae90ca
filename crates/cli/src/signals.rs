//! Ctrl-C: the first asks the run to finish what is in flight, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use haul_core::{Error, Result, Side};
use haul_engine::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit_code::Exit;
use crate::render::Console;

/// Watches for SIGINT and SIGTERM until the program ends.
///
/// # Errors
/// If the handlers cannot be installed.
pub(crate) fn watch(cancel: &Cancel, console: &Arc<Console>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(Side::Local, "watch for signals", &error);
    // The handler itself ends the program at the second signal, whatever the threads are waiting for.
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, i32::from(Exit::Interrupted as u8), Arc::clone(&asked))
            .map_err(failed)?;
        flag::register(signal, Arc::clone(&asked)).map_err(failed)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (cancel, console) = (cancel.clone(), Arc::clone(console));
    let watcher = move || {
        if signals.forever().next().is_some() {
            cancel.cancel();
            console.note("finishing what is in flight; again to stop at once");
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
    Ok(())
}

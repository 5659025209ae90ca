//! Signals. The first SIGINT, SIGTERM or SIGHUP asks the run to finish what is in flight, a second SIGINT or SIGTERM ends
//! the program at once; SIGUSR1 asks where the run stands.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::{Error, Result, Side};
use haul_engine::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::exit_code::Exit;
use crate::render::Console;

/// How long an interrupted run may take to end in order.
const PATIENCE: Duration = Duration::from_millis(4900);

/// Watches for signals until the program ends.
///
/// # Errors
/// If the handlers cannot be installed.
pub(crate) fn watch(cancel: &Cancel, console: &Arc<Console>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(Side::Local, "watch for signals", &error);
    let mut ending = vec![SIGINT, SIGTERM];
    // Under nohup the end of the terminal is to change nothing.
    if !is_ignored(SIGHUP) {
        ending.push(SIGHUP);
    }
    // The handler itself sets the flag: whoever finds the other end of a pipe gone knows why.
    for signal in &ending {
        signal_hook::flag::register(*signal, cancel.flag()).map_err(failed)?;
    }
    let mut signals = Signals::new(ending.into_iter().chain([SIGUSR1])).map_err(failed)?;
    let console = Arc::clone(console);
    let watcher = move || {
        let mut draining = false;
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => console.status(),
                // A terminal that goes away says so more than once, and a service manager says so after SIGTERM.
                SIGHUP if draining => {}
                _ if draining => end(),
                _ => {
                    draining = true;
                    console.note("finishing what is in flight; again to stop at once");
                    // An end that hangs must not hold the person up: what is durable by now is what the next run finds.
                    let late = thread::Builder::new().name("patience".to_owned()).spawn(|| {
                        thread::sleep(PATIENCE);
                        end();
                    });
                    if late.is_err() {
                        end();
                    }
                }
            }
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watcher)
        .map_err(|e| haul_threads::refused(&e))?;
    Ok(())
}

/// Whether the program was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Ends the program, and the ssh processes that it has started: they do not hear of Ctrl-C themselves.
fn end() -> ! {
    haul_ssh::abandon();
    signal_hook::low_level::exit(i32::from(Exit::Interrupted as u8))
}

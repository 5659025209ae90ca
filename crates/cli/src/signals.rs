//! Signals. The first SIGINT, SIGTERM or SIGHUP stops the run after the blocks in flight, a second SIGINT or SIGTERM ends
//! the program at once; SIGUSR1 shows the progress.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, Result, Side};
use haul_engine::Cancel;
use haul_job::Observer;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::exit_code::Exit;
use crate::render::Console;

/// Maximum time of an orderly end after an interruption.
const TIMEOUT: Duration = Duration::from_millis(4900);

/// How long the removal of the progress may delay the end.
const ERASURE: Duration = Duration::from_millis(200);

/// Handles signals until the program ends.
///
/// # Errors
/// If a handler or the thread cannot be started.
pub(crate) fn watch(cancel: &Cancel, console: &Arc<Console>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(Side::Local, "watch for signals", &error);
    let mut ending = vec![SIGINT, SIGTERM];
    // nohup ignores SIGHUP, and so does haul then.
    if !is_ignored(SIGHUP) {
        ending.push(SIGHUP);
    }
    // The handler itself sets the flag, so that a broken pipe that follows counts as interrupted.
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
                // A closing terminal may send SIGHUP several times, and a service manager after SIGTERM.
                SIGHUP if draining => {}
                _ if draining => end(&console),
                _ => {
                    draining = true;
                    console.note("stopping; press Ctrl-C again to quit at once");
                    // A hung file system must not delay the end: the next run resumes from durable data.
                    let shown = Arc::clone(&console);
                    let late = thread::Builder::new().name("timeout".to_owned()).spawn(move || {
                        thread::sleep(TIMEOUT);
                        end(&shown);
                    });
                    if late.is_err() {
                        end(&console);
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

/// Whether the signal was ignored when the program started.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Ends the program and its ssh processes, which do not receive Ctrl-C themselves.
fn end(console: &Arc<Console>) -> ! {
    // A terminal that takes no output must not delay the end.
    let shown = Arc::clone(console);
    if let Ok(removal) = thread::Builder::new().name("end".to_owned()).spawn(move || shown.abandon()) {
        let begun = Instant::now();
        while !removal.is_finished() && begun.elapsed() < ERASURE {
            thread::sleep(Duration::from_millis(5));
        }
    }
    haul_ssh::abandon();
    signal_hook::low_level::exit(i32::from(Exit::Interrupted as u8))
}

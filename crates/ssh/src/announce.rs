//! Tells the person that a login takes long.

use std::sync::Weak;
use std::thread;
use std::time::Duration;

use super::process::SshProcess;
use haul_core::Note;

/// How long a login may take before haul tells the user that it waits for it.
const QUIET: Duration = Duration::from_secs(2);
/// How often the process is checked meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Says once that haul connects to `name`, unless the login is quick or asks a question. A question must stay on the
/// screen until it is answered.
pub(super) fn announce(process: Weak<SshProcess>, note: Note, name: String) {
    let watch = move || {
        let mut waited = Duration::ZERO;
        while waited < QUIET {
            thread::sleep(LOOK);
            waited += LOOK;
            let Some(process) = process.upgrade() else { return };
            if process.is_settled() || process.is_silent() || process.is_asking() {
                return;
            }
        }
        note(&format!("connecting to {name} …"));
    };
    // Without the thread, only this line is missing.
    let _ = thread::Builder::new().name("haul-announce".to_owned()).spawn(watch);
}

//! `--nice`: watches the pressure on all hosts of a job, so that it yields to other work.

use std::sync::Arc;

use haul_core::{Note, Pressure, Result};
use haul_engine::RateController;
use haul_local::Nice;

use super::ends::Ends;

/// Moves the rate controller into `ends`, so that it lives until they are dropped. With `nice`, lowers the priority of this
/// process, and that of each remote haul when its session opens, and lets the rate controller watch their hosts.
///
/// # Errors
/// If a thread cannot be started.
pub(crate) fn watch(mut controller: RateController, nice: bool, note: Note, ends: &mut Ends) -> Result<()> {
    if nice {
        // Before any ssh starts, because it inherits the priority of this process.
        let mut local = Nice::begin();
        let mut host = WatchedHost::new("this host".to_owned(), &note);
        controller.watch(Box::new(move || host.checked(local.pressure())))?;
    }
    ends.on_session(Box::new(move |host, peer| {
        if !nice {
            return Ok(());
        }
        // The rate controller must not keep the session open.
        let peer = Arc::downgrade(peer);
        let mut host = WatchedHost::new(host.to_string(), &note);
        // Without a connection the pressure is unknown.
        controller.watch(Box::new(move || host.checked(peer.upgrade()?.nice().ok()?)))
    }));
    Ok(())
}

/// A host whose pressure is watched. Reports once if its kernel has no figures.
struct WatchedHost {
    name: String,
    note: Option<Note>,
}

impl WatchedHost {
    fn new(name: String, note: &Note) -> Self {
        Self { name, note: Some(Arc::clone(note)) }
    }

    fn checked(&mut self, pressure: Option<Pressure>) -> Option<Pressure> {
        if pressure.is_none()
            && let Some(note) = self.note.take()
        {
            let name = &self.name;
            note(&format!(
                "--nice: the kernel of {name} does not report pressure (PSI): haul only lowers its priority there"
            ));
        }
        pressure
    }
}

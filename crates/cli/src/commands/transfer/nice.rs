//! `--nice`: the machines of a run, watched so that it gives way to others there.

use std::sync::Arc;

use haul_core::{Pressure, Result};
use haul_engine::RateController;
use haul_local::Nice;

use crate::ends::{Ends, Note};

/// Gives the governor to the ends, for as long as they are open; if the run is to be nice, it is on this machine from
/// now on, and on each other one once there is a session.
///
/// # Errors
/// If a thread cannot be started.
pub(super) fn settle(mut governor: RateController, nice: bool, note: Note, ends: &mut Ends) -> Result<()> {
    if nice {
        // Before any ssh is started, which takes its priority from this process.
        let mut here = Nice::begin();
        let mut told = Told::new("this machine".to_owned(), &note);
        governor.watch(Box::new(move || told.pass(here.pressure())))?;
    }
    ends.greet(Box::new(move |host, peer| {
        if !nice {
            return Ok(());
        }
        // The session ends with the run, not with who asks.
        let peer = Arc::downgrade(peer);
        let mut told = Told::new(host.to_string(), &note);
        // While there is no connection there is no answer, and nothing is known.
        governor.watch(Box::new(move || told.pass(peer.upgrade()?.nice().ok()?)))
    }));
    Ok(())
}

/// Says once where nothing can be known.
struct Told {
    name: String,
    note: Option<Note>,
}

impl Told {
    fn new(name: String, note: &Note) -> Self {
        Self { name, note: Some(Arc::clone(note)) }
    }

    fn pass(&mut self, pressure: Option<Pressure>) -> Option<Pressure> {
        if pressure.is_none()
            && let Some(note) = self.note.take()
        {
            let name = &self.name;
            note(&format!(
                "--nice: the kernel of {name} does not tell who waits (PSI): only priorities are low there"
            ));
        }
        pressure
    }
}

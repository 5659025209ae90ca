//! Warns about file systems that do not answer.

use std::time::{Duration, Instant};

use haul_core::HungOperation;

use crate::run::Run;

/// How often the ends are asked.
const CHECK: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 500 });

/// Asks the ends about operations without an answer, and warns once about each.
pub(crate) struct HungWatch {
    /// The operation of the last warning.
    warned: Option<HungOperation>,
    checked: Instant,
}

impl HungWatch {
    pub(crate) fn new() -> Self {
        Self { warned: None, checked: Instant::now() }
    }

    /// Asks and warns, if the last time is long enough ago.
    pub(crate) fn tick(&mut self, run: &Run<'_>) {
        if self.checked.elapsed() >= CHECK {
            self.checked = Instant::now();
            self.check(run);
        }
    }

    fn check(&mut self, run: &Run<'_>) {
        let mut hung = run.source.hung(run.timeout);
        hung.append(&mut run.sink.hung(run.timeout));
        let Some(first) = hung.first() else { return };
        if self.warned.as_ref() == Some(first) {
            return;
        }
        let more = match hung.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let (operation, path) = (&first.operation, haul_core::path::printable(&first.path));
        let seconds = run.timeout.as_secs();
        run.meter.warn(&format!(
            "no answer from the file system for {seconds} s: {operation} {path}{more}; waiting, and going on with the rest"
        ));
        self.warned = Some(first.clone());
    }
}

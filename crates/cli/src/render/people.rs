//! Shows a run as text: progress, messages, failures and the summary on standard error, entries and differences on
//! standard output.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use haul_core::event::{Action, Done};
use haul_core::{Error, Progress};

use super::differences::Difference;
use super::gauge::ProgressGauge;
use super::itemize::Items;
use super::lines::OutputLines;
use super::plan::Planned;
use super::print::say;
use super::probe::{Diagnosis, Measurement};
use super::summary::Summary;
use super::view::{RunView, Start};
use super::wording::{bytes, past, planned, shown};

/// Shows a run as text.
pub(super) struct People {
    lines: Arc<OutputLines>,
    gauge: Box<dyn ProgressGauge>,
    dry_run: bool,
    /// Changes are listed as rsync does.
    items: Option<Items>,
    /// Standard output is a terminal, which progress shares.
    terminal: bool,
}

impl People {
    /// Shows progress on `gauge`; with `items`, lists changes as rsync does.
    pub(super) fn new(
        lines: Arc<OutputLines>,
        gauge: Box<dyn ProgressGauge>,
        dry_run: bool,
        items: Option<Items>,
    ) -> Self {
        Self { lines, gauge, dry_run, items, terminal: io::stdout().is_terminal() }
    }

    fn line(&self, text: &str) {
        let mut print = || self.lines.write(text.as_bytes());
        if self.terminal {
            self.gauge.aside(&mut print);
        } else {
            print();
        }
    }

    fn tell(&self, text: &str) {
        self.gauge.aside(&mut || say(text));
    }
}

/// The line for a difference.
pub(super) fn difference_line(difference: Difference, name: &[u8], detail: &str) -> String {
    let name = shown(name);
    match difference {
        Difference::Missing => format!("missing  {name}"),
        Difference::Differs => format!("differs  {name}: {detail}"),
        Difference::Metadata => format!("metadata {name}: {detail}"),
        Difference::Extra => format!("extra    {name}"),
    }
}

impl RunView for People {
    fn start(&self, _start: &Start) {}

    fn progress(&self, progress: &Progress, file: Option<&[u8]>) {
        self.gauge.show(progress, file);
        self.lines.flush();
    }

    fn entry(&self, name: &[u8], done: Done<'_>) {
        if let Some(items) = self.items {
            items.line(name, done).iter().for_each(|line| self.line(&format!("{line}\n")));
            return;
        }
        if done.action == Action::Same {
            // As the lines of differences.
            self.line(&format!("equal    {}\n", shown(name)));
            return;
        }
        let verb = if self.dry_run { planned(done.action) } else { past(done.action) };
        let size = if done.len > 0 { bytes(done.len) } else { String::new() };
        self.line(&format!("{verb:<8} {size:>10}  {}\n", shown(name)));
    }

    fn failed(&self, name: &[u8], error: &Error, live: bool) {
        if live {
            // Adds the name if the error does not contain it.
            let named = !error.subject().is_empty();
            let prefix = if named { String::new() } else { format!("{}: ", shown(name)) };
            self.tell(&format!("haul: {prefix}{error}\n"));
        }
    }

    fn difference(&self, difference: Difference, name: &[u8], detail: &str) {
        self.line(&format!("{}\n", difference_line(difference, name, detail)));
    }

    fn bad_page(&self, name: &[u8], page: u64) {
        self.tell(&format!("haul: bad page: {} page {page}\n", shown(name)));
    }

    fn note(&self, text: &str) {
        self.tell(&format!("haul: {text}\n"));
    }

    fn measurement(&self, measurement: &Measurement) {
        self.line(&measurement.text());
    }

    fn planned(&self, planned: &Planned) {
        self.line(&planned.text());
    }

    fn diagnosis(&self, diagnosis: &Diagnosis) {
        self.line(&diagnosis.text());
    }

    fn abandon(&self) {
        self.gauge.close();
    }

    fn summary(&self, summary: &Summary) {
        self.gauge.close();
        self.lines.flush();
        say(&summary.text());
    }
}

//! One part of a run, seen as part of the whole: names as they are in the transfer, counts on top of those before.

use haul_core::{Event, Limit, Pace, Progress, RelPath, Reporter, Totals};
use haul_store::Bill;

use super::Console;

/// Reports on the copy of one source among several.
pub(crate) struct PartReporter<'a> {
    /// Where it is shown.
    pub(crate) console: &'a Console,
    /// The name that the source's root bears in the transfer; empty where it has none.
    pub(crate) root_name: &'a [u8],
    /// The counts of the parts before.
    pub(crate) before: Totals,
    /// Whether no part comes after it.
    pub(crate) last: bool,
    /// Paths come from a list: what fails at the root itself is a line of the list, which the error names.
    pub(crate) listed: bool,
    /// The limits on the run.
    pub(crate) pace: Option<&'a Pace>,
    /// With `-n`, what a store will be asked.
    pub(crate) bill: Option<&'a Bill>,
}

impl PartReporter<'_> {
    /// Whether so many bytes per second are about what is allowed. Below, something else holds the run back.
    fn at_limit(&self, rate: f64) -> bool {
        let allowed = self.pace.and_then(|pace| pace.outbound.rate());
        allowed.is_some_and(|allowed| rate >= allowed as f64 * 0.85)
    }

    /// The name of a path of this part in the transfer.
    pub(crate) fn name(&self, path: &RelPath) -> Vec<u8> {
        match (self.root_name, path.as_bytes()) {
            (root, []) => root.to_vec(),
            ([], path) => path.to_vec(),
            (root, path) => [root, b"/", path].concat(),
        }
    }
}

impl Reporter for PartReporter<'_> {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                let mut totals = self.before;
                totals.add(&progress.totals);
                let scan_done = progress.scan_done && self.last;
                let limit = if progress.limit != Limit::Room && self.at_limit(progress.rate) {
                    Limit::Rate
                } else {
                    progress.limit
                };
                self.console.progress(&Progress { totals, scan_done, limit, ..*progress });
            }
            Event::Entry { action, path, len } => {
                self.bill.iter().for_each(|bill| bill.entry(*action, *len));
                self.console.entry(*action, &self.name(path), *len);
            }
            Event::Failed(failure) if self.listed && failure.path.is_root() || failure.has_no_path() => {
                self.console.failed(failure.error.subject(), &failure.error);
            }
            Event::Failed(failure) => self.console.failed(&self.name(&failure.path), &failure.error),
            Event::Note(text) => self.console.note(text),
            Event::Warning(text) => self.console.warn(text),
        }
    }
}

//! The interface of the text and JSON output.

use std::sync::Arc;

use haul_core::event::Done;
use haul_core::{Error, Progress};

use super::differences::Difference;
use super::plan::Planned;
use super::probe::{Diagnosis, Measurement};
use super::summary::{Summary, SummaryCommand};
use crate::jobs::Job;

/// The description of a run at its start.
pub(crate) struct Start {
    /// The command.
    pub(crate) command: SummaryCommand,
    /// The sources, as text.
    pub(crate) sources: Vec<String>,
    /// The destination, if there is one.
    pub(crate) destination: Option<String>,
    /// The record of the run, if it has one.
    pub(crate) job: Option<Arc<Job>>,
}

impl Start {
    /// A run from one source that has no record.
    pub(crate) fn new(command: SummaryCommand, source: String, destination: Option<String>) -> Self {
        Self { command, sources: vec![source], destination, job: None }
    }
}

/// Shows a run. Names are the bytes of the names in the transfer.
pub(super) trait RunView: Send + Sync {
    /// The run starts.
    fn start(&self, start: &Start);
    /// The progress, and the file that is being copied.
    fn progress(&self, progress: &Progress, file: Option<&[u8]>);
    /// An entry was handled; in a dry run, would be.
    fn entry(&self, name: &[u8], done: Done<'_>);
    /// An entry failed; `live`: show it at once.
    fn failed(&self, name: &[u8], error: &Error, live: bool);
    /// Shows a difference between source and destination.
    fn difference(&self, difference: Difference, name: &[u8], detail: &str);
    /// A page of a database file does not match its checksum.
    fn bad_page(&self, name: &[u8], page: u64);
    /// A message for the user.
    fn note(&self, text: &str);
    /// Shows the result of a probe.
    fn measurement(&self, measurement: &Measurement);
    /// Shows an analysed tree.
    fn planned(&self, planned: &Planned);
    /// Shows the findings of `probe --doctor`.
    fn diagnosis(&self, diagnosis: &Diagnosis);
    /// The program ends at once, without a summary.
    fn abandon(&self) {}
    /// Records the end of the run.
    fn summary(&self, summary: &Summary);
}

//! Everything that is printed: for people on standard error, for programs as JSON on standard output.
//!
//! Nothing here fails: who closes standard output early loses what is said, not the run.

mod console;
mod estimates;
mod failures;
mod gauge;
mod jobs;
mod json;
mod lines;
mod objects;
mod part;
mod people;
mod plain;
mod plan;
mod probe;
mod requests;
mod summary;
mod tty;
mod wording;

use std::io::{self, Write};
use std::sync::Arc;

use haul_core::event::Action;
use haul_core::{Error, Progress};

use crate::jobs::Job;

pub(crate) use console::{Console, OutputSettings, Showing};
pub(crate) use estimates::{estimate_json, estimate_line};
pub(crate) use jobs::JobLines;
pub(crate) use lines::Lines;
pub(crate) use objects::{object_json, object_line, prefix_json, prefix_line, removed_line, upload_line};
pub(crate) use part::PartReporter;
pub(crate) use plan::{Estimated, Planned};
pub(crate) use probe::{Diagnosis, Measurement, NamedLink};
pub(crate) use requests::RequestCounts;
pub(crate) use summary::{Command, Stored, Summary};

/// A difference between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Difference {
    /// The destination lacks it.
    Missing,
    /// The content differs.
    Differs,
    /// Only the destination has it.
    Extra,
}

/// What is being run, told at its beginning.
pub(crate) struct Start {
    /// The command.
    pub(crate) command: Command,
    /// The sources, as a person reads them.
    pub(crate) sources: Vec<String>,
    /// The destination, where there is one.
    pub(crate) destination: Option<String>,
    /// The record of the run, if one is kept.
    pub(crate) job: Option<Arc<Job>>,
}

/// One way to show a run. Names are bytes, as they are in the transfer.
trait View: Send + Sync {
    /// The run begins.
    fn start(&self, start: &Start);
    /// Where it stands.
    fn progress(&self, progress: &Progress);
    /// One entry was dealt with, or would be.
    fn entry(&self, action: Action, name: &[u8], len: u64);
    /// One entry failed; `live` is whether a person should see it at once.
    fn failed(&self, name: &[u8], error: &Error, live: bool);
    /// Two ends differ.
    fn difference(&self, difference: Difference, name: &[u8], detail: &str);
    /// A sentence for the person.
    fn note(&self, text: &str);
    /// What a probe measured.
    fn measurement(&self, measurement: &Measurement);
    /// What is in a tree.
    fn planned(&self, planned: &Planned);
    /// What the doctor found.
    fn diagnosis(&self, diagnosis: &Diagnosis);
    /// The run has ended.
    fn summary(&self, summary: &Summary);
}

/// Prints an error and the way out to standard error.
pub(crate) fn print_error(error: &Error) {
    let mut text = format!("haul: {error}\n");
    if let Some(hint) = error.hint() {
        text.push_str(&format!("hint: {hint}\n"));
    }
    say(&text);
}

/// Prints one line about the command line to standard error. What it quotes of that is escaped.
pub(crate) fn print_line(line: &str) {
    say(&format!("haul: {}\n", haul_core::path::printable(line.as_bytes())));
}

/// Writes to standard error; if nobody reads it, nobody misses it.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

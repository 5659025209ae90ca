//! A run as JSON Lines. `docs/JSON.md` specifies the format.

mod line;
mod name;
mod plan;
mod probe;

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use line::line;
pub(super) use name::JsonName;
pub(crate) use probe::Cpu;

use haul_core::event::{Action, Content, Done};
use haul_core::{Error, ErrorKind, MetaNote, PageCounts, Phase, Progress, Side, Totals};
use haul_job::RequestCounts;
use haul_probe::doctor::Finding;
use haul_probe::model::Estimate;
use serde::Serialize;
use serde_json::Value;

use super::differences::{Difference, Differences};
use super::failure_group::cause_of;
use super::lines::OutputLines;
use super::plan::Planned;
use super::print::say;
use super::probe::{Diagnosis, Measurement, NamedLink};
use super::summary::SummaryCommand;
use super::summary::{StoredEncoding, Summary};
use super::view::{RunView, Start};
use crate::manifest::WrittenManifest;

/// Version of the format. It changes when a field is removed or changes its meaning.
const SCHEMA: u32 = 1;

/// Interval between lines of progress.
const PERIOD: Duration = Duration::from_secs(1);

/// JSON lines on standard output.
pub(super) struct Json {
    lines: Arc<OutputLines>,
    dry_run: bool,
    with_progress: bool,
    shown: Mutex<Option<Instant>>,
}

#[derive(Serialize)]
struct FailedLine {
    kind: ErrorKind,
    side: Side,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl FailedLine {
    fn new(error: &Error) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { kind: error.kind(), side: error.side(), message: error.to_string(), hint }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RunLine<'a> {
    Start {
        schema: u32,
        version: &'static str,
        command: SummaryCommand,
        sources: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        destination: Option<&'a str>,
        dry_run: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<u64>,
    },
    Progress {
        #[serde(flatten)]
        progress: &'a Progress,
        #[serde(skip_serializing_if = "Option::is_none")]
        in_flight: Option<JsonName>,
    },
    Entry {
        action: Action,
        #[serde(flatten)]
        name: JsonName,
        changes: Vec<&'static str>,
        len: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        blake3: Option<String>,
    },
    Failed {
        #[serde(flatten)]
        name: JsonName,
        error: FailedLine,
    },
    Difference {
        difference: Difference,
        #[serde(flatten)]
        name: JsonName,
        #[serde(skip_serializing_if = "str::is_empty")]
        detail: &'a str,
    },
    BadPage {
        #[serde(flatten)]
        name: JsonName,
        page: u64,
    },
    Note {
        text: &'a str,
    },
    Probe {
        source: probe::SourceLine,
        links: &'a [NamedLink],
        destination: probe::Destination<'a>,
        tree: probe::TreeLine<'a>,
        estimate: &'a Estimate,
        choice: probe::ChoiceLine,
        run: &'a str,
    },
    Plan(Box<plan::PlanLine<'a>>),
    Finding {
        end: &'a str,
        #[serde(flatten)]
        finding: &'a Finding,
    },
    Summary {
        command: SummaryCommand,
        dry_run: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<u64>,
        exit_code: u8,
        interrupted: bool,
        seconds: f64,
        totals: &'a Totals,
        corrupt: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        differences: Option<Differences>,
        failures: Vec<FailuresLine<'a>>,
        metadata: Vec<MetadataLine<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<MetadataLine<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        requests: Option<RequestCounts>,
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate: Option<RequestCounts>,
        #[serde(skip_serializing_if = "Option::is_none")]
        stored: Option<&'a StoredEncoding>,
        #[serde(skip_serializing_if = "Option::is_none")]
        blake3: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<IndexUse>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pages: Option<PageCounts>,
        #[serde(skip_serializing_if = "Option::is_none")]
        not_removed: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        manifest: Option<&'a WrittenManifest>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<FailedLine>,
    },
}

#[derive(Serialize)]
struct IndexUse {
    #[serde(rename = "folders_read")]
    directories_read: u64,
    #[serde(rename = "folders_known")]
    directories_known: u64,
    oldest_seconds: u64,
}

#[derive(Serialize)]
struct FailuresLine<'a> {
    kind: ErrorKind,
    cause: &'a str,
    count: u64,
    first: Vec<JsonName>,
}

#[derive(Serialize)]
struct MetadataLine<'a> {
    what: &'a str,
    cause: &'a str,
    count: u64,
    #[serde(flatten)]
    example: JsonName,
}

impl<'a> MetadataLine<'a> {
    fn new(note: &'a MetaNote) -> Self {
        let example = JsonName::new(note.example.as_bytes());
        Self { what: &note.what, cause: &note.cause, count: note.count, example }
    }
}

impl Json {
    /// Writes to `lines`.
    pub(super) fn new(lines: Arc<OutputLines>, dry_run: bool, with_progress: bool) -> Self {
        Self { lines, dry_run, with_progress, shown: Mutex::new(None) }
    }

    fn write(&self, line: &RunLine<'_>) {
        // A line can always be serialized: all map keys are text.
        if let Ok(text) = line::line(line) {
            self.lines.write(&text);
        }
    }

    fn write_now(&self, line: &RunLine<'_>) {
        self.write(line);
        self.lines.flush();
    }
}

impl RunView for Json {
    fn start(&self, start: &Start) {
        self.write_now(&RunLine::Start {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            command: start.command,
            sources: &start.sources,
            destination: start.destination.as_deref(),
            dry_run: self.dry_run,
            job: start.job.as_ref().map(|job| job.id()),
        });
    }

    fn progress(&self, progress: &Progress, file: Option<&[u8]>) {
        let mut shown = self.shown.lock();
        if !self.with_progress || shown.is_some_and(|at| at.elapsed() < PERIOD) {
            self.lines.flush();
            return;
        }
        *shown = Some(Instant::now());
        let in_flight = file.filter(|_| progress.phase == Phase::Copy).map(JsonName::new);
        self.write_now(&RunLine::Progress { progress, in_flight });
    }

    fn entry(&self, name: &[u8], done: Done<'_>) {
        let blake3 = match done.content {
            Content::Digest(digest) => Some(digest.to_string()),
            Content::OfName(_) | Content::Unknown => None,
        };
        let Done { action, len, .. } = done;
        let changes = done.changes.words().collect();
        self.write(&RunLine::Entry { action, name: JsonName::new(name), changes, len, blake3 });
    }

    fn failed(&self, name: &[u8], error: &Error, _live: bool) {
        self.write(&RunLine::Failed { name: JsonName::new(name), error: FailedLine::new(error) });
    }

    fn difference(&self, difference: Difference, name: &[u8], detail: &str) {
        self.write(&RunLine::Difference { difference, name: JsonName::new(name), detail });
    }

    fn bad_page(&self, name: &[u8], page: u64) {
        self.write(&RunLine::BadPage { name: JsonName::new(name), page });
    }

    fn note(&self, text: &str) {
        self.write_now(&RunLine::Note { text });
    }

    fn measurement(&self, measurement: &Measurement) {
        self.write_now(&RunLine::Probe {
            source: probe::SourceLine::new(&measurement.source),
            links: &measurement.links,
            destination: probe::Destination::new(&measurement.destination),
            tree: probe::TreeLine::new(measurement),
            estimate: &measurement.estimate,
            choice: probe::ChoiceLine::new(measurement),
            run: &measurement.command,
        });
    }

    fn planned(&self, planned: &Planned) {
        self.write_now(&RunLine::Plan(Box::new(plan::PlanLine::new(planned))));
    }

    fn diagnosis(&self, diagnosis: &Diagnosis) {
        for (end, finding) in &diagnosis.rows {
            self.write_now(&RunLine::Finding { end, finding });
        }
    }

    fn summary(&self, summary: &Summary) {
        let report = &summary.report;
        if let Some(error) = report.fatal.as_ref().filter(|error| is_news(error, summary)) {
            self.failed(error.subject(), error, false);
        }
        self.write_now(&summary_line(summary));
        // A user who redirects standard output still sees the fatal error.
        if let Some(error) = &report.fatal {
            say(&format!("haul: {error}\n"));
        }
        summary.unwritten().for_each(|line| say(&format!("{line}\n")));
    }
}

/// Whether the error that ended the run is a failure of which no line tells yet.
fn is_news(error: &Error, summary: &Summary) -> bool {
    let cause = cause_of(error);
    error.kind() != ErrorKind::Cancelled && summary.groups.iter().all(|group| group.cause != cause)
}

/// The summary line, for the record of the run.
pub(super) fn summary(summary: &Summary) -> Value {
    // A summary can always be serialized.
    serde_json::to_value(summary_line(summary)).unwrap_or_default()
}

fn summary_line(summary: &Summary) -> RunLine<'_> {
    let report = &summary.report;
    let differences = (summary.command == SummaryCommand::Verify).then_some(summary.differences);
    let failures = summary.groups.iter().map(|group| FailuresLine {
        kind: group.kind,
        cause: &group.cause,
        count: group.count,
        first: group.names.iter().map(|name| JsonName::new(name)).collect(),
    });
    RunLine::Summary {
        command: summary.command,
        dry_run: summary.dry_run,
        job: summary.job,
        exit_code: summary.exit as u8,
        interrupted: report.interrupted,
        seconds: report.seconds,
        totals: &report.totals,
        corrupt: report.corrupt,
        differences,
        failures: failures.collect(),
        metadata: report.notes.iter().map(MetadataLine::new).collect(),
        left_out: report.left_out.iter().map(MetadataLine::new).collect(),
        requests: summary.requests,
        estimate: summary.estimate,
        stored: summary.stored.as_ref(),
        blake3: summary.digest.map(|digest| digest.to_string()),
        index: summary.index.map(|index| IndexUse {
            directories_read: index.listed,
            directories_known: index.from_index,
            oldest_seconds: index.oldest.as_secs(),
        }),
        pages: report.pages,
        not_removed: report.not_removed.as_deref(),
        manifest: summary.manifest.as_ref().and_then(|manifest| manifest.as_ref().ok()),
        error: report.fatal.as_ref().map(FailedLine::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &RunLine<'_>) -> String {
        serde_json::to_string(line).unwrap()
    }

    #[test]
    fn names_have_bytes_if_they_are_not_text() {
        let entry = |name: &[u8]| {
            let (name, changes) = (JsonName::new(name), vec!["size"]);
            text(&RunLine::Entry { action: Action::Copied, name, changes, len: 3, blake3: None })
        };
        assert_eq!(
            entry(b"a\nb"),
            r#"{"type":"entry","action":"copied","path":"a\nb","changes":["size"],"len":3}"#
        );
        assert_eq!(
            entry(b"a\xff"),
            r#"{"type":"entry","action":"copied","path":"a\\xff","path_bytes":[97,255],"changes":["size"],"len":3}"#
        );
        assert_eq!(entry(b""), r#"{"type":"entry","action":"copied","path":".","changes":["size"],"len":3}"#);
    }

    #[test]
    fn a_failure_has_kind_side_and_message() {
        let error =
            Error::new(ErrorKind::PermissionDenied, Side::Source, "read", "no").on("a").with_hint("h");
        let line = RunLine::Failed { name: JsonName::new(b"a"), error: FailedLine::new(&error) };
        let expected = concat!(
            r#"{"type":"failed","path":"a","error":{"kind":"permission_denied","side":"source","#,
            r#""message":"failed to read `a` (source): no","hint":"h"}}"#
        );
        assert_eq!(text(&line), expected);
    }
}

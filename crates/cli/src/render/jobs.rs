//! The records of jobs, on standard output.

use haul_core::Result;
use haul_core::text::one_line;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::lines::OutputLines;
use super::wording::{bytes, duration};
use crate::exit_code::Exit;
use crate::jobs::{JobRecord, JobState};

/// Prints records.
pub(crate) struct JobLines {
    lines: OutputLines,
    json: bool,
}

/// A record as JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename = "job")]
struct JobLine<'a> {
    state: JobState,
    #[serde(flatten)]
    record: &'a JobRecord,
}

impl JobLines {
    /// Prints text or JSON.
    pub(crate) fn new(json: bool) -> Self {
        Self { lines: OutputLines::stdout(), json }
    }

    /// All records, the newest last.
    pub(crate) fn list(&self, records: &[JobRecord]) -> Result<Exit> {
        if self.json {
            for record in records {
                self.write_json(record);
            }
            return self.end();
        }
        let width = records.iter().map(|record| record.id.to_string().len()).max().unwrap_or(1).max(2);
        if !records.is_empty() {
            let head = ["STATE", "STARTED", "TOOK", "SENT", "COMMAND"];
            let [state, started, took, sent, command] = head;
            self.write(&format!(
                "{:>width$}  {state:<11}  {started:<16}  {took:>9}  {sent:>10}  {command}",
                "ID"
            ));
        }
        for record in records {
            let state = match (record.state(), record.exit_code) {
                (JobState::Failed, Some(code)) => format!("failed ({code})"),
                (state, _) => word(state).to_owned(),
            };
            let sent = bytes(record.totals.sent_bytes);
            self.write(&format!(
                "{:>width$}  {state:<11}  {:<16}  {:>9}  {sent:>10}  {}",
                record.id,
                local(&record.started, "%Y-%m-%d %H:%M"),
                duration(seconds(record)),
                line(record),
            ));
        }
        self.end()
    }

    /// One record, with its summary.
    pub(crate) fn show(&self, record: &JobRecord) -> Result<Exit> {
        if self.json {
            self.write_json(record);
            return self.end();
        }
        let state = record.state();
        let format = "%Y-%m-%d %H:%M:%S %Z";
        self.write(&format!("job {}: {}", record.id, word(state)));
        self.write(&format!("  command: {}", line(record)));
        self.write(&format!("  in: {}", one_line(&*record.directory)));
        self.write(&format!("  by: process {} on {}", record.process.pid, one_line(&*record.process.host)));
        self.write(&format!("  started: {}", local(&record.started, format)));
        if let Some(ended) = &record.ended {
            self.write(&format!("  ended: {}", local(ended, format)));
        }
        if let Some(code) = record.exit_code {
            self.write(&format!("  exit code: {code}"));
        }
        match &record.text {
            // Older versions of haul stored text that may contain control characters.
            Some(text) => text.trim_end().lines().for_each(|line| self.write(&one_line(line))),
            None => {
                let totals = &record.totals;
                let sent = bytes(totals.sent_bytes);
                self.write(&format!("  so far: {} files copied, {sent} sent", totals.copied));
            }
        }
        if state == JobState::Interrupted && record.text.is_none() {
            self.write("it was killed; run the same command again to resume");
        }
        self.end()
    }

    /// Confirms a changed limit.
    pub(crate) fn limited(&self, id: u64, rate: &str) -> Result<Exit> {
        self.write(&match rate {
            "off" | "0" => format!("job {id} now has no limit"),
            rate => format!("job {id} is now limited to {rate}"),
        });
        self.end()
    }

    fn write(&self, line: &str) {
        self.lines.write(format!("{line}\n").as_bytes());
    }

    fn write_json(&self, record: &JobRecord) {
        // A record can always be serialized.
        if let Ok(text) = super::json::line(&JobLine { state: record.state(), record }) {
            self.lines.write(&text);
        }
    }

    fn end(&self) -> Result<Exit> {
        self.lines.end(Exit::Done)
    }
}

fn word(state: JobState) -> &'static str {
    match state {
        JobState::Running => "running",
        JobState::Finished => "finished",
        JobState::Failed => "failed",
        JobState::Interrupted => "interrupted",
    }
}

/// The duration until the end, or until now.
fn seconds(record: &JobRecord) -> f64 {
    match (record.state(), record.started.parse::<Timestamp>()) {
        (JobState::Running, Ok(started)) => started.duration_until(Timestamp::now()).as_secs_f64().max(0.0),
        _ => record.seconds,
    }
}

/// A time of a record in the local time zone.
fn local(time: &str, format: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => time.to_owned(),
    }
}

/// The command, quoted for a shell.
fn line(record: &JobRecord) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    let quoted = record.command.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    one_line(quoted.collect::<Vec<_>>().join(" ")).into_owned()
}

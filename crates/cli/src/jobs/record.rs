//! The record of a run.

use haul_core::Totals;
use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::process::ProcessIdentity;

/// Version of the format of records.
const SCHEMA: u32 = 1;

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    schema: u32,
    /// The job number.
    pub(crate) id: u64,
    /// The command line, with bytes that are not text escaped.
    pub(crate) command: Vec<String>,
    /// The working directory.
    #[serde(rename = "folder")]
    pub(crate) directory: String,
    /// The process.
    pub(crate) process: ProcessIdentity,
    /// The start time (RFC 3339).
    pub(crate) started: String,
    /// The end time; `None` while it runs or if it was killed.
    pub(crate) ended: Option<String>,
    /// Seconds until the end, or until the counts were last written.
    pub(crate) seconds: f64,
    /// The exit code.
    pub(crate) exit_code: Option<u8>,
    /// The counts.
    pub(crate) totals: Totals,
    /// The summary as text.
    pub(crate) text: Option<String>,
    /// The summary as JSON.
    pub(crate) summary: Option<Value>,
}

/// The result of a run.
pub(crate) struct RunResult {
    /// The exit code.
    pub(crate) exit_code: u8,
    /// The summary as text.
    pub(crate) text: String,
    /// The summary as JSON.
    pub(crate) summary: Value,
}

/// The state of a run, from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    /// The run is in progress.
    Running,
    /// The run finished with exit code 0.
    Finished,
    /// The run finished with another exit code.
    Failed,
    /// The run was interrupted or killed; the same command resumes it.
    Interrupted,
}

impl JobRecord {
    /// The record of a run that starts now.
    pub(super) fn new(id: u64, command: Vec<String>, directory: String, process: ProcessIdentity) -> Self {
        Self {
            schema: SCHEMA,
            id,
            command,
            directory,
            process,
            started: now(),
            ended: None,
            seconds: 0.0,
            exit_code: None,
            totals: Totals::default(),
            text: None,
            summary: None,
        }
    }

    /// Records the end of the run.
    pub(super) fn end(&mut self, ended: RunResult) {
        let RunResult { exit_code, text, summary } = ended;
        self.ended = Some(now());
        self.exit_code = Some(exit_code);
        self.text = Some(text);
        self.summary = Some(summary);
    }

    /// Parses a record; `None` if it is invalid or of another version.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|record: &Self| record.schema == SCHEMA)
    }

    /// The state of the run.
    pub(crate) fn state(&self) -> JobState {
        match self.exit_code {
            None if self.process.is_alive() => JobState::Running,
            None | Some(130) => JobState::Interrupted,
            Some(0) => JobState::Finished,
            Some(_) => JobState::Failed,
        }
    }
}

fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_has_a_state() {
        let mut record = JobRecord::new(7, vec!["haul".to_owned()], "/x".to_owned(), ProcessIdentity::this());
        let back = |record: &JobRecord| JobRecord::parse(&serde_json::to_vec(record).unwrap());
        assert_eq!(back(&record), Some(record.clone()));
        assert_eq!(record.state(), JobState::Running);
        record.process.ticks += 1;
        assert_eq!(
            record.state(),
            JobState::Interrupted,
            "its process is gone and it says nothing of its end"
        );
        for (exit_code, state) in
            [(0, JobState::Finished), (3, JobState::Failed), (130, JobState::Interrupted)]
        {
            record.end(RunResult { exit_code, text: "done".to_owned(), summary: Value::Null });
            assert_eq!(record.state(), state);
        }
        assert!(record.ended.as_ref().is_some_and(|at| at.len() == 20 && at.ends_with('Z')), "{record:?}");
        assert_eq!(JobRecord::parse(b""), None);
        assert_eq!(JobRecord::parse(b"{\"schema\":1,"), None);
    }
}

//! The record of the run of this process.

use haul_core::sync::Mutex;
use std::io;
use std::time::{Duration, Instant};

use haul_core::Totals;
use haul_core::path::printable;
use haul_engine::RateHandle;

use super::control;
use super::directory::JobDirectory;
use super::process::ProcessIdentity;
use super::record::{JobRecord, RunResult};

/// Interval of updates of a record.
const PERIOD: Duration = Duration::from_secs(5);

/// The record of the run of this process.
pub(crate) struct Job {
    directory: JobDirectory,
    state: Mutex<JobInner>,
    id: u64,
}

struct JobInner {
    record: JobRecord,
    begun: Instant,
    written: Instant,
    ended: bool,
}

impl Job {
    /// Creates the record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn start() -> io::Result<Self> {
        let directory = JobDirectory::open()?;
        let id = directory.claim()?;
        let words = std::env::args_os().map(|word| printable(word.as_encoded_bytes())).collect();
        let here = std::env::current_dir().map(|dir| printable(dir.as_os_str().as_encoded_bytes()));
        let record = JobRecord::new(id, words, here.unwrap_or_default(), ProcessIdentity::this());
        directory.write(&record)?;
        directory.tidy();
        let now = Instant::now();
        let state = Mutex::new(JobInner { record, begun: now, written: now, ended: false });
        Ok(Self { directory, state, id })
    }

    /// The job number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Lets other processes of this user change the limit.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub(crate) fn listen(&self, controller: RateHandle) -> io::Result<()> {
        control::listen(&self.directory, self.id, controller)
    }

    /// Updates the progress.
    pub(crate) fn progress(&self, totals: &Totals) {
        let mut state = self.state.lock();
        if state.written.elapsed() >= PERIOD {
            state.written = Instant::now();
            state.record.totals = *totals;
            state.record.seconds = state.begun.elapsed().as_secs_f64();
            let _ = self.directory.write(&state.record);
        }
    }

    /// Records the end of the run.
    pub(crate) fn ended(&self, totals: &Totals, ended: RunResult) {
        let mut state = self.state.lock();
        state.ended = true;
        state.record.totals = *totals;
        state.record.seconds = state.begun.elapsed().as_secs_f64();
        state.record.end(ended);
        let _ = self.directory.write(&state.record);
        self.directory.remove_socket(self.id);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The run failed before it started, and there is nothing to resume.
        if !self.state.lock().ended {
            self.directory.remove(self.id);
        }
    }
}

//! Job records: each copy or sync has a number, a record that outlives it, and a control socket while it runs.
//!
//! Errors of records do not fail a run: it only has no number then.

mod control;
mod directory;
mod job;
mod process;
mod record;

pub(crate) use control::limit;
pub(crate) use directory::JobDirectory;
pub(crate) use job::Job;
pub(crate) use record::{JobRecord, JobState, RunResult};

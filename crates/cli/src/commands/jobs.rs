//! `haul jobs`.

use haul_core::{Error, ErrorKind, Result, Side};

use crate::args::{JobsAction, JobsArgs};
use crate::exit_code::Exit;
use crate::jobs::{JobDirectory, JobRecord, JobState, limit};
use crate::render::JobLines;
use crate::settings::usage;
use crate::values::Timetable;

/// Lists jobs, shows one, or changes the limit of one.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no such job; errors of reading the records.
pub(super) fn run(args: JobsArgs) -> Result<Exit> {
    let directory =
        JobDirectory::open().map_err(|error| Error::io(Side::Local, "read the records of jobs", &error))?;
    match args.action {
        None => {
            directory.tidy();
            let records = directory.records();
            let records =
                records.map_err(|error| Error::io(Side::Local, "read the records of jobs", &error))?;
            JobLines::new(args.json).list(&records)
        }
        Some(JobsAction::Show { id, json }) => JobLines::new(json).show(&find(&directory, id)?),
        Some(JobsAction::Limit { id, rate }) => {
            let table: Timetable = rate.join(" ").parse().map_err(|why| usage("read the rate", why))?;
            let record = find(&directory, id)?;
            if record.state() != JobState::Running {
                return Err(failed(id, "it is not running"));
            }
            limit(&directory, id, &table).map_err(|error| {
                let elsewhere = format!("{error} (it runs on {})", record.process.host);
                failed(id, &elsewhere)
            })?;
            JobLines::new(false).limited(id, &table.to_string())
        }
    }
}

fn find(directory: &JobDirectory, id: u64) -> Result<JobRecord> {
    directory.record(id).ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, Side::Local, "find the job", "there is no such job");
        error.on(id.to_string()).with_hint("`haul jobs` lists all jobs")
    })
}

fn failed(id: u64, cause: &str) -> Error {
    Error::new(ErrorKind::NotFound, Side::Local, "change the limit of job", cause).on(id.to_string())
}

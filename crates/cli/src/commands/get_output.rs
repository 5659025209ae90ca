//! The output of `haul get`, and its progress.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_core::{Error, ErrorKind, Limit, Pace, Report, Result, Side, Totals};
use haul_streams::get::{ContentOutput, GetSettings, GetStatus};

use super::stream::StreamProgress;
use crate::args::GetArgs;
use crate::manifest::ManifestNames;
use crate::settings::{content_memory, identities};
use crate::standard_streams;

/// Standard output, for content.
///
/// # Errors
/// If it is closed; the error of dup(2).
pub(super) fn stdout() -> Result<ContentOutput> {
    let fd = standard_streams::output();
    Ok(ContentOutput::open(
        fd.map_err(|error| Error::io(Side::Destination, "write standard output", &error))?,
    ))
}

/// The progress of a get of `len` bytes.
pub(super) fn progress(len: u64, status: &GetStatus) -> StreamProgress {
    let totals = Totals {
        found: 1,
        found_bytes: len,
        sent_bytes: status.written.load(Ordering::Relaxed),
        resumed_bytes: status.resumed.load(Ordering::Relaxed),
        ..Totals::default()
    };
    let waits = status.waits.load(Ordering::Relaxed);
    let limit = bottleneck(&status.pace, waits);
    StreamProgress { totals, ended: true, limit }
}

/// The bottleneck of a stream that `waits` for its source, or else for its destination.
pub(super) fn bottleneck(pace: &Pace, waits: bool) -> Limit {
    if pace.is_waited_for() {
        Limit::Rate
    } else if waits {
        Limit::Source
    } else {
        Limit::Destination
    }
}

/// The report of a get that fetched so many bytes.
pub(super) fn report(fetched: Result<u64>, status: &GetStatus, begun: Instant) -> Report {
    let mut report = Report { totals: progress(0, status).totals, ..Report::default() };
    match fetched {
        Ok(len) => (report.totals.copied, report.totals.copied_bytes) = (1, len),
        Err(error) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
        Err(error) => {
            report.corrupt = u64::from(error.kind() == ErrorKind::Corrupt);
            report.fatal = Some(error);
        }
    }
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

/// The settings for each of so many objects.
///
/// # Errors
/// [`ErrorKind::Usage`] if the memory or a key is of no use.
pub(super) fn get_settings(args: &GetArgs, objects: u64) -> Result<GetSettings> {
    Ok(GetSettings {
        memory: content_memory(&args.reach.memory, objects, 0)?,
        raw: args.decode.raw,
        keys: Arc::new(identities(&args.decode)?),
        encrypted_only: args.decode.encrypted_only(),
    })
}

/// The name of the stream in a manifest: that of the file that get writes.
pub(super) fn names(args: &GetArgs) -> ManifestNames {
    let written = args.file().filter(|path| !is_directory(path)).and_then(Path::file_name);
    written.map_or(ManifestNames::Last, |name| ManifestNames::Given(name.as_bytes().to_vec()))
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/")
}

/// The file for an object.
pub(super) fn file(path: &Path, key: &str) -> PathBuf {
    if is_directory(path) { path.join(key.rsplit('/').next().unwrap_or_default()) } else { path.to_owned() }
}

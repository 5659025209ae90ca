//! `haul get --fifo-dir`: writes the streams of a backup to named pipes.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Limit, Report, Result, Side, Totals};
use haul_job::{Observer, RequestCounts};
use haul_object::{Client, Object};
use haul_streams::get::{ContentOutput, GetSettings, GetStatus, Got, get};
use haul_streams::{PipeDirectory, index_file, sidecar};

use super::get_output::{bottleneck, get_settings};
use super::output::stream_settings;
use super::start::{paced, start_run};
use super::stream::{StreamProgress, open, report_object, watched};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::manifest::ManifestNames;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{parse_place, store_settings_of, usage};

/// Interval of checks for a reader.
const LOOK: Duration = Duration::from_millis(20);

/// A named pipe that haul created. Removed on drop.
struct NamedPipe {
    directory: Arc<PipeDirectory>,
    name: String,
}

impl NamedPipe {
    /// # Errors
    /// If the name exists.
    fn make(directory: &Arc<PipeDirectory>, name: &str) -> Result<Self> {
        directory.make(name).map_err(|error| failed(directory, name, "create a pipe", &error))?;
        Ok(Self { directory: Arc::clone(directory), name: name.to_owned() })
    }

    /// Opens the pipe once it has a reader.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] if the run is cancelled; errors of opening the pipe.
    fn open(&self, cancel: &AtomicBool) -> Result<OwnedFd> {
        loop {
            match self.directory.writer(&self.name) {
                Ok(fd) => return Ok(fd),
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
                Err(error) => return Err(failed(&self.directory, &self.name, "open the pipe", &error)),
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    Side::Local,
                    "wait for a reader",
                    "interrupted",
                ));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // If this fails, a pipe without a reader stays behind.
        let _ = self.directory.remove(&self.name);
    }
}

fn failed(directory: &PipeDirectory, name: &str, operation: &str, error: &std::io::Error) -> Error {
    let path = directory.path().join(name);
    Error::io(Side::Destination, operation, error).on(path.as_os_str().as_bytes())
}

/// Writes each object below a prefix to a pipe of the same name.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs, directory: &Path) -> Result<Exit> {
    let begun = Instant::now();
    let place = parse_place(&args.source, &args.reach.given)?;
    let prefix = if place.key.is_empty() || place.key.ends_with('/') {
        place.key.clone()
    } else {
        format!("{}/", place.key)
    };
    let start = Start::new(SummaryCommand::Get, place.to_string(), Some(directory.display().to_string()));
    let (console, cancel) =
        start_run(stream_settings(&args.output, &args.manifest, ManifestNames::Last), &start)?;
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    let stores = store_settings_of(&args.reach, &place, &pace);
    let open_one = || open(&place, Side::Source, &stores, cancel.flag(), Some(&console));
    let client = open_one()?;
    let keys = streams_below(&client, &prefix)?;
    if keys.is_empty() {
        let error = Error::new(ErrorKind::NotFound, Side::Source, "find", "no object has this prefix");
        return Err(error.on(place.to_string()));
    }
    let get_settings = get_settings(args, keys.len() as u64)?;
    let pipes = Arc::new(PipeDirectory::open_own(directory)?);
    let mut streams = Vec::new();
    for key in keys {
        let client = open_one()?;
        let object = haul_streams::get::find(&client, &key)?;
        let pipe = NamedPipe::make(&pipes, key.rsplit('/').next().unwrap_or_default())?;
        let sha256 = args.manifest.wants_sha256();
        let status = Arc::new(GetStatus::new(pace.clone()));
        streams.push(FifoStream { client, object, pipe, status, sha256 });
    }
    let look = || progress(&streams);
    let got = watched(&console, look, || get_all(&streams, &get_settings, &cancel.flag()));
    let mut report = Report { totals: progress(&streams).totals, ..Report::default() };
    let mut requests = RequestCounts::of(client.requests());
    streams.iter().for_each(|stream| requests.join(RequestCounts::of(stream.client.requests())));
    add_results(&mut report, &streams, &got, &console);
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(SummaryCommand::Get, report);
    summary.requests = Some(requests);
    Ok(console.finish(summary))
}

/// A stream of a backup.
struct FifoStream {
    client: Client,
    object: Object,
    pipe: NamedPipe,
    status: Arc<GetStatus>,
    /// Its SHA-256 is wanted.
    sha256: bool,
}

impl FifoStream {
    /// Writes the object to its pipe. On failure sets `cancel`, because a backup needs all of its streams.
    fn get(&self, settings: &GetSettings, cancel: &AtomicBool) -> Result<Got> {
        let output = self.pipe.open(cancel).map(|fd| ContentOutput::open(fd).hashing(self.sha256));
        let got = output.and_then(|to| get(&self.client, &self.object, to, settings, &self.status));
        if got.is_err() {
            cancel.store(true, Ordering::Relaxed);
        }
        got
    }
}

/// The progress of all streams.
fn progress(streams: &[FifoStream]) -> StreamProgress {
    let mut totals = Totals { found: streams.len() as u64, ..Totals::default() };
    for FifoStream { object, status, .. } in streams {
        totals.found_bytes += object.len;
        totals.sent_bytes += status.written.load(Ordering::Relaxed);
    }
    let waits = streams.iter().all(|stream| stream.status.waits.load(Ordering::Relaxed));
    let limit = streams.first().map_or(Limit::Source, |stream| bottleneck(&stream.status.pace, waits));
    StreamProgress { totals, ended: true, limit }
}

/// Downloads all streams in parallel.
fn get_all(streams: &[FifoStream], settings: &GetSettings, cancel: &AtomicBool) -> Vec<Result<Got>> {
    thread::scope(|scope| {
        let start = |stream| {
            let started =
                haul_threads::spawn(scope, "pipe", move || FifoStream::get(stream, settings, cancel));
            if started.is_err() {
                cancel.store(true, Ordering::Relaxed);
            }
            started
        };
        let threads: Vec<_> = streams.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.and_then(haul_threads::join).flatten()).collect()
    })
}

/// Adds the results of the streams to the report, and shows them.
fn add_results(report: &mut Report, streams: &[FifoStream], results: &[Result<Got>], console: &Console) {
    let is_failure = |got: &Result<Got>| got.as_ref().is_err_and(|e| e.kind() != ErrorKind::Cancelled);
    let failed = results.iter().any(is_failure);
    for (FifoStream { client, object, .. }, got) in streams.iter().zip(results) {
        match got {
            Ok(Got { checked: None, .. }) => {
                let cause = "the reader closed the pipe before the end";
                let error = Error::new(ErrorKind::Io, Side::Destination, "write", cause);
                report.totals.failed += 1;
                console.failed(client.name(&object.key).as_bytes(), &error);
            }
            Ok(got) => {
                report_object(console, object, *got);
                report.totals.copied += 1;
                report.totals.copied_bytes += got.len;
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => report.interrupted |= !failed,
            Err(error) => {
                report.totals.failed += 1;
                report.corrupt += u64::from(error.kind() == ErrorKind::Corrupt);
                console.failed(client.name(&object.key).as_bytes(), error);
            }
        }
    }
}

/// The objects directly below a prefix, without the sidecars and indexes of `haul put`.
///
/// # Errors
/// Errors of the listing; [`ErrorKind::Usage`] if a key is not a valid file name.
pub(super) fn streams_below(client: &Client, prefix: &str) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for page in client.pages(prefix, true) {
        keys.extend(page?.objects.into_iter().map(|object| object.key));
    }
    keys.sort();
    let all = keys.clone();
    let is_beside = |key: &String| {
        let of = sidecar::owner_of(key).or_else(|| key.strip_suffix(index_file::SUFFIX));
        of.is_some_and(|of| all.binary_search_by(|other| other[..].cmp(of)).is_ok())
    };
    keys.retain(|key| key.len() > prefix.len() && !is_beside(key));
    let bad = |key: &&String| matches!(&key[prefix.len()..], "." | "..") || key.contains('\0');
    if let Some(key) = keys.iter().find(bad) {
        return Err(usage("create a pipe", "the object's name is not a valid file name").on(client.name(key)));
    }
    Ok(keys)
}

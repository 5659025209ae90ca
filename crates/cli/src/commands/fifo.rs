//! `haul get --fifo-dir`: the streams of one backup, each into a named pipe.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Limit, Report, Result, Side, Totals};
use haul_engine::Cancel;
use haul_object::{Client, Object};
use haul_streams::PipeFolder;
use haul_streams::get::{GetSettings, GetStatus, Got, Output, get};

use super::get::tell;
use super::output::settings;
use super::stream::{Standing, open, watched};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::render::{Command, Console, RequestCounts, Start, Summary};
use crate::settings::{content_memory, identities, parse_place, store_settings, usage};
use crate::signals;

/// How often it is looked whether a reader has come.
const LOOK: Duration = Duration::from_millis(20);

/// A named pipe that haul made; gone when it is done with.
struct Pipe {
    folder: Arc<PipeFolder>,
    name: String,
}

impl Pipe {
    /// # Errors
    /// If something of this name is there.
    fn make(folder: &Arc<PipeFolder>, name: &str) -> Result<Self> {
        folder.make(name).map_err(|error| failed(folder, name, "make a pipe", &error))?;
        Ok(Self { folder: Arc::clone(folder), name: name.to_owned() })
    }

    /// Opens it when a reader has come.
    ///
    /// # Errors
    /// If it cannot be opened, or the run is cancelled.
    fn open(&self, cancel: &AtomicBool) -> Result<OwnedFd> {
        loop {
            match self.folder.writer(&self.name) {
                Ok(fd) => return Ok(fd),
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
                Err(error) => return Err(failed(&self.folder, &self.name, "open the pipe", &error)),
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

impl Drop for Pipe {
    fn drop(&mut self) {
        // What stays is a pipe that nobody reads.
        let _ = self.folder.remove(&self.name);
    }
}

fn failed(folder: &PipeFolder, name: &str, operation: &str, error: &std::io::Error) -> Error {
    let path = folder.path().join(name);
    Error::io(Side::Destination, operation, error).on(path.as_os_str().as_bytes())
}

/// Moves each object below a name into a pipe of its name.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(args: &GetArgs, folder: &Path) -> Result<Exit> {
    let begun = Instant::now();
    let place = parse_place(&args.source)?;
    let prefix = if place.key.is_empty() || place.key.ends_with('/') {
        place.key.clone()
    } else {
        format!("{}/", place.key)
    };
    let start = Start {
        command: Command::Get,
        sources: vec![place.to_string()],
        destination: Some(folder.display().to_string()),
        job: None,
    };
    let console = Console::start(settings(&args.output), &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    let stores = store_settings(&args.store);
    let open_one = || open(&place, Side::Source, &stores, cancel.flag(), Some(&console));
    let client = open_one()?;
    let keys = streams_below(&client, &prefix)?;
    if keys.is_empty() {
        let error = Error::new(ErrorKind::NotFound, Side::Source, "find", "there is no object below it");
        return Err(error.on(place.to_string()));
    }
    let get_settings = GetSettings {
        memory: content_memory(&args.memory, keys.len() as u64, 0)?,
        raw: args.decode.raw,
        keys: identities(&args.decode)?,
        encrypted_only: args.decode.encrypted_only(),
    };
    let pipes = Arc::new(PipeFolder::open_own(folder)?);
    let mut streams = Vec::new();
    for key in keys {
        let client = open_one()?;
        let object = haul_streams::get::find(&client, &key)?;
        let pipe = Pipe::make(&pipes, key.rsplit('/').next().unwrap_or_default())?;
        streams.push((client, object, pipe, Arc::new(GetStatus::default())));
    }
    let look = || {
        let mut totals = Totals { found: streams.len() as u64, ..Totals::default() };
        for (_, object, _, status) in &streams {
            totals.found_bytes += object.len;
            totals.sent_bytes += status.written.load(Ordering::Relaxed);
        }
        let waits = streams.iter().all(|(_, _, _, status)| status.waits.load(Ordering::Relaxed));
        Standing { totals, ended: true, limit: if waits { Limit::Source } else { Limit::Destination } }
    };
    let flag = cancel.flag();
    let got: Vec<Result<Got>> = watched(&console, look, || {
        let one = |client: &Client, object: &Object, pipe: &Pipe, status: &Arc<GetStatus>| {
            let ended =
                pipe.open(&flag).and_then(|fd| get(client, object, Output::open(fd), &get_settings, status));
            if ended.is_err() {
                // Without this stream the others are of no use.
                flag.store(true, Ordering::Relaxed);
            }
            ended
        };
        thread::scope(|scope| {
            let threads: Vec<_> = streams
                .iter()
                .map(|(client, object, pipe, status)| {
                    let started =
                        haul_threads::spawn(scope, "pipe", move || one(client, object, pipe, status));
                    if started.is_err() {
                        flag.store(true, Ordering::Relaxed);
                    }
                    started
                })
                .collect();
            let ended = threads.into_iter().map(|thread| thread.and_then(haul_threads::join).flatten());
            ended.collect()
        })
    });
    let mut report = Report { totals: look().totals, ..Report::default() };
    let mut requests = RequestCounts::default();
    requests.add(client.requests());
    let failed = got.iter().any(|got| got.as_ref().is_err_and(|error| error.kind() != ErrorKind::Cancelled));
    for ((client, object, _, _), got) in streams.iter().zip(&got) {
        requests.add(client.requests());
        match got {
            Ok(Got { checked: None, .. }) => {
                let cause = "its reader closed the pipe before the end";
                let error = Error::new(ErrorKind::Io, Side::Destination, "write", cause);
                report.totals.failed += 1;
                console.failed(client.name(&object.key).as_bytes(), &error);
            }
            Ok(got) => {
                tell(&console, object, *got);
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
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(Command::Get, report);
    summary.requests = Some(requests);
    Ok(console.finish(summary))
}

/// The objects right below a name, without what `haul put` wrote beside them.
///
/// # Errors
/// If they cannot be listed, or one can be no name of a pipe.
fn streams_below(client: &Client, prefix: &str) -> Result<Vec<String>> {
    let (mut keys, mut next) = (Vec::new(), None);
    loop {
        let page = client.list(prefix, true, next.as_deref())?;
        keys.extend(page.objects.into_iter().map(|object| object.key));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    keys.sort();
    let all = keys.clone();
    let is_beside = |key: &String| {
        key.strip_suffix(".haul").is_some_and(|of| all.binary_search_by(|other| other[..].cmp(of)).is_ok())
    };
    keys.retain(|key| key.len() > prefix.len() && !is_beside(key));
    let bad = |key: &&String| matches!(&key[prefix.len()..], "." | "..") || key.contains('\0');
    if let Some(key) = keys.iter().find(bad) {
        return Err(usage("make a pipe", "the object's name can be none").on(client.name(key)));
    }
    Ok(keys)
}

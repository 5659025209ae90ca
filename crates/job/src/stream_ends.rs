//! Opens single files, here or on a host, that a stream is read from or written to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_core::location::SshHost;
use haul_core::path::printable;
use haul_core::{
    Compare, ContentLimit, Error, ErrorKind, Limiter, Links, Location, Pace, Place, PlaceRoot, Preserve,
    Program, RelPath, Result, Side, SinkOptions,
};
use haul_program::{ProgramSink, ProgramSource, RunMode};
use haul_remote::Peer;
use haul_streams::get::InputFile;
use haul_streams::index_file::SUFFIX;
use haul_streams::pipe::Pipe;
use haul_streams::put::FileTarget;

use crate::ends::Ends;
use crate::mistakes::{at_destination, at_host};
use crate::place::source_place;
use crate::siblings::is_home;

/// The operation of errors before a stream is read or written.
const OPEN: &str = "open";

fn error(kind: ErrorKind, side: Side, at: &Location, cause: &str) -> Error {
    Error::new(kind, side, OPEN, cause).on(at.to_string())
}

/// Opens a file to be read. A symbolic link is followed, as by any program that reads a file.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::Usage`] if it is no regular file; errors of opening.
pub fn open_file(ends: &mut Ends, at: &Location) -> Result<InputFile> {
    let refuse = |kind, cause: &str| error(kind, Side::Source, at, cause);
    let ops = ends.source_ops();
    let source = ends.read(at, &source_place(at), Links::Followed.into(), &ops)?;
    let Some(entry) = source.root().map_err(|error| at_host(error, Side::Source, at))? else {
        let error = refuse(ErrorKind::NotFound, "No such file or directory");
        let is_pattern = at.name().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        return Err(match at {
            _ if is_pattern => error.with_hint("a get reads one file: write out its name"),
            Location::Local(path) if path == b"-" => error
                .with_hint("`-` is no standard input here: a get reads a file, and writes standard output"),
            _ => error,
        });
    };
    if entry.is_dir() {
        let error = refuse(ErrorKind::Usage, "it is a directory, and a get reads one file");
        return Err(error.with_hint("`haul copy` copies directories"));
    }
    if !entry.is_file() {
        return Err(refuse(ErrorKind::Usage, "it is a pipe, a socket or a device, and a get reads a file"));
    }
    entry.check().map_err(|cause| refuse(ErrorKind::Unsupported, cause))?;
    let hashes = matches!(at, Location::Local(_)) || ends.is_peer(at)?;
    let pool = ends.pool().clone();
    let limit = Some(content_limit(ends, at, |pace| &pace.inbound)?);
    Ok(InputFile { name: at.to_string(), source, entry: Arc::new(entry), hashes, pool, limit })
}

/// The limit of the content of a file in this direction.
fn content_limit(
    ends: &mut Ends,
    at: &Location,
    direction: fn(&Pace) -> &Arc<Limiter>,
) -> Result<ContentLimit> {
    let is_kept_by_link = ends.is_peer(at)?;
    let (pace, cancel) = ends.limits();
    Ok(ContentLimit { limiter: Arc::clone(direction(pace)), is_kept_by_link, cancel: Arc::clone(cancel) })
}

/// Opens a file to be written: its directory has to exist.
///
/// # Errors [`ErrorKind::Usage`] if the location names no file, [`ErrorKind::NotFound`] if its directory does not
/// exist; errors of opening.
pub fn create_file(ends: &mut Ends, at: &Location) -> Result<FileTarget> {
    let refuse = |kind, cause: &str| error(kind, Side::Destination, at, cause);
    if at.means_contents() || is_home(at) {
        return Err(refuse(ErrorKind::Usage, "the name of the file is missing"));
    }
    if matches!(at, Location::Local(path) if path == b"-") {
        let error = refuse(ErrorKind::Usage, "`-` is no standard output here");
        return Err(error.with_hint("write ./- for a file of this name"));
    }
    if at.name().iter().any(|byte| matches!(byte, b'*' | b'?')) {
        let error = refuse(ErrorKind::Usage, "a put writes one file, and this is a pattern");
        return Err(error.with_hint("write out the name of the file"));
    }
    let path = RelPath::root().join(at.name()).map_err(|bad| refuse(ErrorKind::Usage, &bad.to_string()))?;
    // After an empty path, the slash would mean the root directory.
    let parent = &at.path()[..at.path().len() - at.name().len()];
    let parent = if parent.is_empty() && matches!(at, Location::Local(_)) { b"./" } else { parent };
    let place = Place { path: parent.to_vec(), root: PlaceRoot::Exactly };
    let shown = haul_core::path::printable(if parent.is_empty() { b"~" } else { parent });
    let ops = ends.destination_ops();
    let there = ends.read(at, &place, Links::Kept.into(), &ops)?;
    match there.root().map_err(|error| at_destination(error, at))? {
        None => {
            if let Some(file) = file_above(ends, at, parent)? {
                let cause = format!("`{}` is a file, not a directory", printable(&file));
                return Err(refuse(ErrorKind::Usage, &cause));
            }
            let cause = format!("the directory {shown} does not exist");
            return Err(refuse(ErrorKind::NotFound, &cause).with_hint("make it first: mkdir"));
        }
        Some(entry) if !entry.is_dir() => {
            return Err(refuse(ErrorKind::Usage, &format!("{shown} is not a directory")));
        }
        Some(_) => {}
    }
    let (pool, note) = (ends.pool().clone(), Arc::clone(ends.note()));
    let sink = ends.sink(at, &place, &stream_options())?;
    let resumes = !matches!(at, Location::Smb { .. });
    let limit = content_limit(ends, at, |pace| &pace.outbound)?;
    let (name, at) = (at.to_string(), Box::new(at.clone()));
    Ok(FileTarget { name, at, path, sink, there, pool, limit, note, resumes })
}

/// Creates the file as the only one that the stream goes to. Of several, one that is a directory stops no other.
///
/// # Errors
/// As [`create_file`], and [`ErrorKind::Usage`] if it is a directory, before a program is started in vain.
pub fn create_only_file(ends: &mut Ends, at: &Location) -> Result<FileTarget> {
    let target = create_file(ends, at)?;
    let found = target.there.lookup(std::slice::from_ref(&target.path));
    match found.map_err(|error| at_destination(error, at))?.pop() {
        Some(Ok(Some(entry))) if entry.is_dir() => {
            let cause = "it is a directory, and a put writes one file";
            Err(error(ErrorKind::Usage, Side::Destination, at, cause).with_hint("add the name of the file"))
        }
        _ => Ok(target),
    }
}

/// The entry above a missing directory that is no directory, if there is one.
fn file_above(ends: &mut Ends, at: &Location, missing: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut path = missing;
    let ops = ends.destination_ops();
    while let Some(end) = path.iter().rposition(|byte| *byte != b'/') {
        path = &path[..=end];
        let place = Place { path: path.to_vec(), root: PlaceRoot::Exactly };
        let above = ends.read(at, &place, Links::Followed.into(), &ops)?;
        if let Some(entry) = above.root().map_err(|error| at_destination(error, at))? {
            return Ok((!entry.is_dir()).then(|| path.to_vec()));
        }
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else { break };
        path = &path[..slash];
    }
    Ok(None)
}

/// The location of the index of the file at a location.
fn index_of(at: &Location) -> Location {
    let mut index = at.clone();
    if let Location::Local(path)
    | Location::Ssh { path, .. }
    | Location::Sftp { path, .. }
    | Location::Smb { path, .. } = &mut index
    {
        path.extend_from_slice(SUFFIX.as_bytes());
    }
    index
}

/// Opens the index of a file; `None` if it has none.
///
/// # Errors
/// As [`open_file`].
pub fn find_index(ends: &mut Ends, at: &Location) -> Result<Option<InputFile>> {
    match open_file(ends, &index_of(at)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Opens the index of a file to be written.
///
/// # Errors
/// As [`create_file`].
pub fn create_index(ends: &mut Ends, at: &Location) -> Result<FileTarget> {
    create_file(ends, &index_of(at))
}

/// One end of a pipe: the program, and the host that it runs on; `None` is this machine.
pub struct PipeProgram {
    /// The program.
    pub program: Program,
    /// Its host.
    pub host: Option<SshHost>,
}

impl PipeProgram {
    /// The prefix of its messages.
    #[must_use]
    pub fn label(&self) -> String {
        let first = self.program.words.first().map(Vec::as_slice).unwrap_or_default();
        let name = first.split(|byte| b" \t\n|&;<>()".contains(byte)).next().unwrap_or_default();
        let name = printable(name.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        self.host.as_ref().map_or_else(|| name.clone(), |host| format!("{host}: {name}"))
    }

    fn location(&self) -> Option<Location> {
        self.host.clone().map(|host| Location::Ssh { host, path: Vec::new() })
    }
}

/// Starts both programs, first the one that reads. `quietly`: haul's standard output is taken.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if a host has no haul; errors of reaching it and of starting a program.
pub fn run_programs(
    ends: &mut Ends,
    (from, into): (&PipeProgram, &PipeProgram),
    quietly: bool,
    window: u32,
    cancel: &Arc<AtomicBool>,
) -> Result<Pipe> {
    let sink = match peer(ends, into)? {
        Some(peer) => peer.run_consumer(&into.program)?,
        None => {
            let how = if quietly { RunMode::Quietly } else { RunMode::Here };
            Arc::new(ProgramSink::run(&into.program, how)?)
        }
    };
    let source = match peer(ends, from)? {
        Some(peer) => peer.run_producer(&from.program, window)?,
        None => {
            let (pool, cancel) = (ends.pool().clone(), Arc::clone(cancel));
            Arc::new(ProgramSource::run(&from.program, RunMode::Here, window, &pool, cancel)?)
        }
    };
    Ok(Pipe { source, sink })
}

/// The haul on the host of a program.
fn peer(ends: &mut Ends, of: &PipeProgram) -> Result<Option<Arc<Peer>>> {
    let Some(at) = of.location() else { return Ok(None) };
    if !ends.is_peer(&at)? {
        let cause = "the host has no haul, and an SFTP server runs no programs";
        let error = Error::new(ErrorKind::Unsupported, Side::Wire, "run a program on", cause);
        let host = of.host.as_ref().map(ToString::to_string).unwrap_or_default();
        return Err(error.on(host).with_hint("install haul there, or use --bootstrap"));
    }
    ends.peer_of(&at)
}

/// The options of a sink for streams: nothing is taken over from a source, and content is compared by digest alone.
fn stream_options() -> SinkOptions {
    SinkOptions { compare: Compare::Checksum, preserve: Preserve::NOTHING, ..SinkOptions::default() }
}

//! A destination that takes no entry at all, so that every entry would fail for the same reason.
//!
//! SFTP has no access(2), and OpenSSH answers that a file system is read-only as it answers any other failure. So haul
//! asks for the flags of the file system, and creates a file.

use haul_core::{Answer, Changes, Error, ErrorKind, Offer, RelPath, Result};

use super::conn::Conn;
use super::kernel_dirs::{is_of_kernel, refuse_the_kernel};
use super::listing::list;
use super::packet::{self, Attrs, SftpRequest};
use super::pipeline::{Pipeline, ask_one};
use super::reply::{Fault, unless_lost};
use super::state::{PRIVATE, SftpSink};
use super::tree::{error, is_dir, read_only, shown};

/// Write and search, for all users.
const OPEN_TO_ALL: u32 = 0o003;
/// Read, write and search, for the owner.
const OWNER: u32 = 0o700;

/// The error of the whole destination, if one of these answers needs an entry to be made and none can be made.
///
/// # Errors
/// If the connections are lost.
pub(super) fn refused(
    sink: &SftpSink,
    offers: &[Offer],
    answers: &[Result<Answer>],
) -> Result<Option<Error>> {
    let in_root = |path: &RelPath| path.parent().is_none_or(|parent| parent.is_root());
    let mut is_asked = false;
    for (offer, answer) in offers.iter().zip(answers) {
        let path = &offer.entry.path;
        match answer {
            Ok(Answer::Made(changes)) if changes.has(Changes::NEW) && in_root(path) => {
                sink.writability.lock().get_or_insert(None);
            }
            Ok(Answer::Need { .. }) => is_asked |= in_root(path),
            Ok(_) => {}
            Err(error) => {
                use ErrorKind::{Io, NotFound, PermissionDenied};
                is_asked |= matches!(error.kind(), PermissionDenied | NotFound | Io);
            }
        }
    }
    if !is_asked {
        return Ok(None);
    }
    let mut known = sink.writability.lock();
    if let Some(known) = &*known {
        return Ok(known.clone());
    }
    let found = sink.tree.pool().on_one(|conn| examine(sink, conn))?;
    *known = Some(found.clone());
    Ok(found)
}

/// Examines the directory that holds the entries of the root; that which holds the root if it is a file or missing.
fn examine(sink: &SftpSink, conn: &Conn) -> Result<Option<Error>> {
    let tree = &sink.tree;
    let everything = RelPath::root();
    let root = tree.remote(&everything);
    let shown = shown(&root);
    let found = |path: &[u8]| unless_lost(ask_one(conn, &SftpRequest::Lstat { path }).attrs());
    let of_root = found(&root)?.ok().filter(is_dir);
    let (dir, attrs) = match of_root {
        Some(attrs) => (&root[..], Some(attrs)),
        None => (tree.dir(), found(tree.dir())?.ok()),
    };
    if tree.room_at(conn, dir).is_some_and(|room| room.read_only) {
        return Ok(Some(read_only(tree.side, "write to", shown)));
    }
    let mode = attrs.and_then(|attrs| attrs.mode).unwrap_or_default();
    if mode & OPEN_TO_ALL == OPEN_TO_ALL {
        return Ok(None);
    }
    let fault = match probe(sink, conn, of_root.is_some())? {
        Err(fault) if is_of_kernel(dir, &fault) => return Ok(Some(refuse_the_kernel(tree.side, shown))),
        Err(fault @ Fault::Status(packet::PERMISSION_DENIED, _)) => fault,
        _ => return Ok(None),
    };
    // The owner may change the mode, and a directory in it may be writable.
    let hopes = may_unlock(conn, dir, mode)? || of_root.is_some() && holds_dirs(conn, dir)?;
    Ok((!hopes).then(|| error(tree.side, "write to", shown, fault)))
}

/// Creates a file with a staging name, and removes it.
fn probe(sink: &SftpSink, conn: &Conn, in_root: bool) -> Result<Result<(), Fault>> {
    let root = RelPath::root();
    let path = if in_root { root.join(b"probe").unwrap_or(root) } else { root };
    let part = sink.stage(&path);
    let flags = packet::WRITE | packet::CREATE | packet::EXCLUSIVE;
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Open { path: part.remote(), flags, mode: PRIVATE });
    pipeline.ask(&SftpRequest::Remove { path: part.remote() });
    let opened = unless_lost(pipeline.next_reply().handle())?;
    let removed = unless_lost(pipeline.next_reply().ok())?;
    if let Ok(handle) = &opened {
        pipeline.ask(&SftpRequest::Close { handle });
        let _closed = unless_lost(pipeline.next_reply().ok())?;
    }
    if removed.is_ok() || opened.is_err() {
        part.done();
    }
    Ok(opened.map(drop))
}

/// Whether this user may change the mode of a directory that forbids its owner to write.
fn may_unlock(conn: &Conn, dir: &[u8], mode: u32) -> Result<bool> {
    if mode & OWNER == OWNER {
        return Ok(false);
    }
    let attrs = Attrs { mode: Some(mode & 0o7777), ..Attrs::default() };
    Ok(unless_lost(ask_one(conn, &SftpRequest::Setstat { path: dir, attrs }).ok())?.is_ok())
}

/// Whether a directory is in this one, or may be.
fn holds_dirs(conn: &Conn, dir: &[u8]) -> Result<bool> {
    let mut holds = false;
    let faults = list(conn, &[dir.to_vec()], &mut |_, names| {
        let mut names = names.iter().filter(|(name, _)| !matches!(&name[..], b"." | b".."));
        holds = names.any(|(_, attrs)| attrs.mode.is_none() || is_dir(attrs));
        Ok(!holds)
    })?;
    Ok(holds || faults.iter().any(Option::is_some))
}

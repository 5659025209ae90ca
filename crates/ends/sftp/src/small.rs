//! Small files, many at a time: one round trip opens them, one writes them, one renames them. Files that are read back
//! are closed in one more.

use std::sync::Arc;

use haul_core::digest::SliceHasher;
use haul_core::{Digest, Entry, Error, ErrorKind, Outcome, Result, SLICE_LEN, SliceData};

use super::conn::Conn;
use super::meta::{self, MetaRequests, Wish};
use super::packet::{self, SftpRequest};
use super::pipeline::Pipeline;
use super::read::{ask_for, take_answers};
use super::reply::Fault;
use super::state::{SftpSink, StagedName};
use super::tree::file_mode;

/// A file with its content.
pub(super) struct Small<'a> {
    pub(super) entry: &'a Arc<Entry>,
    pub(super) data: &'a SliceData,
    pub(super) content: &'a [u8],
}

/// Stages, checks and renames files. One outcome for each.
pub(super) fn write(sink: &SftpSink, conn: &Conn, files: &[Small<'_>]) -> Vec<Result<Outcome>> {
    let mut outcomes = Vec::with_capacity(files.len());
    for files in files.chunks(conn.files_at_once()) {
        let _handles = conn.handles(files.len());
        outcomes.extend(write_some(sink, conn, files));
    }
    outcomes
}

/// A file that is being staged.
struct StagedSmallFile<'a, 'b> {
    file: &'a Small<'b>,
    part: StagedName<'a>,
    handle: Vec<u8>,
    wish: Wish,
    asked: Option<MetaRequests>,
}

fn write_some(sink: &SftpSink, conn: &Conn, files: &[Small<'_>]) -> Vec<Result<Outcome>> {
    let opened = open(sink, conn, files);
    let mut pipeline = Pipeline::new(conn);
    let mut staged: Vec<Result<StagedSmallFile<'_, '_>>> = Vec::with_capacity(files.len());
    let turn = conn.turn();
    for one in opened {
        staged.push(one.map(|mut one| {
            let (handle, file) = (&one.handle[..], one.file);
            write_extents(&mut pipeline, conn, handle, 0, file.data, file.content);
            let written = file.data.extents.last().map_or(0, |e| u64::from(e.start) + u64::from(e.len));
            let hole = written < file.entry.len;
            let size = hole.then_some(file.entry.len);
            one.asked = Some(meta::ask_file(&mut pipeline, handle, &one.wish, size));
            if sink.options.durable && conn.server.fsync {
                pipeline.ask(&SftpRequest::Fsync { handle });
            }
            if sink.options.verify_disk {
                ask_for(&mut pipeline, handle, 0, file.entry.len, conn.server.max_read);
            } else {
                pipeline.ask(&SftpRequest::Close { handle });
            }
            one
        }));
    }
    pipeline.flush();
    drop(turn);
    let checked = check(sink, conn, &mut pipeline, staged);
    publish(sink, conn, checked)
}

/// The modes of the files that are to be replaced, for those that keep them.
fn modes_there(sink: &SftpSink, conn: &Conn, files: &[Small<'_>]) -> Vec<Result<Option<u32>>> {
    if sink.options.preserve.perms {
        return files.iter().map(|_| Ok(None)).collect();
    }
    let mut pipeline = Pipeline::new(conn);
    for file in files {
        pipeline.ask(&SftpRequest::Lstat { path: &sink.tree.remote(&file.entry.path) });
    }
    let mut modes = Vec::with_capacity(files.len());
    for file in files {
        modes.push(match pipeline.next_reply().attrs() {
            Ok(now) => Ok(file_mode(&now)),
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(sink.tree.error("look at", &file.entry.path, fault)),
        });
    }
    modes
}

/// Creates a staged file for each.
fn open<'a, 'b>(
    sink: &'a SftpSink,
    conn: &Conn,
    files: &'a [Small<'b>],
) -> Vec<Result<StagedSmallFile<'a, 'b>>> {
    let back = if sink.options.verify_disk { packet::READ } else { 0 };
    let flags = packet::WRITE | packet::CREATE | packet::EXCLUSIVE | back;
    let there = modes_there(sink, conn, files);
    let modes: Vec<u32> = files
        .iter()
        .zip(&there)
        .map(|(file, there)| sink.first_mode(file.entry, there.as_ref().is_ok_and(Option::is_some)))
        .collect();
    let mut pipeline = Pipeline::new(conn);
    let mut parts = Vec::with_capacity(files.len());
    for (file, mode) in files.iter().zip(&modes) {
        let part = sink.stage(&file.entry.path);
        pipeline.ask(&SftpRequest::Open { path: part.remote(), flags, mode: *mode });
        parts.push(part);
    }
    let mut handles: Vec<Result<Vec<u8>, Fault>> =
        files.iter().map(|_| pipeline.next_reply().handle()).collect();
    let denied =
        |handle: &Result<Vec<u8>, Fault>| matches!(handle, Err(Fault::Status(packet::PERMISSION_DENIED, _)));
    let locked = files.iter().zip(&handles).filter(|(_, handle)| denied(handle));
    let locked: Vec<_> = locked.map(|(file, _)| &file.entry.path).collect();
    if !locked.is_empty() && sink.tree.unlock(conn, locked).is_ok() {
        for ((part, mode), _) in parts.iter().zip(&modes).zip(&handles).filter(|(_, handle)| denied(handle)) {
            pipeline.ask(&SftpRequest::Open { path: part.remote(), flags, mode: *mode });
        }
        for handle in handles.iter_mut().filter(|handle| denied(handle)) {
            *handle = pipeline.next_reply().handle();
        }
    }
    let mut opened = Vec::with_capacity(files.len());
    for (((file, part), handle), there) in files.iter().zip(parts).zip(handles).zip(there) {
        opened.push(match (handle, there) {
            (Ok(handle), Ok(there)) => {
                let wish = Wish::of(&sink.options.preserve, file.entry).replacing(there);
                Ok(StagedSmallFile { file, part, handle, wish, asked: None })
            }
            (Ok(handle), Err(error)) => {
                pipeline.ask(&SftpRequest::Close { handle: &handle });
                let _closed = pipeline.next_reply();
                Err(error)
            }
            (Err(fault), _) => Err(sink.write_error(conn, "write", file.entry, fault)),
        });
    }
    opened
}

/// Requests the writes of a slice. Returns their number.
pub(super) fn write_extents(
    pipeline: &mut Pipeline<'_>,
    conn: &Conn,
    handle: &[u8],
    start: u64,
    data: &SliceData,
    content: &[u8],
) -> usize {
    let mut used = 0;
    let mut writes = 0;
    for extent in &data.extents {
        let len = extent.len as usize;
        let mut offset = start + u64::from(extent.start);
        // The lengths were checked when the content was.
        for piece in content.get(used..used + len).unwrap_or_default().chunks(conn.server.max_write as usize)
        {
            pipeline.write(handle, offset, piece);
            offset += piece.len() as u64;
            writes += 1;
        }
        used += len;
    }
    writes
}

/// The number of writes that [`write_extents`] requests.
fn writes(conn: &Conn, data: &SliceData) -> usize {
    data.extents.iter().map(|extent| extent.len.div_ceil(conn.server.max_write) as usize).sum()
}

/// Takes the answers for all files. Returns for each whether its owner is right. A file that was read back is closed
/// now: a short answer needs its handle.
fn check<'a, 'b>(
    sink: &SftpSink,
    conn: &Conn,
    pipeline: &mut Pipeline<'_>,
    staged: Vec<Result<StagedSmallFile<'a, 'b>>>,
) -> Vec<Result<(StagedSmallFile<'a, 'b>, bool)>> {
    let mut taken = Vec::with_capacity(staged.len());
    for one in staged {
        taken.push(one.map(|one| {
            let owned = take(sink, conn, pipeline, &one);
            (one, owned)
        }));
    }
    let read_back = sink.options.verify_disk;
    for (one, _) in taken.iter().flatten().filter(|_| read_back) {
        pipeline.ask(&SftpRequest::Close { handle: &one.handle });
    }
    let mut checked = Vec::with_capacity(taken.len());
    for one in taken {
        checked.push(one.and_then(|(one, owned)| {
            let closed = if read_back { pipeline.next_reply().ok() } else { Ok(()) };
            let owned = owned?;
            closed.map_err(|fault| sink.write_error(conn, "write", one.file.entry, fault))?;
            Ok((one, owned))
        }));
    }
    checked
}

/// Takes the answers for one file. Returns whether its owner is right.
fn take(
    sink: &SftpSink,
    conn: &Conn,
    pipeline: &mut Pipeline<'_>,
    one: &StagedSmallFile<'_, '_>,
) -> Result<bool> {
    let entry = one.file.entry;
    let written = take_writes(pipeline, writes(conn, one.file.data));
    let owned = match &one.asked {
        Some(asked) => meta::take_file(asked, pipeline, entry, &sink.notes, &sink.options),
        None => Ok(false),
    };
    let synced = if sink.options.durable && conn.server.fsync { pipeline.next_reply().ok() } else { Ok(()) };
    let verified = if sink.options.verify_disk {
        let mut hasher = SliceHasher::new(entry.len, 0);
        take_answers(conn, pipeline, &one.handle, 0, entry.len, &mut |bytes| hasher.update(bytes))
            .map(|taken| taken.whole && hasher.finish() == one.file.data.value)
    } else {
        Ok(true)
    };
    let closed = if sink.options.verify_disk { Ok(()) } else { pipeline.next_reply().ok() };
    written.map_err(|fault| sink.write_error(conn, "write", entry, fault))?;
    let owned = owned.map_err(|fault| sink.write_error(conn, "write", entry, fault))?;
    synced.map_err(|fault| sink.write_error(conn, "sync", entry, fault))?;
    if !verified.map_err(|fault| sink.tree.error("read back", &entry.path, fault))? {
        return Err(gave_back_other(sink, entry));
    }
    closed.map_err(|fault| sink.write_error(conn, "write", entry, fault))?;
    Ok(owned)
}

/// Takes the answers to `count` writes. Returns the first error.
pub(super) fn take_writes(pipeline: &mut Pipeline<'_>, count: usize) -> Result<(), Fault> {
    let mut all = Ok(());
    for _ in 0..count {
        all = all.and(pipeline.next_reply().ok());
    }
    all
}

/// The error of content that differs when it is read back.
pub(super) fn gave_back_other(sink: &SftpSink, entry: &Entry) -> Error {
    let cause = "the server gave back other content than was sent";
    sink.tree.fault(ErrorKind::Corrupt, "verify", &entry.path, cause)
}

/// Renames the files into place.
fn publish(
    sink: &SftpSink,
    conn: &Conn,
    checked: Vec<Result<(StagedSmallFile<'_, '_>, bool)>>,
) -> Vec<Result<Outcome>> {
    let mut pipeline = Pipeline::new(conn);
    let mut late = Vec::with_capacity(checked.len());
    for (one, owned) in checked.iter().flatten() {
        late.push(meta::late_mode(&mut pipeline, one.part.remote(), &one.wish, *owned));
        sink.ask_publish(&mut pipeline, conn, one.part.remote(), &one.file.entry.path);
    }
    let mut late = late.into_iter();
    let mut outcomes = Vec::with_capacity(checked.len());
    for one in checked {
        outcomes.push(one.and_then(|(one, _)| {
            let entry = one.file.entry;
            let mode = if late.next() == Some(true) {
                meta::take_late_mode(&mut pipeline, entry, &sink.notes)
            } else {
                Ok(())
            };
            let renamed = sink.take_publish(&mut pipeline, conn);
            mode?;
            renamed.map_err(|fault| sink.tree.error("rename into place", &entry.path, fault))?;
            one.part.done();
            // The chaining value of the only slice is the digest of the file.
            Ok(Outcome::Committed(Some(Digest(one.file.data.value.0))))
        }));
    }
    outcomes
}

/// Whether a file is small: one slice.
pub(super) fn is_small(entry: &Entry) -> bool {
    entry.len <= SLICE_LEN
}

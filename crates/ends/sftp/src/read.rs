//! Reads slices: all requests of a batch are sent before the first answer is awaited.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_core::digest::{SliceHasher, slice_len};
use haul_core::{
    Batch, BatchData, Buffer, ChainingValue, Entry, Error, ErrorKind, Extent, Result, SLICE_LEN, Slice,
    SliceData,
};
use haul_threads::together;

use super::conn::Conn;
use super::open_files::FileHandles;
use super::packet::{self, SftpRequest};
use super::pipeline::{Pipeline, ask_one};
use super::reply::{Fault, unless_lost};
use super::tree::Tree;
use haul_ends::server_tree::ServerTree;

/// The most threads that hash files for one request. Each keeps a connection busy.
const HASHERS: u32 = 8;

/// Reads the slices of a batch and hashes them.
pub(super) fn read(tree: &Tree, batch: &Arc<Batch>) -> Result<BatchData> {
    tree.pool().want();
    tree.pool().on_one(|conn| {
        let empty = batch.entries.iter().all(|entry| entry.len == 0);
        let mut content = if empty { Buffer::default() } else { tree.sftp.buffers.take() };
        let items: Vec<(&Arc<Entry>, Slice)> = batch.iter().collect();
        let mut slices = Vec::with_capacity(items.len());
        for items in items.chunks(conn.files_at_once()) {
            read_some(tree, conn, items, &mut content, &mut slices)?;
        }
        Ok(BatchData { batch: batch.clone(), slices, content, at_hand: true })
    })
}

/// Takes two round trips: one opens the files, one reads and checks them.
fn read_some(
    tree: &Tree,
    conn: &Conn,
    items: &[(&Arc<Entry>, Slice)],
    content: &mut Buffer,
    slices: &mut Vec<Result<SliceData>>,
) -> Result<()> {
    let mut files = FileHandles::new(conn, items.len());
    let mut opens = Pipeline::new(conn);
    for (entry, _) in items {
        opens.ask(&SftpRequest::Open { path: &tree.remote(&entry.path), flags: packet::READ, mode: 0 });
    }
    let mut handles = Vec::with_capacity(items.len());
    let mut pipeline = Pipeline::new(conn);
    for (entry, slice) in items {
        let opened = opens.next_reply().handle();
        if let Ok(handle) = &opened {
            files.add(handle);
            let start = slice.start();
            ask_for(&mut pipeline, handle, start, slice.len_in(entry.len), conn.server.max_read);
            pipeline.ask(&SftpRequest::Fstat { handle });
        }
        handles.push(opened);
    }
    for ((entry, slice), opened) in items.iter().zip(handles) {
        let before = content.bytes().len();
        let read = match opened {
            Ok(handle) => {
                let taken = take_slice(tree, conn, &mut pipeline, entry, *slice, &handle, content);
                let stat = pipeline.next_reply().attrs();
                let (read, stat) = match taken {
                    Ok((data, AnswerSummary { asked_again: true, .. })) => {
                        (Ok(data), stat_now(conn, &handle))
                    }
                    taken => (taken.map(|(data, _)| data), stat),
                };
                match (read, stat) {
                    (Err(Fault::Lost(error)), _) | (_, Err(Fault::Lost(error))) => Err(error),
                    // A file that was replaced may no longer be readable.
                    (Err(_), Ok(now)) if !is_still(entry, &now) => Err(tree.changed(&entry.path)),
                    (Err(fault), _) | (_, Err(fault)) => Err(tree.error("read", &entry.path, fault)),
                    // Checked after the bytes were read: a file that still has the size and time of the scan was not
                    // changed, as far as whole seconds show.
                    (Ok(Some(data)), Ok(now)) if is_still(entry, &now) => Ok(data),
                    (Ok(_), Ok(_)) => Err(tree.changed(&entry.path)),
                }
            }
            Err(Fault::Lost(error)) => Err(error),
            Err(fault) => Err(tree.error("open", &entry.path, fault)),
        };
        if let Err(error) = &read {
            if error.retry() == haul_core::Retry::OtherStream {
                return Err(error.clone());
            }
            content.truncate(before);
        }
        slices.push(read);
    }
    Ok(())
}

/// Requests `len` bytes from `start`, in requests of at most `most` bytes.
pub(super) fn ask_for(pipeline: &mut Pipeline<'_>, handle: &[u8], start: u64, len: u64, most: u32) {
    let mut at = 0;
    while at < len {
        let step = (len - at).min(u64::from(most)) as u32;
        pipeline.ask(&SftpRequest::Read { handle, offset: start + at, len: step });
        at += u64::from(step);
    }
}

/// A summary of the answers to [`ask_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerSummary {
    /// All bytes came; else the file is shorter.
    pub(super) whole: bool,
    /// An answer was short, and the rest was requested after all other requests.
    pub(super) asked_again: bool,
}

/// Takes the answers to [`ask_for`] and passes them to `take` in order. The handle has to be open until then: the rest of
/// a short answer is requested.
pub(super) fn take_answers(
    conn: &Conn,
    pipeline: &mut Pipeline<'_>,
    handle: &[u8],
    start: u64,
    len: u64,
    take: &mut dyn FnMut(&[u8]),
) -> Result<AnswerSummary, Fault> {
    let most = u64::from(conn.server.max_read);
    let mut taken = Ok(AnswerSummary { whole: true, asked_again: false });
    let mut at = 0;
    while at < len {
        let step = (len - at).min(most);
        let answer = pipeline.next_reply().data();
        // All answers are taken, even after an error.
        if let Ok(AnswerSummary { whole: true, asked_again }) = taken {
            let filled = answer.and_then(|data| fill(conn, handle, start + at, step, data, take));
            taken = filled.map(|now| AnswerSummary { asked_again: asked_again | now.asked_again, ..now });
        }
        at += step;
    }
    taken
}

/// Takes one answer, and requests the rest if the server sent less than was asked for.
fn fill(
    conn: &Conn,
    handle: &[u8],
    mut offset: u64,
    mut left: u64,
    mut data: Option<packet::Data>,
    take: &mut dyn FnMut(&[u8]),
) -> Result<AnswerSummary, Fault> {
    let mut asked_again = false;
    loop {
        let Some(part) = data.filter(|part| !part.bytes().is_empty()) else {
            return Ok(AnswerSummary { whole: false, asked_again });
        };
        let len = part.bytes().len() as u64;
        if len > left {
            let cause = "the server sent more than it was asked for";
            let error = Error::new(ErrorKind::Protocol, haul_core::Side::Wire, "read", cause);
            return Err(Fault::Lost(error));
        }
        take(part.bytes());
        offset += len;
        left -= len;
        if left == 0 {
            return Ok(AnswerSummary { whole: true, asked_again });
        }
        asked_again = true;
        data = ask_one(conn, &SftpRequest::Read { handle, offset, len: left as u32 }).data()?;
    }
}

/// Takes the content of one slice; `None` if the file has become shorter.
fn take_slice(
    tree: &Tree,
    conn: &Conn,
    pipeline: &mut Pipeline<'_>,
    entry: &Entry,
    slice: Slice,
    handle: &[u8],
    content: &mut Buffer,
) -> Result<(Option<SliceData>, AnswerSummary), Fault> {
    let start = slice.start();
    let len = slice.len_in(entry.len);
    let mut hasher = SliceHasher::new(entry.len, start);
    let mut room = true;
    let taken = take_answers(conn, pipeline, handle, start, len, &mut |bytes| {
        hasher.update(bytes);
        match content.grow(bytes.len()) {
            Some(space) => space.copy_from_slice(bytes),
            None => room = false,
        }
    })?;
    if !room {
        return Err(Fault::Lost(tree.fault(
            ErrorKind::Protocol,
            "read",
            &entry.path,
            "the batch is too large",
        )));
    }
    let extents = if len == 0 { Vec::new() } else { vec![Extent::data(0, len as u32)] };
    Ok((taken.whole.then(|| SliceData { extents, value: hasher.finish() }), taken))
}

/// The metadata of an open file after its content was read.
fn stat_now(conn: &Conn, handle: &[u8]) -> Result<packet::Attrs, Fault> {
    ask_one(conn, &SftpRequest::Fstat { handle }).attrs()
}

fn is_still(entry: &Entry, now: &packet::Attrs) -> bool {
    let time = now.times.map(|(_, modified)| i64::from(modified));
    now.size == Some(entry.len) && time.is_none_or(|time| time == entry.mtime.sec)
}

/// The threads that hash files.
pub(super) fn hashers(tree: &Tree) -> u32 {
    tree.pool().streams().clamp(2, HASHERS)
}

/// The chaining values of slices of a staged file of a large file of `len` bytes, by reading them over all connections;
/// `None` for one that could not be read.
pub(super) fn staged(
    tree: &Tree,
    path: &[u8],
    len: u64,
    indices: &[u32],
) -> Result<Vec<Option<ChainingValue>>> {
    let next = AtomicUsize::new(0);
    let values = Mutex::new(vec![None; indices.len()]);
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(index) = indices.get(at) else { return Ok(()) };
            let value = tree.pool().on_one(|conn| staged_slice(conn, path, len, *index))?;
            values.lock()[at] = value;
        }
    };
    together(HASHERS as usize, "hash", work)?.into_iter().collect::<Result<()>>()?;
    Ok(values.into_inner())
}

fn staged_slice(conn: &Conn, path: &[u8], len: u64, index: u32) -> Result<Option<ChainingValue>> {
    let mut files = FileHandles::new(conn, 1);
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Open { path, flags: packet::READ, mode: 0 });
    let Ok(handle) = unless_lost(pipeline.next_reply().handle())? else { return Ok(None) };
    files.add(&handle);
    let (start, slice) = (u64::from(index) * SLICE_LEN, slice_len(len, index));
    let mut hasher = SliceHasher::new(len, start);
    ask_for(&mut pipeline, &handle, start, slice, conn.server.max_read);
    let read = take_answers(conn, &mut pipeline, &handle, start, slice, &mut |bytes| hasher.update(bytes));
    Ok(unless_lost(read)?.is_ok_and(|taken| taken.whole).then(|| hasher.finish()))
}

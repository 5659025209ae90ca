//! Large files: staged slice by slice, on any connection, with a journal beside the staged file.
//!
//! The journal is the one of local files ([`haul_core::journal`]); as SFTP tells no inodes, it names none. Nothing
//! but the first slices of a run makes the staged file: a slice that is sent again after its file got its name finds
//! no staged file, and makes none.

use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::digest::SliceHasher;
use haul_core::journal::{self, HEADER_LEN, RECORD_LEN};
use haul_core::{
    ChainingValue, Error, ErrorKind, Offer, Outcome, Preserve, Result, SLICE_LEN, Slice, SliceData,
};

use super::conn::Conn;
use haul_ends::large_file::ServerJournal;
use haul_ends::offers::PendingOffer;

use super::large_file::{LargeFile, LargeFileProgress, large_file};
use super::meta::{self, MetaChange, Wish, seconds};
use super::open_files::FileHandles;
use super::packet::{self, Attrs, SftpRequest};
use super::pipeline::{Pipeline, ask_one};
use super::read::{self, ask_for, take_answers};
use super::reply::{Fault, unless_lost};
use super::small::{gave_back_other, take_writes, write_extents};
use super::state::{PRIVATE, SftpSink};
use super::stream;
use super::tree::file_mode;

/// Finds the staged files and journals that interrupted runs left of these files, and returns the slices to keep, as
/// ranges. Removes staged files and journals without a slice to keep.
pub(super) fn prepare(
    sink: &SftpSink,
    files: &[&PendingOffer<'_, Attrs>],
) -> Result<Vec<Result<Vec<Range<u32>>>>> {
    let mut all = Vec::with_capacity(files.len());
    for PendingOffer { offer: Offer { entry, .. }, now, .. } in files {
        let replaces = now.as_ref().and_then(file_mode).is_some();
        // Other connections open the staged file too, as its owner.
        let first_mode = sink.first_mode(entry, replaces) | PRIVATE;
        if let Some(large) = sink.large_files.of(entry) {
            all.push(Ok(large.resumable()));
            continue;
        }
        let empty = large_file(&sink.tree, entry, first_mode, &[]);
        let SlicesLeft { found, known, synced } = sink.tree.pool().on_one(|conn| load(conn, &empty))?;
        // Slices that were not synced may be lost after a crash of the server.
        let known = if sink.options.verify_disk || !synced { reread(sink, &empty, known)? } else { known };
        if sink.options.dry_run {
            all.push(Ok(Vec::new()));
            continue;
        }
        if found && known.is_empty() {
            sink.remove_all(&[empty.part.clone(), empty.journal.clone()])?;
        }
        let large = large_file(&sink.tree, entry, first_mode, &known);
        all.push(Ok(large.resumable()));
        sink.large_files.put(large);
    }
    Ok(all)
}

/// The slices that an interrupted run has left.
struct SlicesLeft {
    /// Whether there is a staged file or a journal.
    found: bool,
    /// The slices that the journal proves.
    known: Vec<(u32, ChainingValue)>,
    /// Whether they were synced.
    synced: bool,
}

fn load(conn: &Conn, large: &LargeFile) -> Result<SlicesLeft> {
    let nothing = |found| SlicesLeft { found, known: Vec::new(), synced: true };
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Lstat { path: &large.part });
    pipeline.ask(&SftpRequest::Lstat { path: &large.journal });
    let (part, journal) = (pipeline.next_reply().attrs(), pipeline.next_reply().attrs());
    let found = part.is_ok() || journal.is_ok();
    let Ok(part) = unless_lost(part)? else { return Ok(nothing(found)) };
    let Ok(journal) = unless_lost(journal)? else { return Ok(nothing(found)) };
    // An honest journal holds each slice a few times at most.
    let staged = part.size.unwrap_or_default().min(large.entry().len);
    let most = HEADER_LEN as u64 + (staged / SLICE_LEN + 1) * 4 * RECORD_LEN as u64;
    let len = journal.size.unwrap_or_default().min(most);
    // A journal of another user cannot be trusted.
    let owner = |attrs: &Attrs| attrs.owner.map(|(user, _)| user);
    let foreign = owner(&part) != owner(&journal);
    // A private file of a run that took permissions over does not tell the umask of the server.
    let private = |mode: u32| mode & 0o777 == PRIVATE;
    let foreign = foreign || !private(large.making) && part.mode.is_none_or(private);
    if foreign
        || part.size.is_none_or(|size| size > large.entry().len)
        || !is_file(&part)
        || !is_file(&journal)
    {
        return Ok(nothing(found));
    }
    let mut files = FileHandles::new(conn, 1);
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Open { path: &large.journal, flags: packet::READ, mode: 0 });
    let Ok(handle) = unless_lost(pipeline.next_reply().handle())? else { return Ok(nothing(found)) };
    files.add(&handle);
    let mut bytes = Vec::new();
    ask_for(&mut pipeline, &handle, 0, len, conn.server.max_read);
    let read = take_answers(conn, &mut pipeline, &handle, 0, len, &mut |some| bytes.extend_from_slice(some));
    let _refused = unless_lost(read)?;
    Ok(match journal::decode(&bytes) {
        Some((header, known)) if header == large.header(header.synced) => {
            SlicesLeft { found, known, synced: header.synced }
        }
        _ => nothing(found),
    })
}

fn is_file(attrs: &Attrs) -> bool {
    attrs.mode.is_none_or(|mode| mode & super::tree::KIND == super::tree::FILE)
}

/// Reads the slices of the journal back from the staged file. Returns all of them, or none if one differs, as the
/// journal would still list it.
fn reread(
    sink: &SftpSink,
    large: &LargeFile,
    known: Vec<(u32, ChainingValue)>,
) -> Result<Vec<(u32, ChainingValue)>> {
    let indices: Vec<u32> = known.iter().map(|(index, _)| *index).collect();
    let values = read::staged(&sink.tree, &large.part, large.entry().len, &indices)?;
    let confirmed = known.iter().zip(values).all(|((_, value), read)| read == Some(*value));
    Ok(if confirmed { known } else { Vec::new() })
}

/// Writes a slice. The last slice also renames the file into place.
pub(super) fn write(
    sink: &SftpSink,
    conn: &Arc<Conn>,
    large: &LargeFile,
    slice: Slice,
    data: &SliceData,
    content: &[u8],
) -> Result<Outcome> {
    if let Some(digest) = large.ended.get() {
        return Ok(Outcome::Committed(Some(*digest)));
    }
    stream::will_differ(sink, large, slice)?;
    let written = stage(sink, conn, large, slice, data, content);
    if let Err(Fault::Status(packet::NO_SUCH_FILE, _)) = &written
        && large.lock().made
    {
        return settle_missing(sink, conn, large);
    }
    written.map_err(|fault| match fault {
        Fault::Lost(error) => error,
        fault @ Fault::Status(..) => sink.write_error(conn, "write", large.entry(), fault),
    })?;
    let mut progress = large.lock();
    progress.proof.set(slice.index, data.value);
    progress.found.remove(&slice.index);
    progress.records.push((slice.index, data.value));
    match progress.proof.digest() {
        None => {
            drop(progress);
            record(conn, large, sink.options.durable && conn.server.fsync);
            Ok(Outcome::Stored)
        }
        Some(_) if progress.finishing => Ok(Outcome::Stored),
        Some(digest) => {
            progress.finishing = true;
            drop(progress);
            let finished = finish(sink, conn, large);
            if let Err(error) = finished {
                large.lock().finishing = false;
                return Err(error);
            }
            let _ = large.ended.set(digest);
            sink.large_files.take(&large.entry().path);
            Ok(Outcome::Committed(Some(digest)))
        }
    }
}

/// Takes two round trips: one opens the staged file, one writes to it, syncs it and closes it. If it is read back, it is
/// closed in a third.
fn stage(
    sink: &SftpSink,
    conn: &Conn,
    large: &LargeFile,
    slice: Slice,
    data: &SliceData,
    content: &[u8],
) -> Result<(), Fault> {
    let entry = large.entry();
    let _handle = conn.handles(1);
    let create = if large.lock().made { 0 } else { packet::CREATE };
    let back = if sink.options.verify_disk { packet::READ } else { 0 };
    let mut pipeline = Pipeline::new(conn);
    let flags = packet::WRITE | create | back;
    pipeline.ask(&SftpRequest::Open { path: &large.part, flags, mode: large.making });
    let mut opened = pipeline.next_reply().handle();
    if matches!(&opened, Err(Fault::Status(packet::PERMISSION_DENIED, _))) {
        sink.tree.unlock(conn, [&entry.path]).map_err(Fault::Lost)?;
        pipeline.ask(&SftpRequest::Open { path: &large.part, flags, mode: large.making });
        opened = pipeline.next_reply().handle();
    }
    let handle = opened?;
    large.lock().made = true;
    let (start, len) = (slice.start(), slice.len_in(entry.len));
    let written = data.extents.last().map_or(0, |e| u64::from(e.start) + u64::from(e.len));
    // Cuts off the rest of a longer stream that an interrupted run has staged.
    let is_end = entry.is_stream() && !entry.is_growing();
    let hole = written < len || is_end;
    if hole {
        let attrs = Attrs { size: Some(entry.len), ..Attrs::default() };
        pipeline.ask(&SftpRequest::Fsetstat { handle: &handle, attrs });
    }
    let writes = {
        let _turn = conn.turn();
        write_extents(&mut pipeline, conn, &handle, start, data, content)
    };
    let fsync = sink.options.durable && conn.server.fsync;
    if fsync {
        pipeline.ask(&SftpRequest::Fsync { handle: &handle });
    }
    if sink.options.verify_disk {
        ask_for(&mut pipeline, &handle, start, len, conn.server.max_read);
    } else {
        pipeline.ask(&SftpRequest::Close { handle: &handle });
    }
    let sized = if hole { pipeline.next_reply().ok() } else { Ok(()) };
    let written = take_writes(&mut pipeline, writes);
    let synced = if fsync { pipeline.next_reply().ok() } else { Ok(()) };
    let verified = if sink.options.verify_disk {
        let mut hasher = SliceHasher::new(entry.len, start);
        let read = take_answers(conn, &mut pipeline, &handle, start, len, &mut |bytes| hasher.update(bytes));
        pipeline.ask(&SftpRequest::Close { handle: &handle });
        read.map(|taken| taken.whole && hasher.finish() == data.value)
    } else {
        Ok(true)
    };
    let closed = pipeline.next_reply().ok();
    sized.and(written).and(synced)?;
    if !verified? {
        return Err(Fault::Lost(gave_back_other(sink, entry)));
    }
    closed
}

/// Appends slices that are durable to the journal. Waits for no answer: an error here costs only time of a later run.
fn record(conn: &Arc<Conn>, large: &LargeFile, synced: bool) {
    let mut progress = large.lock();
    if progress.finishing || progress.is_journal_busy() {
        return;
    }
    if !matches!(&progress.journal, ServerJournal::Open((conn, _)) if !conn.is_lost()) {
        progress.journal = ServerJournal::Busy;
        drop(progress);
        let opened = open_journal(conn, &large.journal);
        progress = large.lock();
        progress.journal = match opened {
            Ok(handle) => ServerJournal::Open((conn.clone(), handle)),
            Err(_) => ServerJournal::Closed,
        };
        large.opened.notify_all();
        // Records that were sent on a lost connection may not have arrived.
        progress.recorded = 0;
        if progress.finishing || matches!(progress.journal, ServerJournal::Closed) {
            return;
        }
    }
    let header = large.header(synced);
    let seed = header.seed();
    let mut at = (HEADER_LEN + progress.recorded * RECORD_LEN) as u64;
    let mut bytes = Vec::new();
    if progress.recorded == 0 {
        at = 0;
        bytes.extend(header.encode());
    }
    for (index, value) in &progress.records[progress.recorded..] {
        bytes.extend(journal::encode_record(seed, *index, value));
    }
    progress.recorded = progress.records.len();
    if let ServerJournal::Open((conn, handle)) = &progress.journal {
        let mut pipeline = Pipeline::new(conn);
        for piece in bytes.chunks(conn.server.max_write as usize) {
            pipeline.write(handle, at, piece);
            at += piece.len() as u64;
        }
        pipeline.flush();
    }
}

fn open_journal(conn: &Conn, path: &[u8]) -> Result<Vec<u8>, Fault> {
    ask_one(conn, &SftpRequest::Open { path, flags: packet::WRITE | packet::CREATE, mode: 0o600 }).handle()
}

/// Closes the journal, if it is open. The answer comes after those to its records.
pub(super) fn close_journal(large: &LargeFile) {
    let is_busy = |progress: &mut LargeFileProgress| progress.is_journal_busy();
    let mut progress = large.opened.wait_while(large.lock(), is_busy);
    let open = std::mem::replace(&mut progress.journal, ServerJournal::Closed);
    drop(progress);
    if let ServerJournal::Open((conn, handle)) = open {
        let _closed = ask_one(&conn, &SftpRequest::Close { handle: &handle });
    }
}

impl Drop for SftpSink {
    /// A sink that comes later, on other connections, has to find the records that are on their way.
    fn drop(&mut self) {
        for large in self.large_files.take_all() {
            close_journal(&large);
            self.remove_useless(&large);
        }
    }
}

impl SftpSink {
    /// Removes a staged file that no run can resume: the disk was full, and no slice is in the journal.
    fn remove_useless(&self, large: &LargeFile) {
        if !self.was_full.load(Ordering::Relaxed) || !large.lock().made || large.ended.get().is_some() {
            return;
        }
        let size = self.tree.pool().on_one(|conn| {
            let found = unless_lost(ask_one(conn, &SftpRequest::Lstat { path: &large.journal }).attrs())?;
            Ok(found.map_or(0, |attrs| attrs.size.unwrap_or_default()))
        });
        if size.is_ok_and(|size| size < (HEADER_LEN + RECORD_LEN) as u64) {
            let _ = self.remove_all(&[large.part.clone(), large.journal.clone()]);
        }
    }
}

/// Closes and removes the journal, if there is one. A journal that stays does no harm.
fn remove_journal(sink: &SftpSink, large: &LargeFile) {
    close_journal(large);
    // This is repeated if the connection is lost.
    let _ = sink.remove_all(slice::from_ref(&large.journal));
}

/// Sets metadata, renames the file into place, and removes the journal.
fn finish(sink: &SftpSink, conn: &Conn, large: &LargeFile) -> Result<()> {
    let entry = large.entry();
    let failed = |fault| match fault {
        Fault::Lost(error) => error,
        fault @ Fault::Status(..) => sink.tree.error("set the metadata of", &entry.path, fault),
    };
    let notes = &sink.notes;
    let mut wish = Wish::of(&sink.options.preserve, entry);
    if wish.mode.is_none() {
        wish.mode = mode_there(sink, conn, large).map_err(failed)?;
    }
    let mut pipeline = Pipeline::new(conn);
    let asked = meta::ask_path(&mut pipeline, &large.part, &wish);
    let owned = meta::take_file(&asked, &mut pipeline, entry, notes, &sink.options).map_err(failed)?;
    let mut pipeline = Pipeline::new(conn);
    let late = meta::late_mode(&mut pipeline, &large.part, &wish, owned);
    sink.ask_publish(&mut pipeline, conn, &large.part, &entry.path);
    let mode = if late { meta::take_late_mode(&mut pipeline, entry, notes) } else { Ok(()) };
    let renamed = sink.take_publish(&mut pipeline, conn);
    mode?;
    match renamed {
        Ok(()) => {}
        Err(fault) if fault.is_missing() => return settle_missing(sink, conn, large).map(drop),
        Err(fault) => return Err(sink.tree.error("rename into place", &entry.path, fault)),
    }
    remove_journal(sink, large);
    Ok(())
}

/// The mode of a complete file if permissions are not taken over: that of the file that it replaces, or that of the
/// source within the umask of the server, which has limited the mode of the staged file.
fn mode_there(sink: &SftpSink, conn: &Conn, large: &LargeFile) -> Result<Option<u32>, Fault> {
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Lstat { path: &sink.tree.remote(&large.entry().path) });
    pipeline.ask(&SftpRequest::Lstat { path: &large.part });
    let (there, part) = (pipeline.next_reply().attrs(), pipeline.next_reply().attrs());
    let replaced = match there {
        Ok(now) => file_mode(&now).map(Preserve::replacing_mode),
        Err(fault) if fault.is_missing() => None,
        Err(fault) => return Err(fault),
    };
    if let Some(mode) = replaced {
        return Ok(Some(mode & 0o7777));
    }
    match part {
        Ok(part) => Ok(part.mode.map(|mode| Preserve::new_mode(large.entry(), mode))),
        // It was renamed on a connection that was lost.
        Err(fault) if fault.is_missing() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The staged file is gone: it was renamed on a connection that was lost, or another process removed it.
fn settle_missing(sink: &SftpSink, conn: &Conn, large: &LargeFile) -> Result<Outcome> {
    let entry = large.entry();
    let digest = large.lock().proof.digest();
    let there = ask_one(conn, &SftpRequest::Lstat { path: &sink.tree.remote(&entry.path) }).attrs();
    let there = unless_lost(there)?;
    let time = Some(seconds(entry.mtime));
    let renamed =
        there.is_ok_and(|now| now.size == Some(entry.len) && now.times.map(|(_, modified)| modified) == time);
    match digest {
        Some(digest) if renamed => {
            let _ = large.ended.set(digest);
            sink.large_files.take(&entry.path);
            remove_journal(sink, large);
            let wish = Wish::of(&sink.options.preserve, entry);
            sink.set_all(&[MetaChange { entry, wish, now: None }])?;
            Ok(Outcome::Committed(Some(digest)))
        }
        _ => {
            sink.large_files.take(&entry.path);
            let cause = "its staged file is gone";
            let error: Error = sink.tree.fault(ErrorKind::Busy, "write", &entry.path, cause);
            Err(error.with_hint("is another haul writing it? Run the same command again"))
        }
    }
}

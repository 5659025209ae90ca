//! Moves one file of a source to its output.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use haul_core::retry::{CONNECTION_RETRIES, LONGEST_PAUSE};
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, ContentLimit, Entry, Error, ErrorKind, Result, Retries, Retry,
    SLICE_LEN, Side, Slice, Source,
};
use haul_threads::ScopedThreads;

use super::check::CheckedBy;
use super::output::ContentOutput;
use super::pieces::{Pieces, deliver};
use super::settings::{GetStatus, Got};
use super::stream_tree::StreamTree;
use super::window::{Fetched, Ranges, Window};
use crate::encoding::Encoding;

/// A file to read.
pub struct InputFile {
    /// Its name, for messages.
    pub name: String,
    /// Where it is.
    pub source: Arc<dyn Source>,
    /// Its entry.
    pub entry: Arc<Entry>,
    /// The source hashes a file without sending it, so that the output of an earlier run can be verified.
    pub hashes: bool,
    /// The memory of the source.
    pub pool: BufferPool,
    /// The rate limit; `None` if the source is a member of a stream that keeps one.
    pub limit: Option<ContentLimit>,
}

impl InputFile {
    /// A name for the present state of the file.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        format!("{}\0{:?}", self.name, self.entry.identity()).into_bytes()
    }
}

/// Moves a file to `output`, slice by slice, each verified on arrival.
///
/// # Errors
/// `SourceChanged` if the file changes meanwhile, `Corrupt` if it does not verify, else the error of reading or writing.
/// The last bytes were not written then.
pub fn get_file(
    file: &InputFile,
    mut output: ContentOutput,
    status: &Arc<GetStatus>,
    cancel: &AtomicBool,
) -> Result<Got> {
    if file.hashes {
        output.align(SLICE_LEN)?;
    } else if output.there() > 0 {
        output.restart()?;
    }
    let mut tree = StreamTree::new(file.entry.len);
    output.reread(&mut |bytes| tree.update(bytes))?;
    let slices = FileSlices { file, cancel };
    status.resumed.store(output.there(), Ordering::Relaxed);
    // The other half is for content on its way.
    let window = Window::new(&slices, output.there(), (file.pool.count() / 2).max(3), &status.pace);
    let resumed = output.there() > 0;
    let got = thread::scope(|scope| {
        let threads = ScopedThreads::new(scope, "range", |_| window.fetch());
        if let Err(error) = threads.grow(window.threads()) {
            window.end();
            return Err(error);
        }
        let mut pieces = FilePieces { window: &window, file, tree, status, resumed };
        let delivered = deliver(&mut pieces, &mut output);
        if !matches!(delivered, Ok(Some(_))) {
            status.pace.lift();
        }
        window.end();
        delivered.map(|checked| (checked, pieces.tree.digest()))
    });
    let got = got.map_err(|error| match error.subject().is_empty() && error.side() != Side::Local {
        true => error.on(&file.name),
        false => error,
    });
    output.end(got.map(|(checked, digest)| {
        let (encoding, len) = (Encoding::default(), file.entry.len);
        Got { checked, asked_again: window.asked_again(), encoding, len, digest, sha256: None }
    }))
}

/// The slices of a file.
struct FileSlices<'a> {
    file: &'a InputFile,
    cancel: &'a AtomicBool,
}

impl FileSlices<'_> {
    /// Reads one slice, again if its connection was lost.
    fn read(&self, index: u32, unwanted: &AtomicBool) -> Result<(BatchData, Arc<Batch>)> {
        let mut retries = Retries::default();
        let len = Slice::whole(0, index).len_in(self.file.entry.len);
        let has_ended = || self.cancel.load(Ordering::Relaxed) || unwanted.load(Ordering::Relaxed);
        loop {
            let turn = self.file.limit.as_ref().and_then(|limit| limit.reserve(len));
            if has_ended() || turn.as_ref().is_some_and(|turn| !turn.wait_start(&has_ended)) {
                let error = Error::new(ErrorKind::Cancelled, Side::Local, "read", "interrupted");
                return Err(error.on(&self.file.name));
            }
            let batch = Batch {
                entries: vec![Arc::clone(&self.file.entry)],
                slices: vec![Slice::whole(0, index)],
                again: retries.have_begun(),
            };
            let batch = Arc::new(batch);
            let read = self.file.source.read(&batch).and_then(|mut data| match data.slices.pop() {
                Some(Ok(slice)) => {
                    let is_sound = slice.same_len() == 0
                        && (data.at_hand
                            || slice.proves(&self.file.entry, Slice::whole(0, index), data.content.bytes()));
                    data.slices.push(Ok(slice));
                    if is_sound { Ok(data) } else { Err(self.corrupt(index)) }
                }
                Some(Err(error)) => Err(error),
                None => Err(self.corrupt(index)),
            });
            let error = match read {
                Ok(data) => {
                    if let Some(turn) = &turn {
                        turn.wait_end(&has_ended);
                    }
                    return Ok((data, batch));
                }
                Err(error) => error,
            };
            turn.into_iter().for_each(|turn| turn.give_back(len));
            let may_repeat = retries.may_repeat(error.retry(), CONNECTION_RETRIES);
            if !may_repeat || unwanted.load(Ordering::Relaxed) {
                return Err(error);
            }
            thread::sleep(retries.pause(LONGEST_PAUSE));
        }
    }

    fn corrupt(&self, index: u32) -> Error {
        let cause = format!("slice {index} did not arrive as it was read");
        let error = Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause);
        error.on(&self.file.name).with_retry(Retry::Again)
    }
}

impl Ranges for FileSlices<'_> {
    fn len(&self) -> u64 {
        self.file.entry.len
    }

    fn name(&self) -> String {
        self.file.name.clone()
    }

    fn fetch(&self, range: Range<u64>, unwanted: &AtomicBool) -> Result<Fetched> {
        let index = u32::try_from(range.start / SLICE_LEN).unwrap_or(u32::MAX);
        let (data, _) = self.read(index, unwanted)?;
        let Some(Ok(slice)) = data.slices.first() else { return Err(self.corrupt(index)) };
        let value = Some(slice.value);
        let len = (range.end - range.start) as usize;
        let mut content = data.content;
        if content.bytes().len() == len {
            return Ok(Fetched { content, value });
        }
        // Holes are zeros, and content moves to its place from the end on.
        let mut used = content.bytes().len();
        let missing = len.saturating_sub(used);
        if used > len || content.grow(missing).is_none() {
            return Err(self.corrupt(index));
        }
        let mut end = len;
        for extent in slice.extents.iter().rev() {
            let (start, extent_len) = (extent.start as usize, extent.len as usize);
            let (Some(from), Some(to)) = (used.checked_sub(extent_len), start.checked_add(extent_len)) else {
                return Err(self.corrupt(index));
            };
            if to > end {
                return Err(self.corrupt(index));
            }
            content.shift(from, start, extent_len);
            content.bytes_mut()[to..end].fill(0);
            (used, end) = (from, start);
        }
        content.bytes_mut()[..end].fill(0);
        Ok(Fetched { content, value })
    }
}

/// Reads a slice of a file, holes filled.
///
/// # Errors
/// As [`get_file`].
pub(crate) fn read_slice(file: &InputFile, index: u32, cancel: &AtomicBool) -> Result<Buffer> {
    let slices = FileSlices { file, cancel };
    let start = u64::from(index) * SLICE_LEN;
    let range = start..(start + SLICE_LEN).min(file.entry.len);
    slices.fetch(range, &AtomicBool::new(false)).map(|fetched| fetched.content)
}

/// The slices of a file in order.
struct FilePieces<'a> {
    window: &'a Window<'a>,
    file: &'a InputFile,
    tree: StreamTree,
    status: &'a GetStatus,
    /// The first slices are from an earlier run.
    resumed: bool,
}

impl Pieces for FilePieces<'_> {
    type Piece = Buffer;

    fn next(&mut self) -> Result<Option<Buffer>> {
        self.status.waits.store(true, Ordering::Relaxed);
        let piece = self.window.next()?;
        self.status.waits.store(false, Ordering::Relaxed);
        if let Some(piece) = &piece {
            self.tree.add(piece);
            self.status.written.fetch_add(piece.bytes().len() as u64, Ordering::Relaxed);
        }
        Ok(piece.map(|piece| piece.content))
    }

    fn checked(&mut self) -> Result<CheckedBy> {
        let (file, found) = (self.file, self.tree.digest());
        let lost = || Error::new(ErrorKind::Io, Side::Local, "verify", "its end was not seen").on(&file.name);
        let found = found.ok_or_else(lost)?;
        if !self.resumed {
            return Ok(CheckedBy::Blake3);
        }
        let path = std::slice::from_ref(&file.entry.path);
        let there = file.source.digest(path)?.pop().transpose()?.ok_or_else(lost)?;
        if there == found {
            return Ok(CheckedBy::Blake3);
        }
        let cause = "the output of an interrupted get differs from the file";
        let error = Error::new(ErrorKind::Corrupt, Side::Local, "verify", cause).on(&file.name);
        Err(error.with_hint("it was removed: run the same command again"))
    }
}

//! A file as the target of a stream: its slices are written while the stream is read, and the last one, which gives the
//! file its name, once the input is known to be complete.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Duration;

use haul_core::digest::{SLICE_LEN, slice_count};
use haul_core::entry::GROWING;
use haul_core::retry::{CONNECTION_RETRIES, LONGEST_PAUSE};
use haul_core::{
    Answer, Buffer, ChainingValue, Digest, Entry, Error, ErrorKind, Extent, FileTree, Offer, Outcome, Result,
    Retries, Side,
};

use super::beside::index_beside;
use super::cut::StreamPart;
use super::settings::{FileTarget, PutSettings, PutStatus, StoredObject};
use super::slices::{PutSlices, StreamPiece, batch};
use super::target::kept_note;

/// Threads that write into a file of this machine: they hash and write.
const LOCAL_THREADS: usize = 4;
/// Threads that write over connections: each waits for one.
const THREADS: usize = 16;
/// Slices on their way into a file of this machine, which is not kept in memory meanwhile.
const LOCAL_WINDOW: usize = 128;
/// How often haul asks a sink that has not answered to make its writes durable.
const FLUSH: Duration = Duration::from_millis(500);

/// A file while the stream is read.
pub(super) struct FileStream<'a> {
    target: &'a FileTarget,
    settings: &'a PutSettings,
    status: &'a Arc<PutStatus>,
    slices: Arc<PutSlices>,
    /// The newest slice, which may be the last one.
    held: Option<StreamPiece>,
    /// The number of slices that were handed over.
    count: u32,
    has_begun: bool,
}

impl<'a> FileStream<'a> {
    pub(super) fn new(target: &'a FileTarget, settings: &'a PutSettings, status: &'a Arc<PutStatus>) -> Self {
        let slices = Self::slices(target, settings, status, Vec::new());
        Self { target, settings, status, slices, held: None, count: 0, has_begun: false }
    }

    fn slices(
        target: &FileTarget,
        settings: &PutSettings,
        status: &Arc<PutStatus>,
        left: Vec<std::ops::Range<u32>>,
    ) -> Arc<PutSlices> {
        let entry = Arc::new(Entry::stream(target.path.clone(), GROWING));
        // A quarter of the memory is filled meanwhile.
        let in_memory = usize::try_from(settings.memory / SLICE_LEN * 3 / 4).unwrap_or(usize::MAX);
        let window = if target.sink.streams() > 0 { in_memory } else { LOCAL_WINDOW };
        Arc::new(PutSlices::new(target, entry, left, window, status))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.slices.has_failed()
    }

    /// Checks that the file may be written, and finds the staged file of an interrupted run.
    pub(super) fn prepare(&mut self) {
        match self.try_prepare() {
            Ok(left) => self.slices = Self::slices(self.target, self.settings, self.status, left),
            Err(error) => self.slices.fail(error),
        }
    }

    fn try_prepare(&self) -> Result<Vec<std::ops::Range<u32>>> {
        let target = self.target;
        if !target.sink.caps().growing {
            let cause = "a file of unknown length cannot be written there";
            return Err(self.error(ErrorKind::Unsupported, "put the stream", cause));
        }
        self.check_there()?;
        let offer = Offer { entry: Arc::new(Entry::stream(target.path.clone(), GROWING)), digest: None };
        let left = match target.sink.offer(&[offer])?.pop() {
            Some(Ok(Answer::Need { have, .. })) => have,
            Some(Err(error)) => return Err(error),
            _ => {
                let cause = "the destination does not take the file";
                return Err(self.error(ErrorKind::Protocol, "put the stream", cause));
            }
        };
        if !self.settings.resume {
            return Ok(Vec::new());
        }
        if left.is_empty() {
            (target.note)(&format!("nothing is left of an earlier put of {}: it begins anew", target.name));
        }
        Ok(left)
    }

    /// # Errors
    /// That a directory or something else than a file has the name, or with `no_clobber` anything.
    fn check_there(&self) -> Result<()> {
        let target = self.target;
        let found = target.there.lookup(std::slice::from_ref(&target.path))?.pop();
        let Some(there) = found.transpose()?.flatten() else { return Ok(()) };
        if there.is_dir() {
            let error = self.error(ErrorKind::Usage, "put the stream", "it is a directory");
            return Err(error.with_hint("add the name of the file"));
        }
        if self.settings.options.no_clobber {
            let cause = "it is there already, and --no-clobber was given";
            return Err(self.error(ErrorKind::Io, "write", cause));
        }
        if !there.is_file() && !matches!(there.kind, haul_core::EntryKind::Symlink(_)) {
            let error = self.error(ErrorKind::Usage, "put the stream", "it is a pipe, a socket or a device");
            return Err(error.with_hint("a put replaces files only"));
        }
        Ok(())
    }

    fn error(&self, kind: ErrorKind, operation: &str, cause: &str) -> Error {
        Error::new(kind, Side::Destination, operation, cause).on(&self.target.name)
    }

    /// Starts the threads, unless they run.
    pub(super) fn begin<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) {
        if self.has_begun || self.has_failed() {
            return;
        }
        self.has_begun = true;
        let count = if self.target.sink.streams() > 0 { THREADS } else { LOCAL_THREADS };
        for number in 0..count {
            let slices = Arc::clone(&self.slices);
            match haul_threads::spawn(scope, "slice", move || slices.work()) {
                Ok(_) => self.slices.has_threads(),
                // The threads that could be started suffice.
                Err(_) if number > 0 => break,
                Err(error) => return self.slices.fail(error),
            }
        }
    }

    /// Takes the next part of the stream. Its last slice waits for the next part, or for the end.
    pub(super) fn feed(&mut self, part: &Arc<StreamPart>) {
        let mut at = 0;
        while at < part.payload.len() && !self.has_failed() {
            let len = (part.payload.len() - at).min(SLICE_LEN);
            let piece = StreamPiece { part: Arc::clone(part), at, len };
            if let Some(before) = self.held.replace(piece) {
                self.slices.submit(self.count, before);
                self.count += 1;
            }
            at += len;
        }
    }

    /// There are no more parts.
    pub(super) fn close(&mut self) {
        self.slices.close();
    }

    /// The input has failed: slices that wait are dropped, and those on their way pass.
    pub(super) fn stop(&self) {
        self.slices.stop();
    }

    /// Gives the file its name: the input is complete.
    ///
    /// # Errors
    /// The first error of a slice, or that of the end.
    pub(super) fn commit(mut self, len: u64, index: Option<&[u8]>) -> Result<StoredObject> {
        self.slices.close();
        // Writes the slices here, if there is no thread.
        self.slices.work();
        let made = match self.slices.take_error() {
            Some(error) => Err(error),
            None => self.end(len),
        };
        let digest = made.map_err(|error| self.leave(error))?;
        if let Err(error) = index_beside(self.target, len, index) {
            let target = self.target;
            (target.note)(&format!(
                "{}: it is stored, without an index of its members: {error}",
                target.name
            ));
        }
        self.target.sink.finish()?.notes.iter().for_each(|note| {
            let text = format!("{}: {}", note.what, note.cause);
            (self.target.note)(&text);
        });
        Ok(StoredObject { len, digest: Some(digest), parts: 0 })
    }

    /// Writes the last slice.
    fn end(&mut self, len: u64) -> Result<Digest> {
        if self.settings.options.no_clobber {
            self.check_there()?;
        }
        let entry = Arc::new(Entry::stream(self.target.path.clone(), len));
        let last = slice_count(len) - 1;
        let sent: u64 = u64::from(self.count) * SLICE_LEN + self.held.as_ref().map_or(0, |piece| piece.len);
        if last != self.count || sent != len {
            return Err(self.error(ErrorKind::Io, "put the stream", "not all of it was handed over"));
        }
        let mut tree = self.slices.tree();
        tree.end_at(len);
        let mut retries = Retries::default();
        loop {
            let (content, value) = match &self.held {
                Some(piece) => piece.load(&self.target.pool, len, last)?,
                None => (Buffer::default(), empty()),
            };
            if last == 0 {
                tree = FileTree::new(len);
            }
            tree.set(last, value);
            let digest = tree.digest().ok_or_else(|| {
                self.error(ErrorKind::Io, "put the stream", "a slice of it was not written")
            })?;
            self.target.limit.pass(content.bytes().len(), &|| false);
            let extent = (!content.bytes().is_empty()).then(|| Extent::data(0, content.bytes().len() as u32));
            match self.write_end(batch(&entry, last, (extent, value), content, retries.have_begun())) {
                Ok(Outcome::Committed(Some(found))) if found == digest => {
                    let len = self.held.take().map_or(0, |piece| piece.len);
                    self.status.sent.fetch_add(len, Ordering::Relaxed);
                    return Ok(digest);
                }
                Ok(Outcome::Committed(_)) => {
                    let cause = "the destination has another digest than the stream";
                    return Err(self.error(ErrorKind::Corrupt, "verify", cause));
                }
                // The end may have arrived twice, and its first copy may have given the file its name.
                Ok(Outcome::Stored) if self.is_there(&entry, digest)? => return Ok(digest),
                Ok(Outcome::Stored) => {
                    let cause = "all of it was sent, and the destination does not say that it is there";
                    return Err(self.error(ErrorKind::Io, "commit", cause));
                }
                Err(error) if retries.may_repeat(error.retry(), CONNECTION_RETRIES) => {
                    std::thread::sleep(retries.pause(LONGEST_PAUSE));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes the last slice and waits until the file has its name, which takes as long as reading back the
    /// slices of an interrupted run.
    fn write_end(&self, data: haul_core::BatchData) -> Result<Outcome> {
        let sink = &self.target.sink;
        let (sender, receiver) = channel();
        sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
        loop {
            sink.flush();
            let lost = || self.error(ErrorKind::Io, "write", "the thread that had the slice ended early");
            match receiver.recv_timeout(FLUSH) {
                Ok(mut outcomes) => return outcomes.pop().unwrap_or_else(|| Err(lost())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
    }

    /// Whether the destination has the file, by its digest.
    fn is_there(&self, entry: &Arc<Entry>, digest: Digest) -> Result<bool> {
        let offer = Offer { entry: Arc::clone(entry), digest: Some(digest) };
        let answer = self.target.sink.offer(&[offer])?.pop().transpose()?;
        Ok(matches!(answer, Some(Answer::Same | Answer::Updated(_))))
    }

    /// Handles the staged file of a failed target: if the host was unreachable it stays for `--resume`.
    fn leave(&self, error: Error) -> Error {
        let error = if error.subject().is_empty() { error.on(&self.target.name) } else { error };
        match error.kind() {
            ErrorKind::Unreachable if self.target.resumes => {
                error.with_hint("the sent data is kept there: the same command with --resume goes on from it")
            }
            // Nothing can be removed there, or another haul writes the file.
            ErrorKind::Unreachable | ErrorKind::Busy => error,
            _ => {
                self.discard();
                error
            }
        }
    }

    /// The input was incomplete: nothing of it stays, unless it `keeps` that.
    pub(super) fn give_up(self, keeps: bool) -> Option<Result<StoredObject>> {
        self.slices.close();
        self.slices.work();
        let error = self.slices.take_error().filter(|error| error.kind() != ErrorKind::Cancelled);
        let Some(error) = error else {
            if keeps && self.target.resumes && self.has_begun {
                (self.target.note)(&kept_note(&self.target.name));
            } else {
                self.discard();
            }
            return None;
        };
        Some(Err(self.leave(error)))
    }

    fn discard(&self) {
        let sink = &self.target.sink;
        let discarded = sink.discard(std::slice::from_ref(&self.target.path)).and_then(|()| sink.finish());
        if let Err(error) = discarded {
            (self.target.note)(&format!("{}: the staged file may still be there: {error}", self.target.name));
        }
    }
}

/// The proof of an empty file.
fn empty() -> ChainingValue {
    ChainingValue(Digest::of(b"").0)
}

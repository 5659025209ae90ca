//! Files of several slices: uploads in parts, each of a few slices that follow each other.
//!
//! Nothing is kept here of an upload but that haul began it. A later run finds it by the store's own list, and compares each
//! part with what it has read itself: what is there is not sent again. So a slice counts as taken once it is at hand for its
//! part; what counts in the end is that the store makes the object from all parts.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use haul_core::digest::slice_count;
use haul_core::{Digest, Entry, Error, ErrorKind, FileTree, Outcome, Result, Side, Slice, SliceData};
use haul_object::client::{joined_crc64, run_note};
use haul_object::encoding::Encoding;
use haul_object::sidecar::{self, Beside, Proof};
use haul_object::uploads::{self, Owner, Record};
use haul_object::{Client, HeldPart, Payload, PutOptions, Tag, Upload};

use super::part::{Part, blocks};
use super::sink::ObjectSink;
use super::{notes, within};

/// Slices in a part, at least: stores want 5 MiB.
const SLICES: u32 = 2;

/// Uploads that were not complete when the run began, by their keys; asked for once.
#[derive(Default)]
pub(super) struct Uploads(OnceLock<Mutex<HashMap<String, Vec<Upload>>>>);

/// A large file on its way.
pub(super) struct LargeFile {
    entry: Arc<Entry>,
    /// Slices in a part.
    step: u32,
    parts: u32,
    begun: Mutex<Option<Arc<Begun>>>,
    state: Mutex<State>,
    /// What became of it in the end.
    ended: OnceLock<Digest>,
}

struct State {
    tree: FileTree,
    parts: HashMap<u32, Part>,
    sent: BTreeMap<u32, Sent>,
    /// Somebody completes the upload.
    finishing: bool,
}

/// A part that the store has.
struct Sent {
    tag: Tag,
    crc64: u64,
    len: u64,
}

/// An upload.
struct Begun {
    upload: Upload,
    /// What an earlier run left of it.
    held: Option<HashMap<u32, HeldPart>>,
    /// The note of the run that begins it, or completes it where that is when things are noted.
    run: (String, String),
    record: Mutex<Option<Record>>,
}

/// The slices in each part of a large file of `len` bytes, and its parts, of which there may be `most`.
pub(super) fn cut(len: u64, most: u32) -> (u32, u32) {
    let slices = slice_count(len);
    let step = slices.div_ceil(most.max(1)).max(SLICES);
    (step, slices.div_ceil(step))
}

impl LargeFile {
    /// With at most so many parts.
    pub(super) fn new(entry: &Arc<Entry>, most: u32) -> Self {
        let (step, parts) = cut(entry.len, most);
        let state = State {
            tree: FileTree::new(entry.len),
            parts: HashMap::new(),
            sent: BTreeMap::new(),
            finishing: false,
        };
        Self {
            entry: Arc::clone(entry),
            step,
            parts,
            begun: Mutex::default(),
            state: Mutex::new(state),
            ended: OnceLock::new(),
        }
    }

    /// Whether it is this state of the file.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        self.entry.identity() == entry.identity()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes a slice; sends the part that it makes whole; makes the object of the last one.
    ///
    /// # Errors
    /// If the store does not take it. The other slices of the part are kept, so that this one alone need come again.
    pub(super) fn write(
        &self,
        sink: &ObjectSink,
        slice: Slice,
        data: &SliceData,
        content: &Bytes,
    ) -> Result<Outcome> {
        if let Some(digest) = self.ended.get() {
            return Ok(Outcome::Committed(Some(*digest)));
        }
        let (number, at) = (slice.index / self.step, (slice.index % self.step) as usize);
        let whole = {
            let mut state = self.lock();
            state.tree.set(slice.index, data.value);
            if state.sent.contains_key(&number) {
                None
            } else {
                let slices = self.step.min(slice_count(self.entry.len) - number * self.step);
                let part = state.parts.entry(number).or_insert_with(|| Part::new(slices));
                let blocks = blocks(slice.len_in(self.entry.len), data, content);
                part.put(at, blocks, &sink.room).map_err(|error| spool_failed(&error))?;
                if !part.is_whole() {
                    return Ok(Outcome::Stored);
                }
                state.parts.remove(&number)
            }
        };
        if let Some(mut part) = whole {
            match self.send(sink, number, &mut part) {
                Ok(sent) => drop(self.lock().sent.insert(number, sent)),
                Err(error) => {
                    part.forget(at);
                    self.lock().parts.insert(number, part);
                    return Err(sink.not_written(error));
                }
            }
        }
        self.finish(sink)
    }

    fn send(&self, sink: &ObjectSink, number: u32, part: &mut Part) -> Result<Sent> {
        let payload: Payload = part.payload().map_err(|error| spool_failed(&error))?;
        let begun = self.begin(sink)?;
        let held = begun.held.as_ref().and_then(|held| held.get(&(number + 1)));
        let held = match held {
            Some(held) if held.holds(&payload)? => Some(held.tag.clone()),
            _ => None,
        };
        let tag = match held {
            Some(tag) => {
                sink.held.fetch_add(payload.len(), Ordering::Relaxed);
                tag
            }
            None => sink.tree.client.write_part(&begun.upload, number + 1, &payload)?,
        };
        Ok(Sent { tag, crc64: payload.crc64(), len: payload.len() })
    }

    /// The upload: what an earlier run left of it, or a new one.
    fn begin(&self, sink: &ObjectSink) -> Result<Arc<Begun>> {
        let mut begun = self.begun.lock();
        if let Some(begun) = &*begun {
            return Ok(Arc::clone(begun));
        }
        let client = &sink.tree.client;
        let key = sink.tree.key(&self.entry.path);
        let run = run_note();
        let (upload, held) = match sink.uploads.take(sink, &key)? {
            Some((upload, parts)) => {
                (upload, Some(parts.into_iter().map(|part| (part.number, part)).collect()))
            }
            None => {
                let create = |options: &PutOptions| client.create(&key, &with(options, &run));
                (sink.noted(&self.entry, None, create)?, None)
            }
        };
        let record = Mutex::new(uploads::record(client, &upload, Encoding::default()));
        Ok(Arc::clone(begun.insert(Arc::new(Begun { upload, held, run, record }))))
    }

    /// Makes the object, once all parts are there.
    fn finish(&self, sink: &ObjectSink) -> Result<Outcome> {
        let (sent, digest) = {
            let mut state = self.lock();
            let digest = if state.tree.missing() == 0 { state.tree.digest() } else { None };
            let Some(digest) = digest.filter(|_| !state.finishing && state.sent.len() == self.parts as usize)
            else {
                return Ok(Outcome::Stored);
            };
            state.finishing = true;
            (std::mem::take(&mut state.sent), digest)
        };
        match self.complete(sink, &sent, digest) {
            Ok(()) => {
                let _ = self.ended.set(digest);
                let mut state = self.lock();
                (state.tree, state.parts) = (FileTree::new(0), HashMap::new());
                Ok(Outcome::Committed(Some(digest)))
            }
            Err(error) => {
                let mut state = self.lock();
                (state.finishing, state.sent) = (false, sent);
                Err(error)
            }
        }
    }

    fn complete(&self, sink: &ObjectSink, sent: &BTreeMap<u32, Sent>, digest: Digest) -> Result<()> {
        let begun = self.begin(sink)?;
        let (client, key, len) = (&sink.tree.client, &begun.upload.key, self.entry.len);
        let tags: Vec<Tag> = sent.values().map(|sent| sent.tag.clone()).collect();
        let crc64 = joined_crc64(sent.values().map(|sent| (sent.crc64, sent.len)));
        let mut etag = sink.noted(&self.entry, Some(&digest), |options| {
            client.complete(&begun.upload, &tags, len, crc64, &with(options, &begun.run))
        })?;
        if let Some(record) = begun.record.lock().take() {
            record.done();
        }
        if client.notes_at_end() {
            return Ok(());
        }
        if begun.held.is_some() {
            // Its notes are those of the run that began it; the file may have got others since.
            match client.look(key)? {
                Some(object) if !notes::is_same(&object, &self.entry) => {
                    within::restate_with(sink, &self.entry, &object, Some(&digest))?;
                    return Ok(());
                }
                Some(object) => etag = object.etag,
                None => {}
            }
        }
        if sidecar::beside(client, key)? == Beside::Other {
            let cause = "another object bears the name that it goes to";
            sink.notes.note("digest of a large file", cause, &self.entry.path);
            return Ok(());
        }
        sidecar::record(client, key, Proof { len, digest }, &etag, &sink.stored)
    }

    /// Gives up the upload.
    ///
    /// # Errors
    /// If the store does not say that it is gone.
    pub(super) fn abort(&self, sink: &ObjectSink) -> Result<()> {
        let Some(begun) = self.begun.lock().take() else {
            return Ok(());
        };
        sink.tree.client.abort(&begun.upload)?;
        if let Some(record) = begun.record.lock().take() {
            record.done();
        }
        Ok(())
    }
}

impl Uploads {
    /// The newest upload of `key` that no process here works on, with its parts.
    fn take(&self, sink: &ObjectSink, key: &str) -> Result<Option<(Upload, Vec<HeldPart>)>> {
        let client = &sink.tree.client;
        let mut found = if client.lists_uploads() { self.of(sink, key)? } else { listed(client, key)? };
        found.retain(|upload| uploads::owner(client, upload) != Owner::Busy);
        // Times are written in one form, so their text sorts as they do.
        found.sort_by(|a, b| a.begun.cmp(&b.begun));
        let Some(upload) = found.pop() else { return Ok(None) };
        Ok(client.parts(&upload)?.map(|parts| (upload, parts)))
    }

    /// The uploads of `key`, of those below the root.
    fn of(&self, sink: &ObjectSink, key: &str) -> Result<Vec<Upload>> {
        let all = match self.0.get() {
            Some(all) => all,
            None => {
                let root = sink.tree.key(&haul_core::RelPath::root());
                let mut all: HashMap<String, Vec<Upload>> = HashMap::new();
                for upload in listed(&sink.tree.client, &root)? {
                    all.entry(upload.key.clone()).or_default().push(upload);
                }
                self.0.get_or_init(|| Mutex::new(all))
            }
        };
        let found = all.lock().remove(key);
        Ok(found.unwrap_or_default())
    }
}

fn listed(client: &Client, prefix: &str) -> Result<Vec<Upload>> {
    match client.uploads(prefix) {
        Err(error) if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Cancelled) => Err(error),
        // Who may not see them begins anew.
        listed => Ok(listed.unwrap_or_default()),
    }
}

/// The same with one note more.
fn with(options: &PutOptions, note: &(String, String)) -> PutOptions {
    let mut options = options.clone();
    options.metadata.push(note.clone());
    options
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::io(Side::Local, "keep a part that is larger than memory in a file", error)
        .on(std::env::temp_dir().to_string_lossy().as_bytes())
        .with_hint("set TMPDIR to a disk with more room, or allow more with --max-memory")
}

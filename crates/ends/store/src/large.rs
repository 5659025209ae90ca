//! Files of several slices: multipart uploads, each part made of a few consecutive slices.
//!
//! The only local record of an upload is that haul began it. A later run finds the upload in the store's listing and
//! compares each part with the data that it has read itself; equal parts are not sent again. A slice therefore counts
//! as stored once it is buffered for its part, and the file is committed when the store has assembled the object.

use haul_core::sync::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use haul_core::digest::slice_count;
use haul_core::{Digest, Entry, Error, FileTree, Outcome, Result, Side, Slice, SliceData};
use haul_object::client::{joined_crc64, run_metadata};
use haul_object::{HeldPart, Payload, PutOptions, Tag, Upload};
use haul_streams::encoding::Encoding;
use haul_streams::sidecar::{self, Proof, SidecarObject};
use haul_streams::uploads::{self, UploadRecord};

use super::sink_state::SinkState;
use super::upload_part::{UploadPart, blocks};
use super::{metadata, server_side_copy};

/// The fewest slices in a part: stores require 5 MiB.
const SLICES: u32 = 2;

/// A large file in flight.
pub(super) struct LargeFile {
    entry: Arc<Entry>,
    /// Slices in a part.
    step: u32,
    parts: u32,
    begun: Mutex<Option<Arc<StartedUpload>>>,
    state: Mutex<LargeFileState>,
    /// The digest, once the object exists.
    ended: OnceLock<Digest>,
}

struct LargeFileState {
    tree: FileTree,
    parts: HashMap<u32, UploadPart>,
    sent: BTreeMap<u32, SentPart>,
    /// A thread is completing the upload.
    finishing: bool,
}

/// A part that the store holds.
struct SentPart {
    tag: Tag,
    crc64: u64,
    len: u64,
}

/// An upload, new or resumed.
struct StartedUpload {
    upload: Upload,
    /// The parts that an earlier run left.
    held: Option<HashMap<u32, HeldPart>>,
    /// The run id that is recorded with the object: at creation, or at completion where the provider takes metadata
    /// then.
    run: (String, String),
    record: Mutex<Option<UploadRecord>>,
}

/// The number of slices in each part, and of parts, of a file of `len` bytes that may have `most` parts.
pub(super) fn cut(len: u64, most: u32) -> (u32, u32) {
    let slices = slice_count(len);
    let step = slices.div_ceil(most.max(1)).max(SLICES);
    (step, slices.div_ceil(step))
}

impl LargeFile {
    /// An upload with at most `most` parts.
    pub(super) fn new(entry: &Arc<Entry>, most: u32) -> Self {
        let (step, parts) = cut(entry.len, most);
        let state = LargeFileState {
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

    /// Whether `entry` is the same state of the file.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        self.entry.identity() == entry.identity()
    }

    /// Takes a slice, sends the part that it completes, and completes the upload after the last part.
    ///
    /// # Errors
    /// The error of the failed request. The other slices of the part are kept, so that only this one has to come again.
    pub(super) fn write(
        &self,
        sink: &SinkState,
        slice: Slice,
        data: &SliceData,
        content: &Bytes,
    ) -> Result<Outcome> {
        if let Some(digest) = self.ended.get() {
            return Ok(Outcome::Committed(Some(*digest)));
        }
        let (number, at) = (slice.index / self.step, (slice.index % self.step) as usize);
        let whole = {
            let mut state = self.state.lock();
            state.tree.set(slice.index, data.value);
            if state.sent.contains_key(&number) {
                None
            } else {
                let slices = self.step.min(slice_count(self.entry.len) - number * self.step);
                let part = state.parts.entry(number).or_insert_with(|| UploadPart::new(slices));
                let blocks = blocks(slice.len_in(self.entry.len), data, content);
                part.put(at, blocks, &sink.memory_slots).map_err(|error| spool_failed(&error))?;
                if !part.is_whole() {
                    return Ok(Outcome::Stored);
                }
                state.parts.remove(&number)
            }
        };
        if let Some(mut part) = whole {
            match self.send(sink, number, &mut part) {
                Ok(sent) => drop(self.state.lock().sent.insert(number, sent)),
                Err(error) => {
                    part.forget(at);
                    self.state.lock().parts.insert(number, part);
                    return Err(sink.not_written(error));
                }
            }
        }
        self.finish(sink)
    }

    fn send(&self, sink: &SinkState, number: u32, part: &mut UploadPart) -> Result<SentPart> {
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
            None => sink.tree.client.write_part(&begun.upload, number + 1, &payload, None)?,
        };
        Ok(SentPart { tag, crc64: payload.crc64(), len: payload.len() })
    }

    /// The upload: the one that an earlier run left, or a new one.
    fn begin(&self, sink: &SinkState) -> Result<Arc<StartedUpload>> {
        let mut begun = self.begun.lock();
        if let Some(begun) = &*begun {
            return Ok(Arc::clone(begun));
        }
        let client = &sink.tree.client;
        let key = sink.tree.key(&self.entry.path);
        let run = run_metadata();
        let (upload, held) = match sink.uploads.take(&sink.tree, &key)? {
            Some((upload, parts)) => {
                (upload, Some(parts.into_iter().map(|part| (part.number, part)).collect()))
            }
            None => {
                let create = |options: &PutOptions| client.create(&key, &with(options, &run));
                (sink.with_metadata(&self.entry, None, None, create)?, None)
            }
        };
        let record = Mutex::new(uploads::record(client, &upload, Encoding::default()));
        Ok(Arc::clone(begun.insert(Arc::new(StartedUpload { upload, held, run, record }))))
    }

    /// Completes the upload once the store holds all parts.
    fn finish(&self, sink: &SinkState) -> Result<Outcome> {
        let (sent, digest) = {
            let mut state = self.state.lock();
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
                let mut state = self.state.lock();
                (state.tree, state.parts) = (FileTree::new(0), HashMap::new());
                Ok(Outcome::Committed(Some(digest)))
            }
            Err(error) => {
                let mut state = self.state.lock();
                (state.finishing, state.sent) = (false, sent);
                Err(error)
            }
        }
    }

    fn complete(&self, sink: &SinkState, sent: &BTreeMap<u32, SentPart>, digest: Digest) -> Result<()> {
        let begun = self.begin(sink)?;
        let (client, key, len) = (&sink.tree.client, &begun.upload.key, self.entry.len);
        let tags: Vec<Tag> = sent.values().map(|sent| sent.tag.clone()).collect();
        let crc64 = joined_crc64(sent.values().map(|sent| (sent.crc64, sent.len)));
        let mut etag = sink.with_metadata(&self.entry, Some(&digest), None, |options| {
            client.complete(&begun.upload, &tags, len, crc64, &with(options, &begun.run))
        })?;
        if let Some(record) = begun.record.lock().take() {
            record.done();
        }
        if client.terms().metadata_at_end {
            return Ok(());
        }
        if begun.held.is_some() {
            // Its metadata is that of the run that began it, also of `haul put`; the file's metadata may have changed since.
            if let Some(mut object) = client.look(key)? {
                let was_other = metadata::remove_other_stream(&mut object, &self.entry);
                if was_other || !metadata::is_same(&object, &self.entry, &sink.options.preserve) {
                    server_side_copy::restate_with(sink, &self.entry, &object, Some(&digest))?;
                    return Ok(());
                }
                etag = object.etag;
            }
        }
        if sidecar::beside(client, key)? == SidecarObject::Other {
            let cause = "another object bears the name that it goes to";
            sink.warnings.note("digest of a large file", cause, &self.entry.path);
            return Ok(());
        }
        sidecar::record(client, key, Proof { len, digest }, &etag, &sink.stored)
    }

    /// Aborts the upload.
    ///
    /// # Errors
    /// The error of the request.
    pub(super) fn abort(&self, sink: &SinkState) -> Result<()> {
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

/// `options` with one more metadata pair.
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

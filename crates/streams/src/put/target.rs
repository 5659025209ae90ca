//! An object as the target of a stream: its upload, and the threads that send parts.

use haul_core::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded};
use haul_core::{Error, ErrorKind, Result, Side};

use super::cut::StreamPart;
use super::resume::{HeldParts, begin_or_resume};
use super::settings::{ObjectTarget, PutSettings, PutStatus, StoredObject};
use crate::encoding::{self, Encoding};
use crate::index_file::{self, IndexFile};
use crate::sidecar::{self, NewRecord, Plain};
use crate::uploads::UploadRecord;
use haul_object::Payload;
use haul_object::{PutOptions, Tag, Upload};

/// A target while the stream is read.
pub(super) struct ObjectStream<'a> {
    target: &'a ObjectTarget,
    settings: &'a PutSettings,
    status: &'a Arc<PutStatus>,
    encoding: Encoding,
    options: PutOptions,
    upload: Option<Arc<TargetUpload>>,
    feed: Option<Sender<Arc<StreamPart>>>,
    /// The object, if it was written in one request, and its ETag.
    made: Option<(StoredObject, String)>,
    shared: Arc<TargetShared>,
}

/// An upload that was begun.
struct TargetUpload {
    upload: Upload,
    held: HeldParts,
    record: Mutex<Option<UploadRecord>>,
}

#[derive(Default)]
struct TargetShared {
    failed: AtomicBool,
    state: Mutex<TargetState>,
}

#[derive(Default)]
struct TargetState {
    error: Option<Error>,
    tags: BTreeMap<u32, Tag>,
}

impl TargetShared {
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.state.lock().error.get_or_insert(error);
    }
}

impl<'a> ObjectStream<'a> {
    pub(super) fn new(
        target: &'a ObjectTarget,
        settings: &'a PutSettings,
        encoding: Encoding,
        status: &'a Arc<PutStatus>,
    ) -> Self {
        let mut options = settings.options.clone();
        options.metadata.push((haul_object::client::RUN.to_owned(), haul_object::client::run_name()));
        if !encoding.is_plain() {
            options.metadata.push((encoding::KEY.to_owned(), encoding.to_string()));
        }
        let shared = Arc::default();
        Self { target, settings, status, encoding, options, upload: None, feed: None, made: None, shared }
    }

    /// Whether it has failed; nothing more is sent then.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Checks that the object may be written.
    pub(super) fn prepare(&mut self) {
        if self.options.no_clobber
            && let Err(error) = self.is_free()
        {
            self.shared.fail(error);
        }
    }

    /// # Errors
    /// That the object exists, or the error of the request.
    fn is_free(&self) -> Result<()> {
        match self.target.client.head(&self.target.key)? {
            None => Ok(()),
            Some(_) => Err(self.target.client.there_already(&self.target.key)),
        }
    }

    /// Begins the multipart upload, unless it has begun.
    pub(super) fn begin<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        if self.feed.is_some() || self.has_failed() {
            return;
        }
        let target = self.target;
        // In parallel, as each takes a round trip.
        let free = || sidecar::check_free(&target.client, &target.key, target.client.side());
        let begin = || begin_or_resume(target, &self.options, self.encoding, self.settings.resume);
        let (free, begun) = match haul_threads::both("check", free, begin) {
            Ok(both) => both,
            Err(error) => return self.shared.fail(error),
        };
        let (upload, held, record) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.shared.fail(error),
        };
        let begun = Arc::new(TargetUpload { upload, held, record: Mutex::new(record) });
        if let Err(error) = free {
            if begun.held.is_empty() {
                self.abort(&begun);
            }
            return self.shared.fail(error);
        }
        // Queued parts hold memory of the budget; a longer queue would only hide that the store is slower than the
        // stream.
        let (feed, parts) = bounded(1);
        for number in 0..target.client.at_once() {
            let (begun, shared, parts): (_, _, Receiver<Arc<StreamPart>>) =
                (Arc::clone(&begun), Arc::clone(&self.shared), parts.clone());
            let status = self.status;
            let send = move || {
                for part in parts {
                    if !shared.failed.load(Ordering::Relaxed) {
                        match send(target, &begun, &part, &shared.failed, status) {
                            Ok(tag) => drop(shared.state.lock().tags.insert(part.number, tag)),
                            Err(error) => shared.fail(error),
                        }
                    }
                }
            };
            if let Err(error) = haul_threads::spawn(scope, "part", send) {
                // The threads that could be started suffice.
                if number == 0 {
                    self.shared.fail(error);
                }
                break;
            }
        }
        self.upload = Some(begun);
        self.feed = Some(feed);
    }

    /// Hands over a part; waits until a thread takes it.
    pub(super) fn feed(&mut self, part: Arc<StreamPart>) {
        if let Some(feed) = &self.feed
            && !self.has_failed()
        {
            // The channel is closed only if the target has failed.
            let _ = feed.send(part);
        }
    }

    /// There are no more parts.
    pub(super) fn close(&mut self) {
        self.feed = None;
    }

    /// The input has failed: the parts on their way are not wanted any more.
    pub(super) fn stop(&self) {
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Writes the whole stream in one request.
    pub(super) fn write_whole(&mut self, payload: &Payload, recorded: &NewRecord, len: u64) {
        if self.has_failed() {
            return;
        }
        match self.try_write_whole(payload, recorded) {
            Ok(etag) => {
                self.status.sent.fetch_add(payload.len(), Ordering::Relaxed);
                self.made = Some((StoredObject { len, digest: recorded.stream_digest(), parts: 0 }, etag));
            }
            Err(error) => self.shared.fail(error),
        }
    }

    /// # Errors
    /// The error of the failed request.
    fn try_write_whole(&self, payload: &Payload, recorded: &NewRecord) -> Result<String> {
        let (client, key) = (&self.target.client, &self.target.key);
        let sealed = matches!(recorded.plain, Plain::Sealed(_));
        if sealed {
            sidecar::check_free(client, key, client.side())?;
        }
        let mut options = self.options.clone();
        options.metadata.push((sidecar::DIGEST_KEY.to_owned(), recorded.stored.digest.to_string()));
        options.metadata.extend(recorded.plain.metadata());
        let tag = client.put(key, payload, &options)?;
        if sealed {
            sidecar::write(client, key, recorded, &tag.etag, &self.options)?;
        }
        Ok(tag.etag)
    }

    /// Writes the index of the stored stream, if there is one. Without it, the stream is stored all the same.
    fn write_index(&self, etag: &str, len: u64, index: Option<&[u8]>) {
        let (client, key) = (&self.target.client, &self.target.key);
        let Some(index) = index else { return };
        let file = IndexFile { etag: sidecar::bare(etag).to_owned(), len };
        if let Err(error) = index_file::write(client, key, file.bytes(index), &self.options) {
            client.notify(&format!("the stream is stored, without an index of its members: {error}"));
        }
    }

    /// Completes the upload of a complete input, and writes the index of its members.
    ///
    /// # Errors
    /// The first error of a part, or that of the completion.
    pub(super) fn commit(
        mut self,
        recorded: &NewRecord,
        (len, crc64): (u64, u64),
        index: Option<&[u8]>,
    ) -> Result<StoredObject> {
        if let Some((made, etag)) = self.made.take() {
            self.write_index(&etag, recorded.stored.len, index);
            return Ok(made);
        }
        let error = self.shared.state.lock().error.take();
        if let Some(error) = error {
            return Err(self.leave(error));
        }
        let Some(begun) = self.upload.take() else {
            return Err(Error::new(ErrorKind::Io, Side::Local, "put the stream", "nothing was sent"));
        };
        let tags: Vec<Tag> = std::mem::take(&mut self.shared.state.lock().tags).into_values().collect();
        let (client, key) = (&self.target.client, &self.target.key);
        let made = if self.options.no_clobber { self.is_free() } else { Ok(()) };
        let made = made
            .and_then(|()| client.complete(&begun.upload, &tags, recorded.stored.len, crc64, &self.options));
        let etag = match made {
            Ok(etag) => etag,
            Err(error) => {
                self.upload = Some(begun);
                return Err(self.leave(error));
            }
        };
        if let Some(record) = begun.record.lock().take() {
            record.done();
        }
        sidecar::write(client, key, recorded, &etag, &self.options)?;
        self.write_index(&etag, recorded.stored.len, index);
        Ok(StoredObject { len, digest: recorded.stream_digest(), parts: tags.len() as u32 })
    }

    /// Handles the upload of a failed target: if the store was unreachable it stays for `--resume`, else it is aborted.
    fn leave(&self, error: Error) -> Error {
        let Some(begun) = &self.upload else { return error };
        // A second encryption of the stream would differ.
        if error.kind() == ErrorKind::Unreachable && !self.encoding.encrypted {
            return error
                .with_hint("the sent data is kept there: the same command with --resume goes on from it");
        }
        self.abort(begun);
        error
    }

    /// The input was incomplete: aborts the upload, or `keeps` it.
    pub(super) fn give_up(mut self, keeps: bool) -> Option<Result<StoredObject>> {
        if let Some(begun) = self.upload.take() {
            // A second encryption of the stream would differ.
            if keeps && !self.encoding.encrypted {
                let name = self.target.client.name(&self.target.key);
                self.target.client.notify(&kept_note(&name));
            } else {
                self.abort(&begun);
            }
        }
        self.shared.state.lock().error.take().filter(|error| error.kind() != ErrorKind::Cancelled).map(Err)
    }

    fn abort(&self, begun: &TargetUpload) {
        match self.target.client.abort(&begun.upload) {
            Ok(()) => {
                if let Some(record) = begun.record.lock().take() {
                    record.done();
                }
                if let Some(kept) = self.target.client.terms().keeps_uploads {
                    self.target.client.notify(kept);
                }
            }
            Err(error) => {
                let text = format!(
                    "{error}; `haul rm --incomplete {}` does",
                    self.target.client.name(&self.target.key)
                );
                self.target.client.notify(&text);
            }
        }
    }
}

/// The note about an interrupted put that a later one can go on with.
pub(super) fn kept_note(name: &str) -> String {
    format!("{name}: the parts that are stored are kept: the same command with --resume goes on from them")
}

/// Sends one part, unless the store holds it already, or it is `unwanted` by now.
fn send(
    target: &ObjectTarget,
    begun: &TargetUpload,
    part: &StreamPart,
    unwanted: &AtomicBool,
    status: &PutStatus,
) -> Result<Tag> {
    if let Some(tag) = begun.held.matches(part.number, &part.payload)? {
        status.resumed.fetch_add(part.payload.len(), Ordering::Relaxed);
        return Ok(tag);
    }
    let tag = target.client.write_part(&begun.upload, part.number, &part.payload, Some(unwanted))?;
    status.sent.fetch_add(part.payload.len(), Ordering::Relaxed);
    Ok(tag)
}

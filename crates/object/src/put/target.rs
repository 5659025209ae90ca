//! One target of a stream: its upload, and the threads that send parts.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded};
use haul_core::{Error, ErrorKind, Result, Side};

use super::cut::Part;
use super::resume::{Held, begin_or_resume};
use super::{PutSettings, PutStatus, Stored, Target};
use crate::client::AT_ONCE;
use crate::encoding::{self, Encoding};
use crate::payload::Payload;
use crate::sidecar::{self, Plain, Recorded};
use crate::store::{PartOf, PutOptions, Tag, Upload};
use crate::uploads::Record;

/// A target while the stream goes on.
pub(super) struct Upstream<'a> {
    target: &'a Target,
    settings: &'a PutSettings,
    status: &'a Arc<PutStatus>,
    encoding: Encoding,
    options: PutOptions,
    upload: Option<Arc<Begun>>,
    feed: Option<Sender<Arc<Part>>>,
    made: Option<Stored>,
    shared: Arc<Shared>,
}

/// An upload that was begun.
struct Begun {
    upload: Upload,
    held: Held,
    record: Mutex<Option<Record>>,
}

#[derive(Default)]
struct Shared {
    failed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    error: Option<Error>,
    tags: BTreeMap<u32, Tag>,
}

impl Shared {
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.lock().error.get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl<'a> Upstream<'a> {
    pub(super) fn new(
        target: &'a Target,
        settings: &'a PutSettings,
        encoding: Encoding,
        status: &'a Arc<PutStatus>,
    ) -> Self {
        let mut options = settings.options.clone();
        options.metadata.push((crate::client::RUN.to_owned(), run_name()));
        if !encoding.is_plain() {
            options.metadata.push((encoding::NOTE.to_owned(), encoding.to_string()));
        }
        let shared = Arc::default();
        Self { target, settings, status, encoding, options, upload: None, feed: None, made: None, shared }
    }

    /// Whether it has failed: nothing more is sent.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Looks whether it may be written at all.
    pub(super) fn prepare(&mut self) {
        if self.options.no_clobber
            && let Err(error) = self.is_free()
        {
            self.shared.fail(error);
        }
    }

    /// # Errors
    /// If there is an object already.
    fn is_free(&self) -> Result<()> {
        match self.target.client.head(&self.target.key)? {
            None => Ok(()),
            Some(_) => Err(self.target.client.there_already(&self.target.key)),
        }
    }

    /// Begins the upload in parts, if it has not begun.
    pub(super) fn begin<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        if self.feed.is_some() || self.has_failed() {
            return;
        }
        let target = self.target;
        // Side by side, as each takes a round trip.
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
        let begun = Arc::new(Begun { upload, held, record: Mutex::new(record) });
        if let Err(error) = free {
            if begun.held.is_empty() {
                self.abort(&begun);
            }
            return self.shared.fail(error);
        }
        // Parts wait in memory that is counted; one more would only hide that the store is slower than the stream.
        let (feed, parts) = bounded(1);
        for number in 0..AT_ONCE {
            let (begun, shared, parts): (_, _, Receiver<Arc<Part>>) =
                (Arc::clone(&begun), Arc::clone(&self.shared), parts.clone());
            let status = self.status;
            let send = move || {
                for part in parts {
                    if !shared.failed.load(Ordering::Relaxed) {
                        match send(target, &begun, &part, status) {
                            Ok(tag) => drop(shared.lock().tags.insert(part.number, tag)),
                            Err(error) => shared.fail(error),
                        }
                    }
                }
            };
            if let Err(error) = haul_threads::spawn(scope, "part", send) {
                // Those that there are have to do.
                if number == 0 {
                    self.shared.fail(error);
                }
                break;
            }
        }
        self.upload = Some(begun);
        self.feed = Some(feed);
    }

    /// Hands it a part; waits until one of its threads takes it.
    pub(super) fn feed(&mut self, part: Arc<Part>) {
        if let Some(feed) = &self.feed
            && !self.has_failed()
        {
            // All its threads are gone only if it has failed.
            let _ = feed.send(part);
        }
    }

    /// No more parts.
    pub(super) fn close(&mut self) {
        self.feed = None;
    }

    /// The whole stream in one request.
    pub(super) fn write_whole(&mut self, payload: &Payload, recorded: &Recorded, len: u64) {
        if self.has_failed() {
            return;
        }
        match self.try_write_whole(payload, recorded) {
            Ok(()) => {
                self.status.sent.fetch_add(payload.len(), Ordering::Relaxed);
                self.made = Some(Stored { len, proof: recorded.stored, parts: 0 });
            }
            Err(error) => self.shared.fail(error),
        }
    }

    /// # Errors
    /// If it cannot be written.
    fn try_write_whole(&self, payload: &Payload, recorded: &Recorded) -> Result<()> {
        let (client, key) = (&self.target.client, &self.target.key);
        let sealed = matches!(recorded.plain, Plain::Sealed(_));
        if sealed {
            sidecar::check_free(client, key, client.side())?;
        }
        let mut options = self.options.clone();
        options.metadata.push((sidecar::NOTE.to_owned(), recorded.stored.digest.to_string()));
        options.metadata.extend(recorded.plain.notes());
        let tag = client.put(key, payload, &options)?;
        if sealed {
            sidecar::write(client, key, recorded, &tag.etag, &self.options)?;
        }
        Ok(())
    }

    /// Makes the object of its parts. The input was whole.
    ///
    /// # Errors
    /// If a part is not there, or it cannot be made.
    pub(super) fn commit(mut self, recorded: &Recorded, len: u64, crc64: u64) -> Result<Stored> {
        if let Some(made) = self.made {
            return Ok(made);
        }
        let error = self.shared.lock().error.take();
        if let Some(error) = error {
            return Err(self.leave(error));
        }
        let Some(begun) = self.upload.take() else {
            return Err(Error::new(ErrorKind::Io, Side::Local, "put the stream", "nothing was sent"));
        };
        let tags: Vec<Tag> = std::mem::take(&mut self.shared.lock().tags).into_values().collect();
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
        Ok(Stored { len, proof: recorded.stored, parts: tags.len() as u32 })
    }

    /// What was sent of a target that failed: it stays for `--resume` where the store could not be reached, else the
    /// upload is given up.
    fn leave(&self, error: Error) -> Error {
        let Some(begun) = &self.upload else { return error };
        // Encrypted again, it would be another stream.
        if error.kind() == ErrorKind::Unreachable && !self.encoding.encrypted {
            return error
                .with_hint("what was sent is kept there: the same command with --resume goes on from it");
        }
        self.abort(begun);
        error
    }

    /// The input was not whole: nothing is made.
    pub(super) fn give_up(mut self) -> Option<Result<Stored>> {
        if let Some(begun) = self.upload.take() {
            self.abort(&begun);
        }
        self.shared.lock().error.take().filter(|error| error.kind() != ErrorKind::Cancelled).map(Err)
    }

    fn abort(&self, begun: &Begun) {
        match self.target.client.abort(&begun.upload) {
            Ok(()) => {
                if let Some(record) = begun.record.lock().take() {
                    record.done();
                }
                if let Some(kept) = self.target.client.keeps_uploads() {
                    self.target.client.note(kept);
                }
            }
            Err(error) => {
                let text = format!(
                    "{error}; `haul rm --incomplete {}` does",
                    self.target.client.name(&self.target.key)
                );
                self.target.client.note(&text);
            }
        }
    }
}

/// Sends one part, unless it is there already.
fn send(target: &Target, begun: &Begun, part: &Part, status: &PutStatus) -> Result<Tag> {
    if let Some(tag) = begun.held.matches(part.number, &part.payload)? {
        status.resumed.fetch_add(part.payload.len(), Ordering::Relaxed);
        return Ok(tag);
    }
    let of = PartOf { upload: &begun.upload, number: part.number };
    let tag = target.client.put_part(of, &part.payload)?;
    status.sent.fetch_add(part.payload.len(), Ordering::Relaxed);
    Ok(tag)
}

/// A name for this run that no other has.
pub(crate) fn run_name() -> String {
    let mut bytes = [0; 16];
    // Where the system has no chance to give, the time and the process tell runs apart.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let number = now.as_nanos() ^ (u128::from(std::process::id()) << 96);
        bytes = number.to_le_bytes();
    }
    haul_core::digest::hex(&bytes)
}

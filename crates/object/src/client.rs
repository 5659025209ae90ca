//! One bucket with patience: each request is tried again until it goes well, makes no sense, or nothing has gone
//! through for too long.

mod checked;
mod listing;
mod patience;
mod remove;
mod tree;

use haul_core::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::location::{ObjectKind, ObjectPlace};
use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Result, Side};

use crate::az::Azure;
use crate::fault::{Class, Fault};
use crate::governor::Governor;
use crate::gs;
use crate::meter::Requests;
use crate::payload::Payload;
use crate::s3::S3;
use crate::settings::StoreSettings;
use crate::store::{Activity, Checksum, HeldPart, Known, Object, PutOptions, Store, Tag, Upload};

pub(crate) use checked::RUN;
use listing::Ends;
pub use patience::Notes;
use patience::Patience;
pub use tree::{joined_crc64, run_note};

/// Requests with content that are under way at a time, at most.
pub const AT_ONCE: usize = 24;

/// Requests with little or no content that are under way at a time, at most.
pub const MANY_AT_ONCE: usize = 256;

/// One bucket of a store. It may be used from many threads at once; calls block, and are tried again.
pub struct Client {
    store: Box<dyn Store>,
    place: ObjectPlace,
    endpoint: String,
    side: Side,
    timeout: Duration,
    requests: Arc<Requests>,
    governor: Governor,
    /// The same for requests with little or no content, of a tree.
    crowd: Governor,
    cancel: Arc<AtomicBool>,
    notes: Notes,
    /// When a request went well last.
    went_well: Mutex<Option<Instant>>,
    /// The store does not know the checksum that its kind knows, but MD5.
    md5: AtomicBool,
    /// That the credentials are refused was said.
    said: AtomicBool,
    /// What there is to know of how requests go was said.
    warned: AtomicBool,
    /// That the store is waited for was said.
    waits: AtomicBool,
    /// The store removes one object at a time.
    one_by_one: AtomicBool,
    /// Where listings that go on have got to.
    ends: Ends,
}

/// Opens the bucket of a location. Nothing is asked of it yet. `cancel` ends all requests, `notes` is told what a
/// person should know.
///
/// # Errors
/// If there is no client for it, or the settings make no sense.
pub fn open(
    place: &ObjectPlace,
    side: Side,
    settings: &StoreSettings,
    cancel: Arc<AtomicBool>,
    notes: Notes,
) -> Result<Client> {
    let requests = Arc::new(Requests::default());
    let store: Box<dyn Store> = match place.kind {
        ObjectKind::S3 => Box::new(S3::new(&place.bucket, settings, Arc::clone(&requests))?),
        ObjectKind::Gs => Box::new(gs::open(&place.bucket, settings, Arc::clone(&requests))?),
        ObjectKind::Az => Box::new(Azure::new(&place.bucket, settings, Arc::clone(&requests))?),
    };
    Ok(Client {
        store,
        place: place.clone(),
        endpoint: settings.endpoint.clone().unwrap_or_default(),
        side,
        timeout: settings.timeout,
        requests,
        governor: Governor::new(AT_ONCE),
        crowd: Governor::new(MANY_AT_ONCE),
        cancel,
        notes,
        went_well: Mutex::new(None),
        md5: AtomicBool::new(false),
        said: AtomicBool::new(false),
        warned: AtomicBool::new(false),
        waits: AtomicBool::new(false),
        one_by_one: AtomicBool::new(false),
        ends: Ends::default(),
    })
}

impl Client {
    /// The requests that were made.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Requests with content that may be under way at the moment.
    #[must_use]
    pub fn at_once(&self) -> usize {
        self.governor.allowed()
    }

    /// Parts that an object may have, as its provider documents it.
    #[must_use]
    pub fn max_parts(&self) -> u32 {
        self.store.terms().max_parts
    }

    /// What becomes of uploads that nobody completes, where the provider has no request that gives them up.
    #[must_use]
    pub fn keeps_uploads(&self) -> Option<&'static str> {
        self.store.terms().keeps_uploads
    }

    /// Bytes that the store copies in one request, at most.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.store.terms().copies
    }

    /// Objects that one request removes, at most.
    #[must_use]
    pub fn removes(&self) -> usize {
        self.store.terms().removes
    }

    /// Whether [`Client::uploads`] knows those of all objects under a prefix, and not only of one object.
    #[must_use]
    pub fn lists_uploads(&self) -> bool {
        self.store.terms().lists_uploads
    }

    /// Whether [`Client::complete`] notes what its options say, and [`Client::create`] does not.
    #[must_use]
    pub fn notes_at_end(&self) -> bool {
        self.store.terms().notes_at_end
    }

    /// The kind of store.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        self.place.kind
    }

    /// Looks whether objects can be written so at all; nothing is asked of the store.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] that names what its provider lacks.
    pub fn takes(&self, options: &PutOptions) -> Result<()> {
        self.store.takes(options).map_err(|fault| {
            Error::new(ErrorKind::Usage, self.side, "write", fault.message).on(self.name(""))
        })
    }

    /// The location of an object, as a person writes it.
    #[must_use]
    pub fn name(&self, key: &str) -> String {
        ObjectPlace { key: key.to_owned(), ..self.place.clone() }.to_string()
    }

    /// The endpoint that was named; empty for the provider's own.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Tells the person something.
    pub(crate) fn note(&self, text: &str) {
        (self.notes)(text);
    }

    /// What is there under `key`; `None` if nothing is.
    ///
    /// # Errors
    /// If the store does not say.
    pub fn head(&self, key: &str) -> Result<Option<Object>> {
        match self.ask(|at| self.head_with_reason(key, at)) {
            Ok(object) => Ok(Some(object)),
            // A bucket that is not there looks the same: see `missing`.
            Err(fault) if fault.class == Class::NotFound => Ok(None),
            Err(fault) => Err(self.error(&fault, "look at", key)),
        }
    }

    /// Asks for an object's head. A refusal of that has no content, hence no reason: then a byte of the object is asked
    /// for. That something is not there is reason enough.
    fn head_with_reason(&self, key: &str, at: &Activity<'_>) -> Result<Object, Fault> {
        let bare = match self.store.head(key, at) {
            Err(fault) if fault.is_bare() && fault.class != Class::NotFound => fault,
            other => return other,
        };
        match self.store.get(key, 0..1, Known::default(), &mut |_| {}, at) {
            Err(told) if !told.is_bare() && told.class != Class::Condition => Err(told),
            _ => Err(bare),
        }
    }

    /// Why there is no object under `key`, for one that a person has named: the bucket may not be there, or what answers
    /// is no store.
    ///
    /// # Errors
    /// Always: that, or that there is no such object.
    pub fn missing(&self, key: &str, operation: &str) -> Error {
        let asked = self.ask(|at| self.store.get(key, 0..1, Known::default(), &mut |_| {}, at));
        match asked {
            Err(fault)
                if !matches!(&fault.code[..], "" | "NoSuchKey" | "BlobNotFound") || fault.is_foreign() =>
            {
                self.error(&fault, operation, key)
            }
            _ => {
                let error = Error::new(ErrorKind::NotFound, self.side, operation, "there is no such object");
                error.on(self.name(key)).with_hint("`haul ls` lists what is there")
            }
        }
    }

    /// Appends the bytes of `range` to `take`, if the object still bears `etag`; given up when nobody wants it.
    ///
    /// `take` is told to forget what it took (`None`) before the request is made again.
    ///
    /// # Errors
    /// If they cannot be read; [`ErrorKind::SourceChanged`] if it is another object by now.
    pub fn read(
        &self,
        object: &Object,
        range: Range<u64>,
        unwanted: &AtomicBool,
        take: &mut (dyn FnMut(Option<&[u8]>) + Send),
    ) -> Result<()> {
        let _permit = self.governor.permit();
        self.read_range(object, range, unwanted, take)
    }

    fn read_range(
        &self,
        object: &Object,
        range: Range<u64>,
        unwanted: &AtomicBool,
        take: &mut (dyn FnMut(Option<&[u8]>) + Send),
    ) -> Result<()> {
        let request = |at: &Activity<'_>| {
            take(None);
            let known = Known { etag: &object.etag, len: Some(object.len) };
            self.store.get(&object.key, range.clone(), known, &mut |bytes| take(Some(bytes)), at)
        };
        self.patient(Some(unwanted), request).map_err(|fault| self.changed_or(&fault, "read", object))
    }

    /// The whole of a small object; `None` if there is none of up to `limit` bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_small(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.whole(key, limit)?.map(|(_, content)| content))
    }

    fn whole(&self, key: &str, limit: usize) -> Result<Option<(Object, Vec<u8>)>> {
        match self.ask(|at| self.store.get_whole(key, limit, at)) {
            Ok(whole) => Ok(Some(whole)),
            Err(fault) if matches!(fault.class, Class::NotFound | Class::TooLong) => Ok(None),
            Err(fault) => Err(self.error(&fault, "read", key)),
        }
    }

    /// Copies an object inside its bucket, in one request, if it still bears its mark.
    ///
    /// # Errors
    /// If it cannot be copied; [`ErrorKind::SourceChanged`] if it is another object by now.
    pub fn copy(&self, from: &Object, to: &str, options: &PutOptions) -> Result<()> {
        self.ask(|at| self.store.copy(from, to, options, at))
            .map_err(|fault| self.changed_or(&fault, "copy", from))
    }

    /// Copies a range of an object of this bucket into a part of an upload, if it still bears its mark.
    ///
    /// # Errors
    /// As [`Client::copy`].
    pub fn copy_part(&self, from: &Object, range: Range<u64>, upload: &Upload, number: u32) -> Result<Tag> {
        let _permit = self.governor.permit();
        let part = crate::store::PartOf { upload, number };
        let copied = self.ask(|at| self.store.copy_part(from, range.clone(), part, at));
        copied.map_err(|fault| self.changed_or(&fault, "copy", from))
    }

    /// The error of a request for an object as long as it bears its mark.
    fn changed_or(&self, fault: &Fault, operation: &str, object: &Object) -> Error {
        if fault.class == Class::Condition {
            let error =
                Error::new(ErrorKind::SourceChanged, self.side, operation, "it is another object by now");
            return error.on(self.name(&object.key));
        }
        self.error(fault, operation, &object.key)
    }

    /// Gives up an upload. This is done also when the run is cancelled, in a few seconds.
    ///
    /// # Errors
    /// If the store does not say that it is gone.
    pub fn abort(&self, upload: &Upload) -> Result<()> {
        let never = AtomicBool::new(false);
        let limit = Duration::from_secs(4);
        let mut patience = Patience::new(limit);
        loop {
            let at = Activity::new(Duration::from_secs(2), &never, None);
            match self.store.abort(upload, &at) {
                Ok(()) => return Ok(()),
                Err(fault) if patience.holds(&fault, None) => patience.wait(&fault, &[&never]),
                Err(fault) => return Err(self.error(&fault, "give up the upload of", &upload.key)),
            }
        }
    }

    /// The parts of an upload that are there, ascending; `None` if there is no such upload.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn parts(&self, upload: &Upload) -> Result<Option<Vec<HeldPart>>> {
        let mut all: Vec<HeldPart> = Vec::new();
        loop {
            let after = all.last().map_or(0, |part| part.number);
            let (parts, more) = match self.ask(|at| self.store.parts(upload, after, at)) {
                Ok(page) => page,
                Err(fault) if fault.class == Class::NotFound => return Ok(None),
                Err(fault) => return Err(self.error(&fault, "list the parts of", &upload.key)),
            };
            let grows = parts.last().is_some_and(|part| part.number > after);
            all.extend(parts.into_iter().filter(|part| part.number > after));
            if !more || !grows {
                return Ok(Some(all));
            }
        }
    }

    /// The uploads under `prefix` that are not complete; those of the object of this name alone where
    /// [`Client::lists_uploads`] says no.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let mut all: Vec<Upload> = Vec::new();
        loop {
            let page = self.ask(|at| self.store.uploads(prefix, all.last(), at));
            let (uploads, more) =
                page.map_err(|fault| self.error(&fault, "list the uploads under", prefix))?;
            let grows = uploads.last().is_some_and(|last| Some(last) != all.last());
            all.extend(uploads);
            if !more || !grows {
                return Ok(all);
            }
        }
    }

    /// Writes a small object: bytes that are at hand.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_small(&self, key: &str, content: Vec<u8>, options: &PutOptions) -> Result<Tag> {
        self.put(key, &Payload::from_bytes(content), options)
    }

    /// What errors of it are blamed on.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    fn error(&self, fault: &Fault, operation: &str, key: &str) -> Error {
        fault.error(self.side, operation, &self.name(key), self.store.terms().credentials)
    }

    /// Asks until it goes well or makes no sense.
    fn ask<T>(&self, request: impl FnMut(&Activity<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.patient(None, request)
    }

    fn patient<T>(
        &self,
        unwanted: Option<&AtomicBool>,
        mut request: impl FnMut(&Activity<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut patience = Patience::new(self.timeout);
        loop {
            let at = Activity::new(patience.stall(), &self.cancel, unwanted);
            if at.is_abandoned() {
                return Err(Fault::new(Class::Abandoned, "interrupted"));
            }
            let answer = request(&at);
            if !self.warned.load(Ordering::Relaxed)
                && let Some(warning) = self.store.warning()
                && !self.warned.swap(true, Ordering::Relaxed)
            {
                self.note(&warning);
            }
            let fault = match answer {
                Ok(answer) => {
                    self.note_success();
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let went_well = *self.went_well.lock();
            if fault.class == Class::SlowDown {
                self.governor.slow_down();
                self.crowd.slow_down();
            }
            if !patience.holds(&fault, went_well) {
                return Err(patience.tired(fault));
            }
            if matches!(fault.class, Class::Login | Class::Expired)
                && !self.said.swap(true, Ordering::Relaxed)
            {
                let why = printable(fault.message.as_bytes());
                self.note(&format!("the credentials are refused ({why}): waiting for new ones"));
            }
            if went_well.is_none() && patience.is_long() && !self.waits.swap(true, Ordering::Relaxed) {
                let most = self.timeout.as_secs();
                self.note(&format!(
                    "the store gives no answer: {}; trying for up to {most} s",
                    fault.message
                ));
            }
            let mut ends = vec![&*self.cancel];
            ends.extend(unwanted);
            patience.wait(&fault, &ends);
            self.requests.retried();
        }
    }

    fn note_success(&self) {
        *self.went_well.lock() = Some(Instant::now());
        self.governor.went_well();
        self.crowd.went_well();
        if self.said.swap(false, Ordering::Relaxed) {
            self.note("the credentials are taken again");
        }
    }

    fn check(&self) -> Checksum {
        if self.md5.load(Ordering::Relaxed) { Checksum::Md5 } else { self.store.terms().check }
    }
}

//! The contract of a store, on which the client is built: one request per method.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::digest::hex;
use haul_core::{Error, Result, Side};

use crate::bucket_page::BucketPage;
use crate::details::Details;
use crate::fault::Fault;
use crate::payload::Payload;
use crate::url_method::UrlMethod;

/// The most names on one page of a listing: ten times as many as any provider sends.
pub(crate) const MAX_PAGE: usize = 10_000;

/// Refuses an answer with more names than any page has.
pub(crate) fn fits(count: usize, of: &str) -> RequestResult<()> {
    if count > MAX_PAGE {
        return Err(Fault::nonsense(format!("it names too many {of}")));
    }
    Ok(())
}

/// The result of one request.
pub(crate) type RequestResult<T> = Result<T, Fault>;

/// An object, as a store reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Key in the bucket.
    pub key: String,
    /// Length in bytes.
    pub len: u64,
    /// ETag, quotes included.
    pub etag: String,
    /// Modification time in the store's format: RFC 3339 in listings.
    pub modified: String,
    /// Storage class, where the store reports one.
    pub class: Option<String>,
    /// User metadata, names in lower case; empty unless `has_metadata`.
    pub metadata: Vec<(String, String)>,
    /// Whether `metadata` is known: most stores do not include it in listings.
    pub has_metadata: bool,
    /// CRC-64/NVME of the whole content, where the store keeps one.
    pub crc64: Option<u64>,
    /// CRC-32C of the whole content, where the store keeps one.
    pub crc32c: Option<u32>,
    /// MD5 of the whole content, where the store reports it apart from the ETag.
    pub content_md5: Option<[u8; 16]>,
    /// Whether the object is encrypted with a key of a key service or of the customer: then the ETag may look like an
    /// MD5 without being one.
    pub keyed: bool,
}

impl Object {
    /// The user metadata under `name`.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..])
    }

    /// The MD5 of the content, if the store reports one or the ETag is one: 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn md5(&self) -> Option<String> {
        let told = self.content_md5.as_ref().map(|md5| hex(md5));
        told.or_else(|| md5_of(&self.etag).filter(|_| !self.keyed))
    }
}

/// The MD5 in an ETag that looks like one. With KMS encryption it may look like one without being one.
pub(crate) fn md5_of(etag: &str) -> Option<String> {
    let bare = etag.trim_matches('"');
    (bare.len() == 32 && bare.bytes().all(|b| b.is_ascii_hexdigit())).then(|| bare.to_ascii_lowercase())
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Objects, in the order of the store.
    pub objects: Vec<Object>,
    /// Common prefixes, delimiter included.
    pub prefixes: Vec<String>,
    /// The token of the next page; `None` after the last.
    pub next: Option<String>,
}

/// The result of deleting several objects. The state of objects that it does not name is unknown.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    /// Keys of deleted objects.
    pub(crate) gone: HashSet<String>,
    /// Keys of objects that were not deleted, and why.
    pub(crate) left: HashMap<String, Fault>,
}

/// An incomplete multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The key of the future object.
    pub key: String,
    /// The upload id.
    pub id: String,
    /// When it was begun, in the store's format.
    pub begun: String,
}

/// The receipt of a part: enough to complete the upload in another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// The ETag of the part.
    pub etag: String,
    /// CRC-64/NVME that the store has verified.
    pub crc64: Option<u64>,
    /// CRC-32C of the stored part.
    pub crc32c: Option<u32>,
    /// MD5 of the stored part, where the store reports it apart from the ETag.
    pub content_md5: Option<[u8; 16]>,
}

impl Tag {
    /// The MD5 of the stored part: 32 lower-case hexadecimal digits.
    pub(crate) fn md5(&self) -> Option<String> {
        self.content_md5.as_ref().map(|md5| hex(md5)).or_else(|| md5_of(&self.etag))
    }
}

/// A part that a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPart {
    /// Part number, from 1.
    pub number: u32,
    /// Length in bytes.
    pub len: u64,
    /// The receipt of the part.
    pub tag: Tag,
}

impl HeldPart {
    /// Whether the part has this content: by length, and by the checksum that the store keeps or MD5.
    ///
    /// # Errors
    /// The error of reading the content.
    pub fn holds(&self, content: &Payload) -> Result<bool> {
        if self.len != content.len() {
            return Ok(false);
        }
        match (self.tag.crc64, self.tag.md5()) {
            (Some(crc64), _) => Ok(crc64 == content.crc64()),
            (None, Some(md5)) => {
                let ours = content.md5().map_err(|error| Error::io(Side::Local, "compare a part", &error))?;
                Ok(md5 == hex(&ours))
            }
            (None, None) => Ok(false),
        }
    }
}

/// The options of an object to be written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// HTTP headers to store: `content-type` and the like.
    pub headers: Vec<(String, String)>,
    /// User metadata.
    pub metadata: Vec<(String, String)>,
    /// Object tags.
    pub tags: Vec<(String, String)>,
    /// Storage class.
    pub storage_class: Option<String>,
    /// Server-side encryption.
    pub sse: Option<String>,
    /// The key for it.
    pub sse_kms_key_id: Option<String>,
    /// Fails if the object exists.
    pub no_clobber: bool,
}

/// How the store verifies an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// By CRC-64/NVME.
    Crc64,
    /// By CRC-32C.
    Crc32c,
    /// By MD5: for stores that do not support the others.
    Md5,
}

/// The documented limits and features of the stores of one provider.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The most parts of an object.
    pub max_parts: u32,
    /// How content is verified; by MD5 if a store refuses this checksum.
    pub check: Checksum,
    /// The most objects deleted by one request.
    pub delete_batch: usize,
    /// The most bytes copied by one request.
    pub max_copy_len: u64,
    /// The fate of abandoned uploads, where no request aborts them.
    pub keeps_uploads: Option<&'static str>,
    /// Whether the uploads of all objects under a prefix are listed, not only those of one object.
    pub lists_uploads: bool,
    /// Whether the metadata of a multipart object is sent when the upload is completed, not when it is created.
    pub metadata_at_end: bool,
    /// Where credentials come from, as a hint.
    pub credentials: &'static str,
}

/// A request is silent for this long before the user is told.
const SILENT: Duration = Duration::from_millis(2500);

/// The progress of one request, and whether it is still wanted.
pub(crate) struct RequestProgress<'a> {
    begun: Instant,
    /// Microseconds from `begun` to the last progress.
    moved: AtomicU64,
    /// The run is cancelled.
    cancel: &'a AtomicBool,
    /// This request is not wanted any more.
    unwanted: Option<&'a AtomicBool>,
    /// The longest time without progress.
    pub(crate) stall: Duration,
    /// Called while there is no progress at all.
    silent: Option<&'a (dyn Fn() + Sync)>,
}

impl<'a> RequestProgress<'a> {
    /// A request that begins now.
    pub(crate) fn new(stall: Duration, cancel: &'a AtomicBool, unwanted: Option<&'a AtomicBool>) -> Self {
        Self { begun: Instant::now(), moved: AtomicU64::new(0), cancel, unwanted, stall, silent: None }
    }

    /// Microseconds since it began.
    pub(crate) fn age_micros(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Calls `tell` again and again while the request is silent.
    pub(crate) fn telling(self, tell: &'a (dyn Fn() + Sync)) -> Self {
        Self { silent: Some(tell), ..self }
    }

    /// Tells the user if the request is silent.
    pub(crate) fn look(&self) {
        if let Some(tell) = self.silent
            && self.since_moved() > SILENT
        {
            tell();
        }
    }

    /// Notes progress.
    pub(crate) fn moved(&self) {
        self.moved.store(self.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Whether there was no progress for too long.
    pub(crate) fn is_stalled(&self) -> bool {
        self.since_moved() > self.stall
    }

    fn since_moved(&self) -> Duration {
        let moved = Duration::from_micros(self.moved.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(moved)
    }

    /// Whether the request is cancelled or not wanted any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
            || self.unwanted.is_some_and(|unwanted| unwanted.load(Ordering::Relaxed))
    }
}

/// The object of which a range is read, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedObject<'a> {
    /// Its ETag; empty if unknown.
    pub etag: &'a str,
    /// Its length.
    pub len: Option<u64>,
}

/// Takes the bytes of a range as they arrive.
pub(crate) type TakeBytes<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

/// Requests about objects.
pub(crate) trait ObjectRequests: Send + Sync {
    /// Looks up an object and its details.
    fn describe(&self, key: &str, at: &RequestProgress<'_>) -> RequestResult<(Object, Details)>;

    /// Reads the bytes of `range`, if the object is the expected one.
    fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: ExpectedObject<'_>,
        take: TakeBytes<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()>;

    /// Reads an object of up to `limit` bytes with its metadata.
    fn get_whole(
        &self,
        key: &str,
        limit: usize,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Object, Vec<u8>)>;

    /// Writes an object in one request.
    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag>;

    /// Lists one page of the objects under `prefix`.
    fn list(
        &self,
        prefix: &str,
        delimiter: bool,
        next: Option<&str>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<ListPage>;

    /// Deletes an object; with `etag` only the one with this ETag, where the store supports the condition. Deleting a
    /// missing one succeeds.
    fn delete(&self, key: &str, etag: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<()>;

    /// Whether a key survives the XML of [`ObjectRequests::delete_all`] unchanged.
    fn deletes_together(&self, _key: &str) -> bool {
        false
    }

    /// Deletes up to [`Terms::delete_batch`] objects, whose keys must pass [`ObjectRequests::deletes_together`].
    fn delete_all(&self, _keys: &[&str], _at: &RequestProgress<'_>) -> RequestResult<Deleted> {
        Err(Fault::new(crate::fault::FailureClass::Unsupported, "the store removes one object at a time"))
    }

    /// Copies an object within the bucket, if it still has its ETag; up to [`Terms::max_copy_len`] bytes.
    fn copy(
        &self,
        from: &Object,
        to: &str,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()>;
}

/// Requests about multipart uploads.
pub(crate) trait UploadRequests: Send + Sync {
    /// Creates an upload and returns its id.
    fn create(
        &self,
        key: &str,
        options: &PutOptions,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<String>;

    /// Writes a part, numbered from 1. Writing it again replaces it.
    fn put_part(
        &self,
        part: PartOf<'_>,
        body: &Payload,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag>;

    /// Copies a range of an object of this bucket into a part, if the object still has its ETag.
    fn copy_part(
        &self,
        from: &Object,
        range: Range<u64>,
        part: PartOf<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag>;

    /// Completes an upload from its parts, in order, and returns the ETag of the object.
    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        whole: Whole,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<String>;

    /// Aborts an upload. Aborting a missing one succeeds.
    fn abort(&self, upload: &Upload, at: &RequestProgress<'_>) -> RequestResult<()>;

    /// Lists the parts after number `after`, ascending, and whether there are more.
    fn parts(
        &self,
        upload: &Upload,
        after: u32,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<HeldPart>, bool)>;

    /// Lists the incomplete uploads under `prefix` after `marker`, and whether there are more. Without
    /// [`Terms::lists_uploads`], those of the object with this exact key.
    fn uploads(
        &self,
        prefix: &str,
        marker: Option<&Upload>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<Upload>, bool)>;
}

/// An object store. Each method is one request and is not retried; many threads may call it at once.
pub(crate) trait Store: ObjectRequests + UploadRequests {
    /// The limits and features of the provider.
    fn terms(&self) -> &'static Terms;

    /// A warning about how requests are sent, once one was made.
    fn warning(&self) -> Option<String> {
        None
    }

    /// A URL with which anyone can read or write one object for some time.
    fn presign(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String>;

    /// Lists one page of the buckets that the credentials may see.
    fn list_buckets(&self, next: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<BucketPage>;

    /// Makes the bucket.
    fn make_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()>;

    /// Removes the bucket. Some stores also do so if it has objects.
    fn remove_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()>;

    /// Checks that an object can be written with these options, before anything is sent.
    ///
    /// # Errors
    /// [`FailureClass::Unsupported`](crate::fault::FailureClass::Unsupported), naming the option that the provider lacks.
    fn check_options(&self, options: &PutOptions) -> RequestResult<()>;
}

/// A part of an upload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOf<'a> {
    /// The upload.
    pub upload: &'a Upload,
    /// Part number, from 1.
    pub number: u32,
}

/// The whole object of a multipart upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Length in bytes.
    pub len: u64,
    /// CRC-64/NVME, if all parts were verified by it.
    pub crc64: Option<u64>,
}

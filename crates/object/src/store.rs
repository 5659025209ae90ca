//! What a store can do: the contract that the client stands on, one request for each call.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::digest::hex;
use haul_core::{Error, Result, Side};

use crate::fault::Fault;
use crate::payload::Payload;

/// Names on one page of a listing, at most: ten times as many as any provider gives.
pub(crate) const MAX_PAGE: usize = 10_000;

/// Refuses an answer that names so many of them that it is no page.
pub(crate) fn fits(count: usize, of: &str) -> Answer<()> {
    if count > MAX_PAGE {
        return Err(Fault::nonsense(format!("it names too many {of}")));
    }
    Ok(())
}

/// The outcome of one request.
pub(crate) type Answer<T> = Result<T, Fault>;

/// What a store tells of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Its name in the bucket.
    pub key: String,
    /// Its length in bytes.
    pub len: u64,
    /// The store's mark of this content, quotes included.
    pub etag: String,
    /// When it was made, as the store writes it: RFC 3339 in listings.
    pub modified: String,
    /// Its storage class, where the store says one.
    pub class: Option<String>,
    /// What its writer noted, names in lower case; empty unless `noted`.
    pub metadata: Vec<(String, String)>,
    /// `metadata` is all that was noted: the listings of most stores do not tell it.
    pub noted: bool,
    /// CRC-64/NVME of the whole content, where the store keeps one.
    pub crc64: Option<u64>,
    /// CRC-32C of the whole content, where the store keeps one.
    pub crc32c: Option<u32>,
    /// MD5 of the whole content, where the store tells it apart from its mark.
    pub content_md5: Option<[u8; 16]>,
    /// It is encrypted with a key of a key service or of the customer's: its mark may look like an MD5 and is none.
    pub keyed: bool,
}

impl Object {
    /// What its writer noted under `name`.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..])
    }

    /// The MD5 of its content, where the store tells one or its mark is one: 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn md5(&self) -> Option<String> {
        let told = self.content_md5.as_ref().map(|md5| hex(md5));
        told.or_else(|| md5_of(&self.etag).filter(|_| !self.keyed))
    }
}

/// The MD5 in an `ETag`, if it looks like one. With server-side encryption by KMS it may look so and be another thing.
pub(crate) fn md5_of(etag: &str) -> Option<String> {
    let bare = etag.trim_matches('"');
    (bare.len() == 32 && bare.bytes().all(|b| b.is_ascii_hexdigit())).then(|| bare.to_ascii_lowercase())
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects, in the order of the store.
    pub objects: Vec<Object>,
    /// Prefixes that several keys share, up to and with the delimiter.
    pub prefixes: Vec<String>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

/// What became of objects that were to be removed together. Of what it does not name, nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    /// Keys of those that are gone.
    pub(crate) gone: HashSet<String>,
    /// Keys of those that stay, and why.
    pub(crate) left: HashMap<String, Fault>,
}

/// An upload that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The object that it is to become.
    pub key: String,
    /// The store's name for it.
    pub id: String,
    /// When it was begun, as the store writes it.
    pub begun: String,
}

/// What is recorded of a part: enough to complete the upload in another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// The store's mark of the part.
    pub etag: String,
    /// CRC-64/NVME that the store has checked.
    pub crc64: Option<u64>,
    /// CRC-32C of what the store has.
    pub crc32c: Option<u32>,
    /// MD5 of what the store has, where it tells it apart from its mark.
    pub content_md5: Option<[u8; 16]>,
}

impl Tag {
    /// The MD5 of what the store has: 32 lower-case hexadecimal digits.
    pub(crate) fn md5(&self) -> Option<String> {
        self.content_md5.as_ref().map(|md5| hex(md5)).or_else(|| md5_of(&self.etag))
    }
}

/// A part that a store holds already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPart {
    /// Its number, from 1.
    pub number: u32,
    /// Its length in bytes.
    pub len: u64,
    /// Its mark.
    pub tag: Tag,
}

impl HeldPart {
    /// Whether it is this content: by length, and by the checksum that the store keeps or MD5.
    ///
    /// # Errors
    /// If the content cannot be read to be compared.
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

/// What is asked for about an object that is written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// HTTP headers that are kept with it: `content-type` and the like.
    pub headers: Vec<(String, String)>,
    /// What is noted with it.
    pub metadata: Vec<(String, String)>,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// Its storage class.
    pub storage_class: Option<String>,
    /// How the store encrypts it.
    pub sse: Option<String>,
    /// With which key.
    pub sse_kms_key_id: Option<String>,
    /// Never in the place of another object.
    pub no_clobber: bool,
}

/// How an upload is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// By CRC-64/NVME.
    Crc64,
    /// By CRC-32C.
    Crc32c,
    /// By MD5: for stores that do not know the former.
    Md5,
}

/// What the stores of one provider take and know, as it documents them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Parts that an object may have.
    pub(crate) max_parts: u32,
    /// How content is checked, unless a store refuses it; then it is checked by MD5.
    pub(crate) check: Checksum,
    /// Objects that one request removes.
    pub(crate) removes: usize,
    /// Bytes that it copies in one request.
    pub(crate) copies: u64,
    /// What becomes of uploads that nobody completes, where no request gives them up.
    pub(crate) keeps_uploads: Option<&'static str>,
    /// Uploads of all objects under a prefix are listed, not only those of one object.
    pub(crate) lists_uploads: bool,
    /// What is noted with an object of parts is told when it is completed, not when it is begun.
    pub(crate) notes_at_end: bool,
    /// Where credentials come from, for people.
    pub(crate) credentials: &'static str,
}

/// One request while it is under way: how far it is, and whether anybody still wants it.
#[derive(Debug)]
pub(crate) struct Activity<'a> {
    begun: Instant,
    /// Microseconds from `begun` until something moved last.
    moved: AtomicU64,
    /// The run is cancelled.
    cancel: &'a AtomicBool,
    /// Nobody wants this one any more.
    unwanted: Option<&'a AtomicBool>,
    /// How long it may stand still.
    pub(crate) stall: Duration,
}

impl<'a> Activity<'a> {
    /// Begins now.
    pub(crate) fn new(stall: Duration, cancel: &'a AtomicBool, unwanted: Option<&'a AtomicBool>) -> Self {
        Self { begun: Instant::now(), moved: AtomicU64::new(0), cancel, unwanted, stall }
    }

    /// Something moved.
    pub(crate) fn moved(&self) {
        self.moved.store(self.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Whether it stands still for too long.
    pub(crate) fn is_stalled(&self) -> bool {
        let moved = Duration::from_micros(self.moved.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(moved) > self.stall
    }

    /// Whether nobody wants it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
            || self.unwanted.is_some_and(|unwanted| unwanted.load(Ordering::Relaxed))
    }
}

/// What is known of an object of which a range is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Its mark; empty where it is not known.
    pub etag: &'a str,
    /// Its length.
    pub len: Option<u64>,
}

/// Takes the bytes of a range as they come. What it says to an error of its own ends the request.
pub(crate) type Take<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

/// An object store. Each call is one request, without patience; it may be used from many threads at once.
pub(crate) trait Store: Send + Sync {
    /// What holds for all stores of its kind.
    fn terms(&self) -> &'static Terms;

    /// What a person should know of how requests go, once one was made.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Whether an object can be written with these options. Asked before anything is sent.
    ///
    /// # Errors
    /// A fault of class [`Class::Unsupported`](crate::fault::Class::Unsupported) that names what the provider lacks.
    fn takes(&self, options: &PutOptions) -> Answer<()>;

    /// What is there under `key`.
    fn head(&self, key: &str, at: &Activity<'_>) -> Answer<Object>;

    /// Gives the bytes of `range`, if the object still is what is known of it.
    fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: Known<'_>,
        take: Take<'_>,
        at: &Activity<'_>,
    ) -> Answer<()>;

    /// What is there under `key` with all of its content, which is up to `limit` bytes.
    fn get_whole(&self, key: &str, limit: usize, at: &Activity<'_>) -> Answer<(Object, Vec<u8>)>;

    /// Writes an object in one request.
    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &Activity<'_>,
    ) -> Answer<Tag>;

    /// Begins an upload in parts and gives its id.
    fn create(&self, key: &str, options: &PutOptions, check: Checksum, at: &Activity<'_>) -> Answer<String>;

    /// Writes a part; numbers begin with 1. Writing it again replaces it.
    fn put_part(&self, part: PartOf<'_>, body: &Payload, check: Checksum, at: &Activity<'_>) -> Answer<Tag>;

    /// Makes the object from its parts, in their order, and gives its mark.
    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        whole: Whole,
        options: &PutOptions,
        at: &Activity<'_>,
    ) -> Answer<String>;

    /// Gives up an upload. One that is gone already counts as given up.
    fn abort(&self, upload: &Upload, at: &Activity<'_>) -> Answer<()>;

    /// The parts that are there after the one with number `after`, ascending, and whether there are more.
    fn parts(&self, upload: &Upload, after: u32, at: &Activity<'_>) -> Answer<(Vec<HeldPart>, bool)>;

    /// Uploads under `prefix` that are not complete, from `marker` on, and whether there are more; those of the object
    /// of this very name where [`Terms::lists_uploads`] says no.
    fn uploads(
        &self,
        prefix: &str,
        marker: Option<&Upload>,
        at: &Activity<'_>,
    ) -> Answer<(Vec<Upload>, bool)>;

    /// One page of the objects under `prefix`.
    fn list(&self, prefix: &str, delimiter: bool, next: Option<&str>, at: &Activity<'_>) -> Answer<Page>;

    /// Removes an object. One that is not there counts as removed.
    fn delete(&self, key: &str, at: &Activity<'_>) -> Answer<()>;

    /// Whether a key can be named in a request of [`Store::delete_all`] so that no reader takes it for another.
    fn deletes_together(&self, _key: &str) -> bool {
        false
    }

    /// Removes as many objects as its terms say, whose keys can [be named together](Store::deletes_together).
    fn delete_all(&self, _keys: &[&str], _at: &Activity<'_>) -> Answer<Deleted> {
        Err(Fault::new(crate::fault::Class::Unsupported, "the store removes one object at a time"))
    }

    /// Copies an object of this bucket inside the store, if it still bears its mark; up to [`Terms::copies`] bytes.
    fn copy(&self, from: &Object, to: &str, options: &PutOptions, at: &Activity<'_>) -> Answer<()>;

    /// Copies a range of an object of this bucket inside the store into a part of an upload, if it still bears its mark.
    fn copy_part(&self, from: &Object, range: Range<u64>, part: PartOf<'_>, at: &Activity<'_>)
    -> Answer<Tag>;
}

/// Which part of which upload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOf<'a> {
    /// The upload.
    pub upload: &'a Upload,
    /// The number of the part, from 1.
    pub number: u32,
}

/// What is known of the whole of an object that is made of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Its length in bytes.
    pub len: u64,
    /// Its CRC-64/NVME, where the parts were checked by it.
    pub crc64: Option<u64>,
}

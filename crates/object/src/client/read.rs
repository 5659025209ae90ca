//! Requests for one object: metadata, content, copies.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use haul_core::{Error, ErrorKind, Result};

use super::bucket::Client;
use crate::details::Details;
use crate::fault::{FailureClass, Fault};
use crate::store::{ExpectedObject, Object, PartOf, PutOptions, RequestProgress, Tag, Upload};

impl Client {
    /// Looks up an object; `None` if there is none.
    ///
    /// # Errors
    /// The error of the request.
    pub fn head(&self, key: &str) -> Result<Option<Object>> {
        Ok(self.describe(key)?.map(|(object, _)| object))
    }

    /// Looks up an object and its details; `None` if there is none.
    ///
    /// # Errors
    /// The error of the request.
    pub fn describe(&self, key: &str) -> Result<Option<(Object, Details)>> {
        match self.ask(|at| self.head_with_reason(key, at)) {
            Ok(described) => Ok(Some(described)),
            // A missing bucket looks the same; see `missing`.
            Err(fault) if fault.class == FailureClass::NotFound => Ok(None),
            Err(fault) => Err(self.error(&fault, "look at", key)),
        }
    }

    /// Sends a HEAD request. An error answer to HEAD has no body and hence no reason; then one byte of the object is
    /// requested to learn it, except for a missing object.
    fn head_with_reason(&self, key: &str, at: &RequestProgress<'_>) -> Result<(Object, Details), Fault> {
        let lacks_reason = |fault: &Fault| fault.is_bare() || fault.status == 500 && fault.code.is_empty();
        let bare = match self.store.describe(key, at) {
            Err(fault) if lacks_reason(&fault) && fault.class != FailureClass::NotFound => fault,
            other => return other,
        };
        match self.store.get(key, 0..1, ExpectedObject::default(), &mut |_| {}, at) {
            Err(told) if !lacks_reason(&told) && told.class != FailureClass::Condition => Err(told),
            _ => Err(bare),
        }
    }

    /// Explains why a named object does not exist: there may be no such bucket, or no store may answer.
    pub fn missing(&self, key: &str, operation: &str) -> Error {
        let asked = self.ask(|at| self.store.get(key, 0..1, ExpectedObject::default(), &mut |_| {}, at));
        match asked {
            Err(fault)
                if !matches!(&fault.code[..], "" | "NoSuchKey" | "BlobNotFound") || fault.is_foreign() =>
            {
                self.error(&fault, operation, key)
            }
            _ => {
                let error = Error::new(ErrorKind::NotFound, self.side, operation, "there is no such object");
                error.on(self.name(key)).with_hint("`haul ls` lists the objects")
            }
        }
    }

    /// Passes the bytes of `range` to `take`, if the object still has its ETag, until `unwanted` is set.
    ///
    /// Before a retry, `take` gets `None` and must drop the bytes that it has.
    ///
    /// # Errors
    /// [`ErrorKind::SourceChanged`] if the object was replaced, else the error of the request.
    pub fn read(
        &self,
        object: &Object,
        range: Range<u64>,
        unwanted: &AtomicBool,
        take: &mut (dyn FnMut(Option<&[u8]>) + Send),
    ) -> Result<()> {
        let _permit = self.limiter.permit();
        self.read_range(object, range, unwanted, take)
    }

    pub(super) fn read_range(
        &self,
        object: &Object,
        range: Range<u64>,
        unwanted: &AtomicBool,
        take: &mut (dyn FnMut(Option<&[u8]>) + Send),
    ) -> Result<()> {
        let _admitted = self.received.admit(range.end - range.start, || self.has_ended(Some(unwanted)));
        let request = |at: &RequestProgress<'_>| {
            take(None);
            let known = ExpectedObject { etag: &object.etag, len: Some(object.len) };
            self.store.get(&object.key, range.clone(), known, &mut |bytes| take(Some(bytes)), at)
        };
        self.ask_unless(Some(unwanted), request).map_err(|fault| self.changed_or(&fault, "read", object))
    }

    /// Reads a small object; `None` if there is none of up to `limit` bytes.
    ///
    /// # Errors
    /// The error of the request.
    pub fn read_small(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.whole(key, limit)?.map(|(_, content)| content))
    }

    pub(super) fn whole(&self, key: &str, limit: usize) -> Result<Option<(Object, Vec<u8>)>> {
        match self.ask(|at| self.store.get_whole(key, limit, at)) {
            Ok(whole) => Ok(Some(whole)),
            Err(fault) if matches!(fault.class, FailureClass::NotFound | FailureClass::TooLong) => Ok(None),
            Err(fault) => Err(self.error(&fault, "read", key)),
        }
    }

    /// Copies an object within its bucket in one request, if it still has its ETag.
    ///
    /// # Errors
    /// [`ErrorKind::SourceChanged`] if the object was replaced, else the error of the request.
    pub fn copy(&self, from: &Object, to: &str, options: &PutOptions) -> Result<()> {
        self.ask(|at| self.store.copy(from, to, options, at))
            .map_err(|fault| self.changed_or(&fault, "copy", from))
    }

    /// Copies a range of an object of this bucket into a part of an upload, if the object still has its ETag.
    ///
    /// # Errors
    /// Those of [`Client::copy`].
    pub fn copy_part(&self, from: &Object, range: Range<u64>, upload: &Upload, number: u32) -> Result<Tag> {
        let _permit = self.limiter.permit();
        let part = PartOf { upload, number };
        let copied = self.ask(|at| self.store.copy_part(from, range.clone(), part, at));
        copied.map_err(|fault| self.changed_or(&fault, "copy", from))
    }
}

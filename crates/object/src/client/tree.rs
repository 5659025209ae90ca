//! Requests of trees: many small objects at a time, and parts in any order.

use std::sync::atomic::AtomicBool;

use haul_core::Result;

use super::bucket::Client;
use crate::payload::Payload;
use crate::store::{Object, PartOf, PutOptions, Tag, Upload};

impl Client {
    /// Looks up an object; `None` if there is none. For many at a time.
    ///
    /// # Errors
    /// The error of the request.
    pub fn look(&self, key: &str) -> Result<Option<Object>> {
        let _permit = self.small_limiter.permit();
        self.head(key)
    }

    /// Reads an object of up to `limit` bytes with its metadata; `None` if there is none. For many at a time.
    ///
    /// # Errors
    /// The error of the request.
    pub fn fetch(&self, key: &str, limit: usize) -> Result<Option<(Object, Vec<u8>)>> {
        let _permit = self.small_limiter.permit();
        self.whole(key, limit)
    }

    /// Passes the whole of an object to `take`, as [`Client::read`] does. For many at a time.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub fn read_object(&self, object: &Object, take: &mut (dyn FnMut(Option<&[u8]>) + Send)) -> Result<()> {
        let _permit = self.small_limiter.permit();
        self.read_range(object, 0..object.len, &AtomicBool::new(false), take)
    }

    /// Writes an object in one request. For many at a time.
    ///
    /// # Errors
    /// The error of the request.
    pub fn write_object(&self, key: &str, content: &Payload, options: &PutOptions) -> Result<Tag> {
        let _admitted = self.sent.admit(content.len(), || self.has_ended(None));
        let _permit = self.small_limiter.permit();
        self.put(key, content, options)
    }

    /// Writes part `number`, from 1, of an upload, unless it is `unwanted` by now; it may be written again.
    ///
    /// # Errors
    /// The error of the request.
    pub fn write_part(
        &self,
        upload: &Upload,
        number: u32,
        content: &Payload,
        unwanted: Option<&AtomicBool>,
    ) -> Result<Tag> {
        self.put_part(PartOf { upload, number }, content, unwanted)
    }
}

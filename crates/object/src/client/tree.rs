//! Requests of trees: many small objects at a time, and parts in any order.

use std::sync::atomic::AtomicBool;

use haul_core::Result;

use super::bucket::Client;
use super::limiter::Permit;
use crate::payload::{CHUNK, Payload};
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
        let _permit = self.permit_for(object.len);
        self.read_range(object, 0..object.len, &AtomicBool::new(false), take)
    }

    /// Writes an object in one request. For many at a time.
    ///
    /// # Errors
    /// The error of the request.
    pub fn write_object(&self, key: &str, content: &Payload, options: &PutOptions) -> Result<Tag> {
        let _permit = self.permit_for(content.len());
        self.put(key, content, options)
    }

    /// The permit for a request with so many bytes of content. At a limited rate, one that sends them in several chunks
    /// counts as one with much content: if many took turns, a store would take each of them for dead.
    fn permit_for(&self, bytes: u64) -> Permit<'_> {
        let is_large = self.is_limited() && bytes > CHUNK as u64;
        if is_large { self.limiter.permit() } else { self.small_limiter.permit() }
    }

    /// Writes part `number`, from 1, of an upload; it may be written again.
    ///
    /// # Errors
    /// The error of the request.
    pub fn write_part(&self, upload: &Upload, number: u32, content: &Payload) -> Result<Tag> {
        self.put_part(PartOf { upload, number }, content)
    }
}

//! What trees ask for besides: many objects with little content at a time, and parts in any order.

use std::sync::atomic::AtomicBool;

use crc_fast::{CrcAlgorithm, checksum_combine};
use haul_core::Result;

use super::{Client, RUN};
use crate::payload::Payload;
use crate::store::{Object, PartOf, PutOptions, Tag, Upload};

impl Client {
    /// What is there under `key`; `None` if nothing is. One of many such questions at a time.
    ///
    /// # Errors
    /// If the store does not say.
    pub fn look(&self, key: &str) -> Result<Option<Object>> {
        let _permit = self.crowd.permit();
        self.head(key)
    }

    /// What is there under `key` with all of its content, which is up to `limit` bytes; `None` if there is none such. One
    /// of many at a time.
    ///
    /// # Errors
    /// If the store does not say.
    pub fn fetch(&self, key: &str, limit: usize) -> Result<Option<(Object, Vec<u8>)>> {
        let _permit = self.crowd.permit();
        self.whole(key, limit)
    }

    /// Appends the whole of an object to `take`, as [`Client::read`] does. One of many at a time.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn read_object(&self, object: &Object, take: &mut (dyn FnMut(Option<&[u8]>) + Send)) -> Result<()> {
        let _permit = self.crowd.permit();
        self.read_range(object, 0..object.len, &AtomicBool::new(false), take)
    }

    /// Writes an object in one request. One of many at a time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_object(&self, key: &str, content: &Payload, options: &PutOptions) -> Result<Tag> {
        let _permit = self.crowd.permit();
        self.put(key, content, options)
    }

    /// Writes part `number`, from 1, of an upload; it may be written again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_part(&self, upload: &Upload, number: u32, content: &Payload) -> Result<Tag> {
        self.put_part(PartOf { upload, number }, content)
    }
}

/// A note by which an object is known to be of this run, when the answer that it was made is lost.
#[must_use]
pub fn run_note() -> (String, String) {
    (RUN.to_owned(), crate::put::run_name())
}

/// The CRC-64/NVME of contents one after the other, from that of each and its length in bytes.
#[must_use]
pub fn joined_crc64(parts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let join = |all, (crc64, len)| checksum_combine(CrcAlgorithm::Crc64Nvme, all, crc64, len);
    parts.into_iter().fold(0, join)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_join() {
        let crc = |bytes: &[u8]| Payload::from_bytes(bytes.to_vec()).crc64();
        assert_eq!(joined_crc64([(crc(b"1234"), 4), (crc(b""), 0), (crc(b"56789"), 5)]), crc(b"123456789"));
        assert_eq!(joined_crc64([]), crc(b""));
    }
}

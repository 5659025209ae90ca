//! The body of a request: bytes in memory, or a part larger than memory in an unlinked file.

use haul_core::sync::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum_combine};
use haul_core::Buffer;
use md5::{Digest, Md5};

/// Bytes sent at a time: few, so that progress on a slow link is visible.
pub(crate) const CHUNK: usize = 64 << 10;

/// The body of one request. Clones share the bytes.
#[derive(Clone)]
pub struct Payload {
    source: PayloadSource,
    len: u64,
    crc64: u64,
    md5: Arc<Mutex<Option<[u8; 16]>>>,
    crc32c: Arc<Mutex<Option<u32>>>,
}

#[derive(Clone)]
enum PayloadSource {
    Memory(Arc<[Bytes]>),
    File(Arc<File>),
}

/// A buffer that returns to its pool when the last request has dropped it.
struct Pooled(Buffer);

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// The bytes of a buffer, which returns to its pool when they are dropped.
#[must_use]
pub fn share(buffer: Buffer) -> Bytes {
    Bytes::from_owner(Pooled(buffer))
}

impl Payload {
    /// A body of some bytes.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let crc64 = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes);
        Self::new(bytes.len() as u64, crc64, PayloadSource::Memory(Arc::new([bytes])))
    }

    /// A body of blocks in sequence.
    #[must_use]
    pub fn from_blocks(blocks: Vec<Bytes>) -> Self {
        let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme);
        blocks.iter().for_each(|block| crc.update(block));
        let len = blocks.iter().map(|block| block.len() as u64).sum();
        Self::new(len, crc.finalize(), PayloadSource::Memory(blocks.into()))
    }

    /// A body of buffers in sequence, with the CRC-64/NVME of all.
    #[must_use]
    pub fn from_buffers(buffers: Vec<Buffer>, crc64: u64) -> Self {
        let len = buffers.iter().map(|buffer| buffer.bytes().len() as u64).sum();
        let blocks: Vec<Bytes> = buffers.into_iter().map(share).collect();
        Self::new(len, crc64, PayloadSource::Memory(blocks.into()))
    }

    /// The first `len` bytes of a file, with their CRC-64/NVME.
    #[must_use]
    pub fn from_file(file: File, len: u64, crc64: u64) -> Self {
        Self::new(len, crc64, PayloadSource::File(Arc::new(file)))
    }

    fn new(len: u64, crc64: u64, source: PayloadSource) -> Self {
        Self { source, len, crc64, md5: Arc::default(), crc32c: Arc::default() }
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// CRC-64/NVME.
    #[must_use]
    pub fn crc64(&self) -> u64 {
        self.crc64
    }

    /// The MD5, computed on first use.
    ///
    /// # Errors
    /// The error of reading the file.
    pub fn md5(&self) -> io::Result<[u8; 16]> {
        let mut known = self.md5.lock();
        if let Some(digest) = *known {
            return Ok(digest);
        }
        let mut hasher = Md5::new();
        let mut at = 0;
        while let Some(chunk) = self.chunk(&mut at)? {
            hasher.update(&chunk);
        }
        let digest = hasher.finalize().into();
        *known = Some(digest);
        Ok(digest)
    }

    /// The CRC-32C, computed on first use.
    ///
    /// # Errors
    /// The error of reading the file.
    pub(crate) fn crc32c(&self) -> io::Result<u32> {
        let mut known = self.crc32c.lock();
        if let Some(sum) = *known {
            return Ok(sum);
        }
        let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut at = 0;
        while let Some(chunk) = self.chunk(&mut at)? {
            crc.update(&chunk);
        }
        let sum = crc.finalize() as u32;
        *known = Some(sum);
        Ok(sum)
    }

    /// Copies the bytes from position `at` on; there have to be enough of them.
    ///
    /// # Errors
    /// The error of reading the file, or that the body is shorter.
    pub fn read_at(&self, mut at: u64, mut into: &mut [u8]) -> io::Result<()> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        if let PayloadSource::File(file) = &self.source {
            return file.read_exact_at(into, at);
        }
        while !into.is_empty() {
            let chunk = self.chunk(&mut at)?.ok_or_else(short)?;
            let (head, rest) = into.split_at_mut(chunk.len().min(into.len()));
            head.copy_from_slice(&chunk[..head.len()]);
            into = rest;
        }
        Ok(())
    }

    /// The next bytes from position `at`, which is advanced; `None` at the end.
    ///
    /// # Errors
    /// The error of reading the file.
    pub(crate) fn chunk(&self, at: &mut u64) -> io::Result<Option<Bytes>> {
        self.chunk_of(at, CHUNK)
    }

    /// The same, at most `most` bytes.
    ///
    /// # Errors
    /// The error of reading the file.
    pub(crate) fn chunk_of(&self, at: &mut u64, most: usize) -> io::Result<Option<Bytes>> {
        match &self.source {
            PayloadSource::Memory(blocks) => {
                let mut start = 0;
                for block in blocks.iter() {
                    let end = start + block.len() as u64;
                    if *at < end {
                        let from = (*at - start) as usize;
                        let to = block.len().min(from + most);
                        *at = start + to as u64;
                        return Ok(Some(block.slice(from..to)));
                    }
                    start = end;
                }
                Ok(None)
            }
            PayloadSource::File(file) => {
                let len = (self.len - *at).min(most as u64) as usize;
                if len == 0 {
                    return Ok(None);
                }
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, *at)?;
                *at += len as u64;
                Ok(Some(Bytes::from(bytes)))
            }
        }
    }
}

/// The CRC-64/NVME of a sequence, from the CRC and the length in bytes of each part.
#[must_use]
pub fn joined_crc64(parts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let join = |all, (crc64, len)| checksum_combine(CrcAlgorithm::Crc64Nvme, all, crc64, len);
    parts.into_iter().fold(0, join)
}

/// A checksum as HTTP headers carry it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A CRC-64 as S3 writes it in headers.
pub(crate) fn crc64_text(crc64: u64) -> String {
    base64(&crc64.to_be_bytes())
}

/// Parses a CRC-64 of a header.
pub(crate) fn crc64_of(text: &str) -> Option<u64> {
    Some(u64::from_be_bytes(STANDARD.decode(text).ok()?.try_into().ok()?))
}

/// Parses a CRC-64 of an Azure header, which is little-endian.
pub(crate) fn crc64_le_of(text: &str) -> Option<u64> {
    crc64_of(text).map(u64::swap_bytes)
}

/// Parses a CRC-32C of a header, which is big-endian.
pub(crate) fn crc32c_of(text: &str) -> Option<u32> {
    Some(u32::from_be_bytes(STANDARD.decode(text).ok()?.try_into().ok()?))
}

/// Parses an MD5 of a header.
pub(crate) fn md5_in(text: &str) -> Option<[u8; 16]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::digest::hex;
    use std::io::Write;

    #[test]
    fn memory_and_file_bodies_are_equal() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let memory = Payload::from_bytes(bytes.clone());
        let file = Payload::from_file(file, bytes.len() as u64, memory.crc64());
        for payload in [&memory, &file] {
            let (mut at, mut read) = (0, Vec::new());
            while let Some(chunk) = payload.chunk(&mut at).unwrap() {
                read.extend_from_slice(&chunk);
            }
            assert!(read == bytes);
        }
        assert_eq!(memory.md5().unwrap(), file.md5().unwrap());
        // The check value of CRC-64/NVME in the catalogue of parametrised CRC algorithms.
        assert_eq!(Payload::from_bytes(&b"123456789"[..]).crc64(), 0xae8b_1486_0a79_9888);
        assert_eq!(Payload::from_bytes(&b"123456789"[..]).crc32c().unwrap(), 0xe306_9283);
        assert_eq!(crc64_of(&base64(&7_u64.to_be_bytes())), Some(7));
        assert_eq!(hex(&Payload::from_bytes(&b""[..]).md5().unwrap()), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn checksums_of_parts_combine() {
        let crc = |bytes: &[u8]| Payload::from_bytes(bytes.to_vec()).crc64();
        assert_eq!(joined_crc64([(crc(b"1234"), 4), (crc(b""), 0), (crc(b"56789"), 5)]), crc(b"123456789"));
        assert_eq!(joined_crc64([]), crc(b""));
    }
}

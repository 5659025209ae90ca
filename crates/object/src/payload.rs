//! What is sent: bytes in memory, or a part that is larger than memory and lies in an unlinked file.

use haul_core::sync::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use haul_core::Buffer;
use md5::{Digest, Md5};

/// Bytes that are handed over at a time: few, so that a slow link is seen to move.
const CHUNK: usize = 64 << 10;

/// Content of one request. Cloning it copies nothing.
#[derive(Clone)]
pub struct Payload {
    source: Source,
    len: u64,
    crc64: u64,
    md5: Arc<Mutex<Option<[u8; 16]>>>,
    crc32c: Arc<Mutex<Option<u32>>>,
}

#[derive(Clone)]
enum Source {
    Memory(Arc<[Bytes]>),
    File(Arc<File>),
}

/// A buffer whose bytes go back to its pool when the last request is done with them.
struct Pooled(Buffer);

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// The bytes of a buffer, which goes back to its pool when the last of them is done with.
#[must_use]
pub fn share(buffer: Buffer) -> Bytes {
    Bytes::from_owner(Pooled(buffer))
}

impl Payload {
    /// Some bytes.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let crc64 = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes);
        Self::new(bytes.len() as u64, crc64, Source::Memory(Arc::new([bytes])))
    }

    /// Blocks of bytes, one after the other.
    #[must_use]
    pub fn from_blocks(blocks: Vec<Bytes>) -> Self {
        let mut crc = crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme);
        blocks.iter().for_each(|block| crc.update(block));
        let len = blocks.iter().map(|block| block.len() as u64).sum();
        Self::new(len, crc.finalize(), Source::Memory(blocks.into()))
    }

    /// Buffers, one after the other, and the CRC-64/NVME of all.
    pub(crate) fn from_buffers(buffers: Vec<Buffer>, crc64: u64) -> Self {
        let len = buffers.iter().map(|buffer| buffer.bytes().len() as u64).sum();
        let blocks: Vec<Bytes> = buffers.into_iter().map(share).collect();
        Self::new(len, crc64, Source::Memory(blocks.into()))
    }

    /// The first `len` bytes of a file, and their CRC-64/NVME.
    #[must_use]
    pub fn from_file(file: File, len: u64, crc64: u64) -> Self {
        Self::new(len, crc64, Source::File(Arc::new(file)))
    }

    fn new(len: u64, crc64: u64, source: Source) -> Self {
        Self { source, len, crc64, md5: Arc::default(), crc32c: Arc::default() }
    }

    /// Its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Its CRC-64/NVME.
    #[must_use]
    pub fn crc64(&self) -> u64 {
        self.crc64
    }

    /// Its MD5, taken when it is first asked for.
    ///
    /// # Errors
    /// If the file cannot be read.
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

    /// Its CRC-32C, taken when it is first asked for.
    ///
    /// # Errors
    /// If the file cannot be read.
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

    /// The next bytes from position `at`, which is moved on; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn chunk(&self, at: &mut u64) -> io::Result<Option<Bytes>> {
        match &self.source {
            Source::Memory(blocks) => {
                let mut start = 0;
                for block in blocks.iter() {
                    let end = start + block.len() as u64;
                    if *at < end {
                        let from = (*at - start) as usize;
                        let to = block.len().min(from + CHUNK);
                        *at = start + to as u64;
                        return Ok(Some(block.slice(from..to)));
                    }
                    start = end;
                }
                Ok(None)
            }
            Source::File(file) => {
                let len = (self.len - *at).min(CHUNK as u64) as usize;
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

/// A checksum as HTTP headers carry it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The CRC-64 in a header.
pub(crate) fn crc64_of(text: &str) -> Option<u64> {
    Some(u64::from_be_bytes(STANDARD.decode(text).ok()?.try_into().ok()?))
}

/// The CRC-64 in a header of Azure's: its lowest byte first.
pub(crate) fn crc64_le_of(text: &str) -> Option<u64> {
    crc64_of(text).map(u64::swap_bytes)
}

/// The CRC-32C in a header, its highest byte first.
pub(crate) fn crc32c_of(text: &str) -> Option<u32> {
    Some(u32::from_be_bytes(STANDARD.decode(text).ok()?.try_into().ok()?))
}

/// The MD5 in a header.
pub(crate) fn md5_in(text: &str) -> Option<[u8; 16]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::digest::hex;
    use std::io::Write;

    #[test]
    fn memory_and_file_give_the_same() {
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
        // The check value of CRC-64/NVME, from the catalogue of parametrised CRC algorithms.
        assert_eq!(Payload::from_bytes(&b"123456789"[..]).crc64(), 0xae8b_1486_0a79_9888);
        assert_eq!(Payload::from_bytes(&b"123456789"[..]).crc32c().unwrap(), 0xe306_9283);
        assert_eq!(crc64_of(&base64(&7_u64.to_be_bytes())), Some(7));
        assert_eq!(hex(&Payload::from_bytes(&b""[..]).md5().unwrap()), "d41d8cd98f00b204e9800998ecf8427e");
    }
}

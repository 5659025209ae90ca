//! Cuts a stream into parts and hashes it once.

use haul_core::sync::{Condvar, Mutex};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, checksum_combine};
use haul_core::{BufferPool, Digest, Error, ErrorKind, Result, Side};

use super::encode::EncodedInput;
use super::plan::PartPlan;
use crate::sidecar::Proof;
use haul_object::Payload;

/// The most parts on disk at a time: those that are larger than memory.
const ON_DISK: usize = 3;

/// A part of a stream.
pub(super) struct StreamPart {
    /// From 1.
    pub(super) number: u32,
    /// Its content.
    pub(super) payload: Payload,
    /// Its slot on disk, if it is there.
    _slot: Option<SpoolSlot>,
}

impl StreamPart {
    /// The part of an empty stream.
    pub(super) fn empty() -> Self {
        Self { number: 1, payload: Payload::from_bytes(Vec::new()), _slot: None }
    }
}

/// Cuts a stream.
pub(super) struct Cutter<'a> {
    feed: EncodedInput<'a>,
    pool: BufferPool,
    plan: PartPlan,
    /// Parts of up to so many bytes are held in memory.
    in_memory: u64,
    slots: Arc<SpoolSlots>,
    /// Whether the stream is hashed here. The slices of a file are hashed by the threads that write them.
    hashes: bool,
    hasher: blake3::Hasher,
    crc64: u64,
    len: u64,
    next: u32,
    ended: bool,
}

#[derive(Default)]
struct SpoolSlots {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// One of the slots on disk.
struct SpoolSlot(Arc<SpoolSlots>);

impl Drop for SpoolSlot {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
        self.0.freed.notify_one();
    }
}

impl<'a> Cutter<'a> {
    /// Cuts as planned, with `memory` bytes for content.
    pub(super) fn new(feed: EncodedInput<'a>, plan: PartPlan, memory: u64) -> Self {
        let pool = BufferPool::new(memory);
        Self {
            feed,
            // Two parts are sent while most of the next one is filled: 32 MiB of the default 88 MiB.
            in_memory: pool.count() as u64 * haul_core::SLICE_LEN * 3 / 8,
            pool,
            hashes: !plan.is_of_slices(),
            plan,
            slots: Arc::default(),
            hasher: blake3::Hasher::new(),
            crc64: 0,
            len: 0,
            next: 1,
            ended: false,
        }
    }

    /// The next part; `None` at the end of the stream. An empty stream has no part.
    ///
    /// # Errors
    /// `Unsupported` if the stream is too long for the store, else the error of reading it or of writing a part to
    /// disk.
    pub(super) fn next(&mut self) -> Result<Option<StreamPart>> {
        if self.ended {
            return Ok(None);
        }
        let Some(size) = self.plan.size(self.next) else {
            // The stream may end exactly here.
            if self.feed.read(&mut [0])? == 0 {
                self.ended = true;
                return Ok(None);
            }
            let cause = format!("the stream is longer than {} parts hold", self.next - 1);
            let error = Error::new(ErrorKind::Unsupported, Side::Destination, "write", cause);
            return Err(error.with_hint("--max-parts says how many parts the store takes"));
        };
        let part = if size <= self.in_memory { self.gather(size)? } else { self.spool(size)? };
        if part.is_some() {
            self.next += 1;
        }
        Ok(part)
    }

    /// The length and digest so far; no digest of a stream that is cut into slices.
    pub(super) fn proof(&self) -> Proof {
        Proof { len: self.len, digest: Digest(*self.hasher.finalize().as_bytes()) }
    }

    /// Bytes read so far, in whole parts.
    pub(super) fn proof_len(&self) -> u64 {
        self.len
    }

    /// The CRC-64/NVME of the bytes read so far.
    pub(super) fn crc64(&self) -> u64 {
        self.crc64
    }

    /// Whether the end of the stream was reached.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// The input of the cutter.
    pub(super) fn feed(&mut self) -> &mut EncodedInput<'a> {
        &mut self.feed
    }

    /// Collects a part in memory.
    fn gather(&mut self, size: u64) -> Result<Option<StreamPart>> {
        let (mut buffers, mut len, mut crc) = (Vec::new(), 0, crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme));
        while len < size && !self.ended {
            let mut buffer = self.pool.take();
            let room = buffer.room().min((size - len) as usize);
            let filled = self.fill(&mut buffer, room)?;
            if self.hashes {
                crc.update(buffer.bytes());
            }
            len += filled;
            if filled > 0 {
                buffers.push(buffer);
            }
        }
        let crc64 = crc.finalize();
        Ok(self.count(len, crc64).then(|| StreamPart {
            number: self.next,
            payload: Payload::from_buffers(buffers, crc64),
            _slot: None,
        }))
    }

    /// Writes a part to an unlinked file.
    fn spool(&mut self, size: u64) -> Result<Option<StreamPart>> {
        let slot = self.slot();
        let failed = |error: &std::io::Error| {
            let error = Error::io(Side::Local, "keep a part that is larger than memory in a file", error);
            error
                .on(std::env::temp_dir().to_string_lossy().as_bytes())
                .with_hint("set TMPDIR to a disk with room for three parts, or allow more with --max-memory")
        };
        let mut file: File = tempfile::tempfile().map_err(|error| failed(&error))?;
        let mut buffer = self.pool.take();
        let (mut len, mut crc) = (0, crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme));
        while len < size && !self.ended {
            buffer.truncate(0);
            let room = buffer.room().min(usize::try_from(size - len).unwrap_or(usize::MAX));
            len += self.fill(&mut buffer, room)?;
            crc.update(buffer.bytes());
            file.write_all(buffer.bytes()).map_err(|error| failed(&error))?;
        }
        let crc64 = crc.finalize();
        Ok(self.count(len, crc64).then(|| StreamPart {
            number: self.next,
            payload: Payload::from_file(file, len, crc64),
            _slot: Some(slot),
        }))
    }

    /// Waits for a slot on disk.
    fn slot(&self) -> SpoolSlot {
        let mut taken = self.slots.taken.lock();
        while *taken >= ON_DISK {
            taken = self.slots.freed.wait(taken);
        }
        *taken += 1;
        SpoolSlot(Arc::clone(&self.slots))
    }

    /// Reads up to `room` bytes into a buffer, fewer only at the end.
    fn fill(&mut self, buffer: &mut haul_core::Buffer, room: usize) -> Result<u64> {
        let mut filled = 0;
        if let Some(space) = buffer.grow(room) {
            while filled < room {
                let read = self.feed.read(&mut space[filled..])?;
                if read == 0 {
                    self.ended = true;
                    break;
                }
                if self.hashes {
                    self.hasher.update(&space[filled..filled + read]);
                }
                filled += read;
            }
        }
        buffer.truncate(filled);
        Ok(filled as u64)
    }

    /// Counts a part; `false` if it is empty.
    fn count(&mut self, len: u64, crc64: u64) -> bool {
        self.crc64 = checksum_combine(CrcAlgorithm::Crc64Nvme, self.crc64, crc64, len);
        self.len += len;
        len > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put::encode::Encode;
    use crate::put::input::Input;
    use std::io::Seek;
    use std::os::fd::OwnedFd;

    fn feed(input: &mut Input) -> EncodedInput<'_> {
        EncodedInput::new(input, Encode::default(), 0).unwrap().0
    }

    fn cut(len: usize, memory: u64, max_parts: u32) -> (Vec<u64>, Proof, u64) {
        let bytes: Vec<u8> = (0..len).map(|n| (n % 253) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let mut input = Input::open(OwnedFd::from(file), Arc::default());
        let mut cutter = Cutter::new(feed(&mut input), PartPlan::new(max_parts), memory);
        let mut sizes = Vec::new();
        while let Some(part) = cutter.next().unwrap() {
            assert_eq!(part.number as usize, sizes.len() + 1);
            sizes.push(part.payload.len());
        }
        assert_eq!(cutter.proof(), Proof { len: len as u64, digest: Digest::of(&bytes) });
        assert_eq!(cutter.crc64(), crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes));
        (sizes, cutter.proof(), cutter.crc64())
    }

    #[test]
    fn every_byte_is_in_one_part_in_memory_or_on_disk() {
        assert_eq!(cut(0, 64 << 20, 10_000).0, Vec::<u64>::new());
        assert_eq!(cut(8 << 20, 64 << 20, 10_000).0, [8 << 20]);
        assert_eq!(cut((20 << 20) + 1, 64 << 20, 10_000).0, [8 << 20, 8 << 20, (4 << 20) + 1]);
        // Parts of 16 MiB do not fit three times into 24 MiB.
        assert_eq!(cut(30 << 20, 24 << 20, 10).0, [8 << 20, 16 << 20, 6 << 20]);
    }

    #[test]
    fn a_stream_that_is_too_long_fails_and_one_that_just_fits_does_not() {
        assert_eq!(cut(24 << 20, 64 << 20, 2).0.len(), 2);
        let file = File::open("/dev/zero").unwrap();
        let mut input = Input::open(OwnedFd::from(file), Arc::default());
        let mut cutter = Cutter::new(feed(&mut input), PartPlan::new(2), 64 << 20);
        assert!(cutter.next().unwrap().is_some() && cutter.next().unwrap().is_some());
        assert!(cutter.next().is_err());
    }
}

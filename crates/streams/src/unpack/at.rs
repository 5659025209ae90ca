//! Reads a stream at any place.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_core::{Error, ErrorKind, Result, SLICE_LEN, Side};
use haul_object::{Client, Object};

use super::blocks::{Blocks, TakeBlockBytes};
use crate::get::{InputFile, read_slice};
use crate::xbcloud::ChunkObjects;

/// Bytes read at once from a file of this machine.
const PIECE: u64 = 256 << 10;

/// A stream of known length.
pub(super) trait StreamAt: Send + Sync {
    /// The name, for messages.
    fn name(&self) -> String;

    /// The length in bytes.
    fn len(&self) -> u64;

    /// Hands over the bytes of a range.
    ///
    /// # Errors
    /// The error of the request, or of decoding.
    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()>;

    /// Whether it keeps blocks in memory for other readers.
    fn keeps_blocks(&self) -> bool {
        true
    }

    /// How many connections it is read over; 0 on this machine.
    fn streams(&self) -> u32;

    /// Bytes that came over connections so far.
    fn came(&self) -> u64;
}

/// Reads a range into memory.
pub(super) fn load(stream: &dyn StreamAt, range: Range<u64>) -> Result<Vec<u8>> {
    // Ranges are short: a few blocks of a stream.
    let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
    let wanted = bytes.capacity();
    stream.read(range, &mut |piece| match piece {
        None => bytes.clear(),
        Some(piece) => bytes.extend_from_slice(piece),
    })?;
    if bytes.len() >= wanted {
        return Ok(bytes);
    }
    let cause = "it ends too early: the stored stream was cut off";
    Err(Error::new(ErrorKind::Corrupt, Side::Source, "read", cause).on(stream.name()))
}

/// An object.
pub(super) struct ObjectAt {
    pub(super) client: Arc<Client>,
    pub(super) object: Object,
    came: AtomicU64,
}

impl ObjectAt {
    pub(super) fn new(client: Arc<Client>, object: Object) -> Self {
        Self { client, object, came: AtomicU64::new(0) }
    }
}

impl StreamAt for ObjectAt {
    fn name(&self) -> String {
        self.client.name(&self.object.key)
    }

    fn len(&self) -> u64 {
        self.object.len
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        let came = &self.came;
        self.client.read(&self.object, range, &AtomicBool::new(false), &mut |bytes| {
            came.fetch_add(bytes.map_or(0, |bytes| bytes.len() as u64), Ordering::Relaxed);
            take(bytes);
        })
    }

    fn keeps_blocks(&self) -> bool {
        false
    }

    fn streams(&self) -> u32 {
        self.client.readers()
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

/// A stream that xbcloud stored.
pub(super) struct ChunksAt {
    stream: Arc<ChunkObjects>,
    came: AtomicU64,
}

impl ChunksAt {
    pub(super) fn new(stream: Arc<ChunkObjects>) -> Self {
        Self { stream, came: AtomicU64::new(0) }
    }
}

impl StreamAt for ChunksAt {
    fn name(&self) -> String {
        self.stream.name()
    }

    fn len(&self) -> u64 {
        self.stream.len()
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        self.stream.read(range, &AtomicBool::new(false), &mut |bytes| {
            self.came.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            take(Some(bytes));
        })
    }

    fn keeps_blocks(&self) -> bool {
        false
    }

    fn streams(&self) -> u32 {
        self.stream.client().readers()
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

/// A file, here or on a host.
pub(super) struct FileAt {
    file: InputFile,
    /// The file itself, if it is here.
    here: Option<File>,
    /// Slices of it, if it is not.
    slices: Blocks,
    cancel: Arc<AtomicBool>,
}

impl FileAt {
    /// With `memory` bytes for slices.
    ///
    /// # Errors
    /// The error of opening it.
    pub(super) fn new(file: InputFile, memory: u64, cancel: Arc<AtomicBool>) -> Result<Self> {
        let is_here = file.source.caps().local_files && file.source.streams() == 0;
        let here = if is_here { file.source.local_file(&file.entry).transpose()? } else { None };
        Ok(Self { file, here, slices: Blocks::new(memory / SLICE_LEN), cancel })
    }
}

impl StreamAt for FileAt {
    fn name(&self) -> String {
        self.file.name.clone()
    }

    fn len(&self) -> u64 {
        self.file.entry.len
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        let Some(here) = &self.here else {
            return self.slices.read(range, SLICE_LEN, take, |index| {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                Ok(read_slice(&self.file, index, &self.cancel)?.bytes().to_vec())
            });
        };
        let mut at = range.start;
        let mut piece = vec![0; PIECE.min(range.end - range.start) as usize];
        while at < range.end {
            let len = PIECE.min(range.end - at) as usize;
            self.file.limit.iter().for_each(|limit| limit.pass(len, &|| false));
            let read = here.read_exact_at(&mut piece[..len], at);
            read.map_err(|error| Error::io(Side::Source, "read", &error).on(&self.file.name))?;
            take(Some(&piece[..len]));
            at += len as u64;
        }
        Ok(())
    }

    fn streams(&self) -> u32 {
        self.file.source.streams()
    }

    fn came(&self) -> u64 {
        self.file.source.traffic().wire_bytes
    }
}

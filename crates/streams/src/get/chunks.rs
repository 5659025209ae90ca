//! Moves a stream that xbcloud stored to its output.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use haul_core::{BufferPool, Result, SLICE_LEN};
use haul_threads::ScopedThreads;

use super::check::Check;
use super::output::ContentOutput;
use super::pieces::deliver;
use super::settings::{GetSettings, GetStatus, Got};
use super::stored::StoredBytes;
use super::window::{Fetched, Ranges, Window};
use crate::encoding::Encoding;
use crate::xbcloud::ChunkObjects;

/// Fetches ranges over the objects that they are in.
struct ChunkRanges<'a> {
    stream: &'a ChunkObjects,
    pool: BufferPool,
}

impl Ranges for ChunkRanges<'_> {
    fn len(&self) -> u64 {
        self.stream.len()
    }

    fn name(&self) -> String {
        self.stream.name()
    }

    fn at_once(&self) -> usize {
        self.stream.client().at_once()
    }

    fn fetch(&self, range: Range<u64>, unwanted: &AtomicBool) -> Result<Fetched> {
        let mut content = self.pool.take();
        self.stream.read(range, unwanted, &mut |bytes| {
            if let Some(space) = content.grow(bytes.len()) {
                space.copy_from_slice(bytes);
            }
        })?;
        Ok(Fetched { content, value: None })
    }
}

/// Moves a stream to `output`.
///
/// # Errors
/// `Corrupt` if a chunk has another CRC-32 or a file has no end, else the error of reading or writing. The last bytes
/// were not written then.
pub fn get_chunks(
    stream: &ChunkObjects,
    mut output: ContentOutput,
    settings: &GetSettings,
    status: &GetStatus,
) -> Result<Got> {
    output.align(SLICE_LEN)?;
    let ranges = ChunkRanges { stream, pool: BufferPool::new(settings.memory) };
    let window = Window::new(&ranges, output.there(), ranges.pool.count(), &status.pace);
    let (name, checked) = (window.name(), Cell::new(None));
    let got = thread::scope(|scope| {
        let fetchers = ScopedThreads::new(scope, "range", |_| window.fetch());
        let delivered = fetchers.grow(window.threads()).and_then(|()| {
            let mut check = Check::chunks();
            output.reread(&mut |bytes| check.update(bytes))?;
            status.resumed.store(output.there(), Ordering::Relaxed);
            deliver(&mut StoredBytes::new(&window, check, &name, status, &checked), &mut output)
        });
        window.end();
        delivered
    });
    let (asked_again, len) = (window.asked_again(), stream.len());
    let encoding = Encoding::default();
    output.end(got.map(|checked| Got { checked, asked_again, encoding, len, digest: None, sha256: None }))
}

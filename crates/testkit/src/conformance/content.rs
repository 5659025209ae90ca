//! Names, content and slices that the cases use, and short ways to call an end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::sync::Mutex;
use haul_core::{
    Batch, BatchData, BufferPool, Entry, Error, Extent, Outcome, RelPath, Result, SLICE_LEN, ScanBatch,
    ScanOptions, Sink, Slice, SliceData, Source,
};

use crate::content;

/// The extended attribute that cases set.
pub(super) const XATTR: &str = "user.haul-test";
/// The longest time that a case waits for an end.
pub(super) const TIME: Duration = Duration::from_secs(30);

pub(super) fn path(name: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(name.as_ref()).unwrap()
}

/// The content of the file `name`.
pub(super) fn bytes(name: impl AsRef<[u8]>, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    content::fill(content::key(1, name.as_ref()), 0, &mut bytes);
    bytes
}

/// The part of a file's content that a slice covers.
pub(super) fn part<'a>(entry: &Entry, slice: Slice, content: &'a [u8]) -> &'a [u8] {
    let start = slice.start() as usize;
    &content[start..start + slice.len_in(entry.len) as usize]
}

/// The proof of bytes as a slice of `entry`.
pub(super) fn prove(entry: &Entry, slice: Slice, bytes: &[u8]) -> SliceData {
    let mut hasher = SliceHasher::new(entry.len, slice.start());
    hasher.update(bytes);
    let extents = if bytes.is_empty() { Vec::new() } else { vec![Extent::data(0, bytes.len() as u32)] };
    SliceData { extents, value: hasher.finish() }
}

/// A batch of one slice of a file, as it comes from a connection.
pub(super) fn slice_of(pool: &BufferPool, entry: &Arc<Entry>, index: u32, content: &[u8]) -> BatchData {
    let slice = Slice::whole(0, index);
    let bytes = part(entry, slice, content);
    let mut buffer = pool.take();
    buffer.grow(bytes.len()).unwrap().copy_from_slice(bytes);
    let batch = Batch { entries: vec![Arc::clone(entry)], slices: vec![slice], again: false };
    BatchData {
        batch: Arc::new(batch),
        slices: vec![Ok(prove(entry, slice, bytes))],
        content: buffer,
        at_hand: false,
    }
}

/// All slices of a file, each in a batch of its own.
pub(super) fn slices<'a>(
    pool: &'a BufferPool,
    entry: &'a Arc<Entry>,
    content: &'a [u8],
) -> impl Iterator<Item = BatchData> + 'a {
    (0..slice_count(entry.len)).map(move |index| slice_of(pool, entry, index, content))
}

/// Several whole small files in one batch.
pub(super) fn files_of(pool: &BufferPool, files: &[(Arc<Entry>, Vec<u8>)]) -> BatchData {
    let mut buffer = pool.take();
    let mut read = Vec::new();
    for (entry, content) in files {
        buffer.grow(content.len()).unwrap().copy_from_slice(content);
        read.push(Ok(prove(entry, Slice::whole(0, 0), content)));
    }
    let batch = Batch {
        entries: files.iter().map(|(entry, _)| Arc::clone(entry)).collect(),
        slices: (0..files.len() as u32).map(|entry| Slice::whole(entry, 0)).collect(),
        again: false,
    };
    BatchData { batch: Arc::new(batch), slices: read, content: buffer, at_hand: false }
}

/// Writes a batch and waits until it is durable.
pub(super) fn write(sink: &dyn Sink, data: BatchData) -> Vec<Result<Outcome>> {
    let (sender, receiver) = channel();
    sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
    sink.flush();
    receiver.recv_timeout(TIME).expect("the write is answered")
}

/// Writes a batch of one slice; its outcome.
pub(super) fn write_one(sink: &dyn Sink, data: BatchData) -> Result<Outcome> {
    let mut outcomes = write(sink, data);
    assert_eq!(outcomes.len(), 1, "one outcome for each slice");
    outcomes.remove(0)
}

/// Writes a whole file; the last outcome.
pub(super) fn write_file(sink: &dyn Sink, pool: &BufferPool, entry: &Arc<Entry>, content: &[u8]) -> Outcome {
    let mut last = None;
    for data in slices(pool, entry, content) {
        last = Some(write_one(sink, data).unwrap_or_else(|error| panic!("{}: {error}", entry.path)));
    }
    last.expect("a file has a slice")
}

/// A batch of these slices of one file.
pub(super) fn batch_of(entry: &Arc<Entry>, slices: impl IntoIterator<Item = Slice>) -> Arc<Batch> {
    let slices = slices.into_iter().collect();
    Arc::new(Batch { entries: vec![Arc::clone(entry)], slices, again: false })
}

/// Reads one slice: its description and its bytes, holes filled with zeros.
pub(super) fn read_slice(
    source: &dyn Source,
    entry: &Arc<Entry>,
    slice: Slice,
) -> Result<(SliceData, Vec<u8>)> {
    let mut data = source.read(&batch_of(entry, [slice]))?;
    assert_eq!(data.slices.len(), 1, "one result for each slice");
    let read = data.slices.remove(0)?;
    let mut bytes = vec![0; slice.len_in(entry.len) as usize];
    let (mut used, content) = (0, data.content.bytes());
    for extent in &read.extents {
        let (at, len) = (extent.start as usize, extent.len as usize);
        bytes[at..at + len].copy_from_slice(&content[used..used + len]);
        used += len;
    }
    assert_eq!(used, content.len(), "no more content than the extents say");
    Ok((read, bytes))
}

/// The whole content of a file.
pub(super) fn read_all(source: &dyn Source, entry: &Entry) -> Vec<u8> {
    let entry = Arc::new(entry.clone());
    let mut all = Vec::new();
    for index in 0..slice_count(entry.len) {
        all.extend(read_slice(source, &entry, Slice::whole(0, index)).unwrap().1);
    }
    assert!(all.len() as u64 <= entry.len.max(SLICE_LEN));
    all
}

/// Everything that a scan reported.
pub(super) struct ScanReport {
    pub(super) all: ScanBatch,
    pub(super) result: Result<()>,
}

impl ScanReport {
    pub(super) fn paths(&self) -> Vec<RelPath> {
        self.all.entries.iter().map(|entry| entry.path.clone()).collect()
    }

    /// The paths below the root, sorted.
    pub(super) fn below(&self) -> Vec<RelPath> {
        let mut paths = self.paths();
        paths.retain(|path| !path.is_root());
        paths.sort();
        paths
    }

    pub(super) fn entry(&self, name: &str) -> &Entry {
        let wanted = path(name);
        let found = self.all.entries.iter().find(|entry| entry.path == wanted);
        found.unwrap_or_else(|| panic!("{name} is not in the scan: {:?}", self.paths()))
    }

    /// Fails if the scan had errors.
    pub(super) fn whole(self) -> Self {
        let errors: Vec<Error> = self.all.errors.iter().map(|failure| failure.error.clone()).collect();
        assert!(self.result.is_ok() && errors.is_empty(), "{:?} {errors:?}", self.result);
        self
    }
}

pub(super) fn scan(source: &dyn Source, options: &ScanOptions) -> ScanReport {
    let all = Mutex::new(ScanBatch::default());
    let result = source.scan(options, &|batch| {
        let mut all = all.lock();
        all.entries.extend(batch.entries);
        all.errors.extend(batch.errors);
        all.left_out.extend(batch.left_out);
        all.excluded += batch.excluded;
        ControlFlow::Continue(())
    });
    ScanReport { all: all.into_inner(), result }
}

//! A sink on files in memory, whose disk is a stand-in.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use haul_core::digest::SliceHasher;
use haul_core::sync::Mutex;
use haul_core::{
    Batch, BatchData, BufferPool, ChainingValue, Entry, Outcome, Result, SLICE_LEN, Sink, SinkOptions, Slice,
    SliceData,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};
use tempfile::TempDir;

use crate::commit::sync::Disk;
use crate::commit::unsynced::Unsynced;
use crate::path::stat::Device;
use crate::scene::tree;
use crate::sink::state::LocalSink;

/// The number of schedules of each kind in each test.
const SCHEDULES: usize = 2000;
/// The most changes of priorities in a schedule that is not random.
const CHANGES: usize = 3;
/// The disk loses files of this length.
pub(super) const LOST: u64 = 3;

/// Runs a model in many orders of its threads.
pub(crate) fn in_many_orders(model: fn()) {
    let mut config = Config::new();
    // Operations on files take more than the default.
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(model);
    Runner::new(PctScheduler::new(CHANGES, SCHEDULES), config).run(model);
}

/// A scratch directory, in memory where there is a file system for that.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// A disk that loses files of the length [`LOST`]. While it syncs, other threads run.
struct StandIn;

impl StandIn {
    fn answer(file: &File) -> io::Result<()> {
        thread::yield_now();
        if file.metadata()?.len() == LOST { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Disk for StandIn {
    fn sync_file_system(&self, _: &File) -> io::Result<()> {
        thread::yield_now();
        Ok(())
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        Self::answer(file)
    }

    fn was_written(&self, file: &File, _: Device) -> Option<io::Result<()>> {
        Some(Self::answer(file))
    }
}

/// All answers to one write.
type WriteAnswers = Vec<Vec<Result<Outcome>>>;

/// A sink, and the answers to its writes.
pub(super) struct SinkModel {
    sink: Arc<LocalSink>,
    pool: BufferPool,
    answers: Arc<Mutex<Vec<WriteAnswers>>>,
}

impl SinkModel {
    pub(super) fn new(dir: &Path, is_network_fs: bool) -> Self {
        let pool = BufferPool::new(1 << 26);
        let (disk, tree) = (Box::new(StandIn), tree(dir, is_network_fs));
        let options = SinkOptions { recheck: true, ..SinkOptions::default() };
        let sink = LocalSink::on(disk, Unsynced::nowhere(), tree, options, pool.clone()).unwrap();
        Self { sink: Arc::new(sink), pool, answers: Arc::default() }
    }

    /// Writes a slice of each entry in a thread of its own, as one batch.
    pub(super) fn write(&self, entries: &[Arc<Entry>], index: u32) -> JoinHandle<()> {
        let at = {
            let mut answers = self.answers.lock();
            answers.push(Vec::new());
            answers.len() - 1
        };
        let (sink, answers) = (self.sink.clone(), self.answers.clone());
        let batch = Batch {
            entries: entries.to_vec(),
            slices: (0..entries.len()).map(|at| Slice::whole(at as u32, index)).collect(),
            again: false,
        };
        let slices = entries.iter().map(|entry| Ok(hole(entry.len, index))).collect();
        let (batch, content) = (Arc::new(batch), self.pool.take());
        let data = BatchData { batch, slices, content, at_hand: true };
        thread::spawn(move || {
            sink.write(data, Box::new(move |outcomes| answers.lock()[at].push(outcomes)));
        })
    }

    /// Does something with the sink in a thread of its own.
    pub(super) fn start(&self, work: fn(&LocalSink)) -> JoinHandle<()> {
        let sink = self.sink.clone();
        thread::spawn(move || work(&sink))
    }

    /// Finishes the run. The outcomes of all writes.
    pub(super) fn finish(&self) -> Vec<Result<Outcome>> {
        self.sink.finish().unwrap();
        outcomes(&self.answers.lock())
    }

    /// Ends the sink without finishing its run. The outcomes of all writes.
    pub(super) fn end(self) -> Vec<Result<Outcome>> {
        let Self { sink, answers, .. } = self;
        assert!(Arc::into_inner(sink).is_some(), "no thread has it");
        outcomes(&answers.lock())
    }
}

/// The outcomes of writes that were answered once each.
fn outcomes(answers: &[WriteAnswers]) -> Vec<Result<Outcome>> {
    assert!(answers.iter().all(|answers| answers.len() == 1), "{answers:?}");
    answers.iter().flatten().flatten().cloned().collect()
}

/// A slice without data. Hashing a whole one takes time, so the first slice of a large file is hashed once.
fn hole(len: u64, index: u32) -> SliceData {
    static FIRST: OnceLock<ChainingValue> = OnceLock::new();
    let hash = || {
        let slice = Slice::whole(0, index);
        let mut hasher = SliceHasher::new(len, slice.start());
        hasher.update_zeros(slice.len_in(len));
        hasher.finish()
    };
    let value = if len > SLICE_LEN && index == 0 { *FIRST.get_or_init(hash) } else { hash() };
    SliceData { extents: Vec::new(), value }
}

pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

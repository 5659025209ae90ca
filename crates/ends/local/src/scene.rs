//! A source and a sink in scratch directories, for tests.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::{
    Answer, Batch, BatchData, BufferPool, Digest, Entry, EntryKind, Offer, Outcome, RelPath, Result,
    SLICE_LEN, Side, Sink, SinkOptions, Slice, Source, Timestamp,
};

use crate::commit::sync::Kernel;
use crate::commit::unsynced::Unsynced;
use crate::path::place::RootEntry;
use crate::path::root::Root;
use crate::sink::state::LocalSink;
use crate::source::LocalSource;
use crate::tree::local_tree::LocalTree;

/// A scratch directory on the disk of the build, which has attributes, with the trees `from` and `to`.
pub(crate) struct LocalScene {
    _scratch: tempfile::TempDir,
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) source: LocalSource,
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(crate) fn pool() -> BufferPool {
    BufferPool::new(1 << 26)
}

/// The entry of a file of this user.
pub(crate) fn own_file(name: &str, len: u64) -> Arc<Entry> {
    Arc::new(Entry {
        mtime: Timestamp { sec: 1_000_000_000, nsec: 1 },
        mode: 0o640,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..Entry::new(path(name), EntryKind::File, len)
    })
}

/// A tree that is written to, whose file system counts as a network file system, or as a local one.
pub(crate) fn tree(dir: &Path, is_network_fs: bool) -> LocalTree {
    LocalTree::on(Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default()), is_network_fs)
}

impl LocalScene {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        let root = Root::new(RootEntry::new(&from, b"."), Side::Source, Arc::default());
        let source = LocalSource::new(root, pool(), None);
        Self { _scratch: scratch, from, to, source }
    }

    pub(crate) fn sink(&self, options: SinkOptions) -> LocalSink {
        self.sink_on(options, false)
    }

    /// A sink whose file system counts as a network file system, or as a local one.
    pub(crate) fn sink_on(&self, options: SinkOptions, is_network_fs: bool) -> LocalSink {
        let tree = tree(&self.to, is_network_fs);
        LocalSink::on(Box::new(Kernel::default()), Unsynced::nowhere(), tree, options, pool()).unwrap()
    }

    /// The entry of the source at a path.
    pub(crate) fn entry(&self, name: &str) -> Arc<Entry> {
        let found = self.source.lookup(&[path(name)]).unwrap().remove(0).unwrap();
        Arc::new(found.unwrap())
    }

    /// Offers an entry of the source.
    pub(crate) fn offer(&self, sink: &LocalSink, name: &str) -> Result<Answer> {
        offer(sink, self.entry(name))
    }

    /// Reads and writes slices of an entry of the source; the outcome of the last one.
    pub(crate) fn send(&self, sink: &LocalSink, name: &str, slices: &[u32]) -> Result<Outcome> {
        let entry = self.entry(name);
        let send = |index: &u32| {
            let data = self.source.read(&batch(&entry, *index)).unwrap();
            write(sink, BatchData { at_hand: false, ..data })
        };
        slices.iter().map(send).last().unwrap()
    }
}

pub(crate) fn batch(entry: &Arc<Entry>, index: u32) -> Arc<Batch> {
    Arc::new(Batch { entries: vec![entry.clone()], slices: vec![Slice::whole(0, index)], again: false })
}

pub(crate) fn offer(sink: &LocalSink, entry: Arc<Entry>) -> Result<Answer> {
    sink.offer(&[Offer { entry, digest: None }]).unwrap().remove(0)
}

/// Writes a batch of one slice, and waits for its outcome.
pub(crate) fn write(sink: &LocalSink, data: BatchData) -> Result<Outcome> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    sink.write(data, Box::new(move |outcomes| sender.send(outcomes).unwrap()));
    sink.flush();
    receiver.recv().unwrap().remove(0)
}

/// The names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

impl LocalScene {
    /// Reads the only slice of an entry of the source.
    pub(crate) fn source_read(&self, name: &str) -> BatchData {
        self.source.read(&batch(&self.entry(name), 0)).unwrap()
    }

    /// Reads the pages of a slice that differ from `pages`.
    pub(crate) fn source_read_changed(&self, batch: &Arc<Batch>, pages: &haul_core::PageHashes) -> BatchData {
        self.source.read_changed(batch, pages).unwrap()
    }
}

/// The length of the large file `f` of [`large_scene`]: three slices.
pub(crate) const LEN: usize = 2 * SLICE_LEN as usize + 70_000;

/// Its content.
pub(crate) fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at / 4099 % 251) as u8 + 1).collect()
}

/// A scene with a large file.
pub(crate) fn large_scene() -> LocalScene {
    let scene = LocalScene::new();
    fs::write(scene.from.join("f"), content()).unwrap();
    scene
}

/// The outcome of its last slice.
pub(crate) fn committed() -> Result<Outcome> {
    Ok(Outcome::Committed(Some(Digest::of(&content()))))
}

/// The slices of it that the sink has from an interrupted run.
pub(crate) fn have(sink: &LocalSink, scene: &LocalScene) -> Vec<Range<u32>> {
    match scene.offer(sink, "f").unwrap() {
        Answer::Need { have, .. } => have,
        other => panic!("{other:?}"),
    }
}

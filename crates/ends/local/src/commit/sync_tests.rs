//! Tests of files whose write-back fails.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::{
    Batch, BatchData, BufferPool, Digest, Entry, ErrorKind, Extent, Outcome, Result, Retry, SLICE_LEN, Side,
    Sink, SinkOptions, Slice, SliceData,
};

use super::super::unsynced::Unsynced;
use super::*;
use crate::path::place::RootEntry;
use crate::path::root::Root;
use crate::scene::own_file;
use crate::sink::state::LocalSink;
use crate::tree::local_tree::LocalTree;

/// A disk that loses the content of files of some length.
#[derive(Default)]
struct Losing {
    /// The length of the files that are lost, and how often.
    lost: Mutex<(u64, u32)>,
    /// How often `syncfs` reports an error.
    reported: Mutex<u32>,
    /// The next `syncfs`, or the next look at a file, panics.
    panics: Mutex<Option<DiskCall>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskCall {
    /// In the committing thread.
    SyncFileSystem,
    /// In the thread that renames the files of a group.
    WasWritten,
}

impl Losing {
    fn panic_in(&self, call: DiskCall) {
        let is_due = self.panics.lock().take_if(|panics| *panics == call).is_some();
        assert!(!is_due, "as the test wants");
    }

    fn answer(&self, file: &File) -> io::Result<()> {
        let mut lost = self.lost.lock();
        if lost.1 > 0 && file.metadata()?.len() == lost.0 {
            lost.1 -= 1;
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

impl Disk for Arc<Losing> {
    fn sync_file_system(&self, _: &File) -> io::Result<()> {
        self.panic_in(DiskCall::SyncFileSystem);
        let mut reported = self.reported.lock();
        if *reported == 0 {
            return Ok(());
        }
        *reported -= 1;
        Err(io::Error::from_raw_os_error(5))
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.answer(file)
    }

    fn was_written(&self, file: &File, _: Device) -> Option<io::Result<()>> {
        self.panic_in(DiskCall::WasWritten);
        Some(self.answer(file))
    }
}

fn sink(disk: &Arc<Losing>, dir: &Path) -> LocalSink {
    sink_with(SinkOptions::default(), disk, dir)
}

fn sink_with(options: SinkOptions, disk: &Arc<Losing>, dir: &Path) -> LocalSink {
    let root = Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default());
    let tree = LocalTree::new(root);
    let pool = BufferPool::new(1 << 26);
    LocalSink::on(Box::new(Arc::clone(disk)), Unsynced::nowhere(), tree, options, pool).unwrap()
}

/// Writes one slice of each entry as one batch: zeros but for the first byte.
fn write(sink: &LocalSink, entries: &[Arc<Entry>], index: u32) -> Vec<Result<Outcome>> {
    try_write(sink, entries, index).unwrap()
}

/// The same. `None` if the sink drops the batch.
fn try_write(sink: &LocalSink, entries: &[Arc<Entry>], index: u32) -> Option<Vec<Result<Outcome>>> {
    let mut content = BufferPool::new(1 << 26).take();
    let (mut slices, mut read) = (Vec::new(), Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        let slice = Slice::whole(at as u32, index);
        let bytes = slice_bytes(entry.len, index);
        let mut hasher = SliceHasher::new(entry.len, slice.start());
        hasher.update(&bytes);
        content.grow(bytes.len()).unwrap().copy_from_slice(&bytes);
        let extents = vec![Extent::data(0, bytes.len() as u32)];
        slices.push(slice);
        read.push(Ok(SliceData { extents, value: hasher.finish() }));
    }
    let batch = Arc::new(Batch { entries: entries.to_vec(), slices, again: false });
    let data = BatchData { batch, slices: read, content, at_hand: false };
    let (sender, receiver) = crossbeam_channel::bounded(1);
    sink.write(data, Box::new(move |outcomes| sender.send(outcomes).unwrap()));
    sink.flush();
    receiver.recv().ok()
}

fn slice_bytes(len: u64, index: u32) -> Vec<u8> {
    let mut bytes = vec![0; haul_core::digest::slice_len(len, index) as usize];
    bytes[0] = index as u8 + 1;
    bytes
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_lost_file_is_found_after_a_sync_of_its_file_system_and_the_others_are_committed() {
    for reported in [0, 99] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Losing { reported: Mutex::new(reported), ..Losing::default() });
        *disk.lost.lock() = (3, 1);
        let sink = sink(&disk, dir.path());
        let entries: Vec<_> = (1..=6).map(|len| own_file(&format!("f{len}"), len)).collect();
        let mut outcomes = write(&sink, &entries, 0);
        let error = outcomes.remove(2).unwrap_err();
        assert_eq!((error.kind(), error.retry(), error.operation()), (ErrorKind::Io, Retry::Anew, "sync"));
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Committed(_)))), "{outcomes:?}");
        assert_eq!(names(dir.path()), ["f1", "f2", "f4", "f5", "f6"], "the lost file leaves nothing");
        let again = write(&sink, &entries[2..3], 0).remove(0);
        assert_eq!(again, Ok(Outcome::Committed(Some(Digest::of(&slice_bytes(3, 0))))));
        assert_eq!(sink.finish().is_ok(), reported == 0, "a lasting error is reported");
    }
}

#[test]
fn after_a_panic_nobody_waits_for_ever_and_nothing_counts_as_committed() {
    for call in [DiskCall::SyncFileSystem, DiskCall::WasWritten] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Losing::default());
        let sink = sink(&disk, dir.path());
        *disk.panics.lock() = Some(call);
        let entries: Vec<_> = (1..=6).map(|len| own_file(&format!("f{len}"), len)).collect();
        assert_eq!(try_write(&sink, &entries, 0), None);
        assert!(!names(dir.path()).iter().any(|name| name.starts_with('f')));
        let later = try_write(&sink, &[own_file("later", 1)], 0);
        assert_eq!(
            later.is_some(),
            call == DiskCall::WasWritten,
            "the committing thread goes on, or takes nothing"
        );
        sink.finish().unwrap();
    }
}

#[test]
fn a_failed_sync_discards_all_slices_of_a_large_file() {
    let len = 2 * SLICE_LEN + 5;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Losing::default());
    let large = own_file("large", len);
    let first = sink(&disk, dir.path());
    assert_eq!(write(&first, std::slice::from_ref(&large), 0), [Ok(Outcome::Stored)]);
    assert_eq!(names(dir.path()).len(), 2, "the staged file and its journal");
    let staged = || dir.path().join(names(dir.path()).pop().unwrap());
    let inode = std::fs::metadata(staged()).unwrap().ino();
    // Kept open, so that the inode number is not reused.
    let _held = File::open(staged()).unwrap();
    *disk.lost.lock() = (len, 1);
    let error = write(&first, std::slice::from_ref(&large), 1).remove(0).unwrap_err();
    assert_eq!(error.retry(), Retry::Anew);
    assert_eq!(names(dir.path()), [""; 0], "both are removed");
    for index in 0..slice_count(len) {
        let stored = write(&first, std::slice::from_ref(&large), index).remove(0).unwrap();
        if index + 1 < slice_count(len) {
            assert_eq!(stored, Outcome::Stored);
            assert_ne!(std::fs::metadata(staged()).unwrap().ino(), inode, "it is a new file");
        }
    }
    let whole: Vec<u8> = (0..slice_count(len)).flat_map(|index| slice_bytes(len, index)).collect();
    assert!(std::fs::read(dir.path().join("large")).unwrap() == whole);
}

#[test]
fn without_syncs_a_large_file_is_synced_before_it_is_renamed_into_place() {
    let len = SLICE_LEN + 5;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Losing::default());
    let sink = sink_with(SinkOptions { durable: false, ..SinkOptions::default() }, &disk, dir.path());
    let large = own_file("large", len);
    *disk.lost.lock() = (len, 1);
    assert_eq!(write(&sink, std::slice::from_ref(&large), 0), [Ok(Outcome::Stored)]);
    let error = write(&sink, std::slice::from_ref(&large), 1).remove(0).unwrap_err();
    assert_eq!((error.operation(), error.retry()), ("sync", Retry::Anew));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn the_error_of_a_file_that_was_sent_again_is_not_reported_at_the_end() {
    for (lost, is_fine) in [((7, 1), true), ((0, 0), false)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Losing { lost: Mutex::new(lost), ..Losing::default() });
        let sink = sink(&disk, dir.path());
        let small = [own_file("f", 7)];
        let first = write(&sink, &small, 0).remove(0);
        assert_eq!(first.is_err(), is_fine);
        let again = write(&sink, &small, 0).remove(0);
        assert_eq!(again, Ok(Outcome::Committed(Some(Digest::of(&slice_bytes(7, 0))))));
        // The handle that was open all the time gets the error once.
        *disk.reported.lock() = 1;
        assert_eq!(sink.finish().is_ok(), is_fine);
    }
}

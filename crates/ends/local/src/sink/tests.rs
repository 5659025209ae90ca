//! Tests of the writing end.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use haul_core::digest::SliceHasher;
use haul_core::{
    Batch, BufferPool, Changes, Digest, EntryKind, ErrorKind, Extent, Offer, Side, SinkOptions, Slice,
    SliceData, Timestamp,
};

use super::*;
use crate::path::place::RootEntry;
use crate::path::root::Root;

fn entry(len: u64) -> Arc<Entry> {
    let time = Timestamp { sec: 1_000_000_000, nsec: 1 };
    Arc::new(Entry {
        mtime: time,
        atime: time,
        mode: 0o640,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        allocated: 4096,
        ..Entry::new(RelPath::new(b"f").unwrap(), EntryKind::File, len)
    })
}

fn write(sink: &LocalSink, content: &[u8], again: bool) -> Outcome {
    outcome(sink, content, again).unwrap()
}

fn outcome(sink: &LocalSink, content: &[u8], again: bool) -> Result<Outcome> {
    let entry = entry(content.len() as u64);
    let mut hasher = SliceHasher::new(entry.len, 0);
    hasher.update(content);
    let extents = vec![Extent::data(0, content.len() as u32)];
    let mut buffer = BufferPool::new(1 << 20).take();
    buffer.grow(content.len()).unwrap().copy_from_slice(content);
    let data = BatchData {
        batch: Arc::new(Batch { entries: vec![entry], slices: vec![Slice::whole(0, 0)], again }),
        slices: vec![Ok(SliceData { extents, value: hasher.finish() })],
        content: buffer,
        at_hand: false,
    };
    let (sender, receiver) = crossbeam_channel::bounded(1);
    sink.write(data, Box::new(move |outcomes| sender.send(outcomes).unwrap()));
    sink.flush();
    receiver.recv().unwrap().remove(0)
}

#[test]
fn a_staged_copy_of_a_complete_file_is_removed_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
    let sink = LocalSink::new(root, SinkOptions::default(), BufferPool::new(1 << 20)).unwrap();
    let committed = write(&sink, b"one", false);
    let part = part_of(&sink.root().at(&entry(3).path).unwrap());
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(&part.name)), b"o").unwrap();
    assert_eq!(write(&sink, b"one", true), committed);
    drop(sink.finish().unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_batch_that_comes_late_changes_nothing_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
    let sink = LocalSink::new(root, SinkOptions::default(), BufferPool::new(1 << 20)).unwrap();
    assert_eq!(write(&sink, b"new", false), Outcome::Committed(Some(Digest::of(b"new"))));
    drop(sink.finish().unwrap());
    let time = || std::fs::metadata(dir.path()).unwrap().mtime_nsec();
    let before = time();
    assert_eq!(outcome(&sink, b"old", false).unwrap_err().kind(), ErrorKind::Protocol);
    assert_eq!((std::fs::read(dir.path().join("f")).unwrap(), time()), (b"new".to_vec(), before));
}

#[test]
fn a_batch_that_comes_late_does_not_replace_a_later_state() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
    let sink = LocalSink::new(root, SinkOptions::default(), BufferPool::new(1 << 20)).unwrap();
    let refused = |content| outcome(&sink, content, false).unwrap_err().kind() == ErrorKind::SourceChanged;
    sink.discard(&[entry(3).path.clone()]).unwrap();
    assert!(refused(b"old"), "it was discarded");
    assert_eq!(sink.offer(&[Offer { entry: entry(5), digest: None }]).unwrap().len(), 1);
    assert_eq!(write(&sink, b"later", false), Outcome::Committed(Some(Digest::of(b"later"))));
    assert!(refused(b"old"), "a later state was offered");
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"later");
}

#[test]
fn a_file_that_is_sent_again_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
    let options = SinkOptions::default();
    let sink = LocalSink::new(root, options, BufferPool::new(1 << 20)).unwrap();
    let inode = || std::fs::metadata(dir.path().join("f")).unwrap().ino();
    let first = write(&sink, b"one", false);
    assert_eq!(first, Outcome::Committed(Some(Digest::of(b"one"))));
    let before = inode();
    assert_eq!(write(&sink, b"one", true), first);
    assert_eq!(inode(), before, "it is the same file");
    assert_eq!(write(&sink, b"two", true), Outcome::Committed(Some(Digest::of(b"two"))));
    assert_ne!(inode(), before, "it has other content");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_large_file_may_arrive_in_parts_in_any_order_and_twice() {
    use haul_core::digest::part_count;
    use haul_core::{Place, PlaceRoot};
    use std::os::unix::ffi::OsStrExt;

    const LEN: usize = 9 * 1024 * 1024 + 77;
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..LEN).map(|at| (at / 4099 % 251) as u8).collect();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::write(&from, &content).unwrap();
    let place = |path: &std::path::Path| Place {
        path: path.as_os_str().as_bytes().to_vec(),
        root: PlaceRoot::Exactly,
    };
    let (pool, ops) = (BufferPool::new(1 << 26), Arc::default());
    let source = crate::open_source(&place(&from), haul_core::Links::Kept, false, &pool, &ops).unwrap();
    let sink = crate::open_sink(&place(&to), false, &SinkOptions::default(), &pool, &ops).unwrap();
    let entry = Arc::new(source.root().unwrap().unwrap());
    sink.offer(&[Offer { entry: entry.clone(), digest: None }]).unwrap().remove(0).unwrap();
    // The middle slice is whole; the last one has two parts, of which one is short.
    let parts = |index| (0..part_count(LEN as u64, index)).map(move |part| (index, Some(part)));
    let mut all: Vec<_> = parts(0).chain(parts(2)).chain([(1, None), (0, Some(2))]).collect();
    all.reverse();
    let mut outcomes = Vec::new();
    for (index, part) in all {
        let slices = vec![Slice { part, ..Slice::whole(0, index) }];
        let batch = Arc::new(Batch { entries: vec![entry.clone()], slices, again: false });
        let data = source.read(&batch).unwrap();
        let (sender, receiver) = crossbeam_channel::bounded(1);
        sink.write(BatchData { at_hand: false, ..data }, Box::new(move |got| sender.send(got).unwrap()));
        sink.flush();
        outcomes.push(receiver.recv().unwrap().remove(0).unwrap());
    }
    let last = outcomes.pop().unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Stored), "{outcomes:?}");
    assert_eq!(last, Outcome::Committed(Some(Digest::of(&content))));
    assert!(std::fs::read(to).unwrap() == content);
}

/// A sink in a directory, and its answer to an offered entry.
fn directory(dir: &std::path::Path, entry: &Arc<Entry>) -> (LocalSink, Answer) {
    let root = Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default());
    let sink = LocalSink::new(root, SinkOptions::default(), BufferPool::new(1 << 20)).unwrap();
    let answer = sink.offer(&[Offer { entry: entry.clone(), digest: None }]).unwrap().remove(0).unwrap();
    (sink, answer)
}

fn directory_entry() -> Entry {
    let kind = EntryKind::Dir;
    Entry { kind, path: RelPath::new(b"d").unwrap(), mode: 0o755, allocated: 0, ..(*entry(0)).clone() }
}

#[test]
fn a_file_that_replaced_a_directory_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (sink, answer) = directory(dir.path(), &Arc::new(directory_entry()));
    assert_eq!(answer, Answer::Made(Changes::NEW));
    let (made, moved) = (dir.path().join("d"), dir.path().join("moved"));
    for decoy in ["directory", "file"] {
        std::fs::rename(&made, &moved).unwrap();
        if decoy == "file" {
            std::fs::write(&made, b"").unwrap();
        } else {
            std::fs::create_dir(&made).unwrap();
        }
        let before = std::fs::metadata(&made).unwrap();
        sink.dirs.add(&Entry { ino: std::fs::metadata(&moved).unwrap().ino(), ..directory_entry() }).unwrap();
        let error = sink.finish().unwrap_err();
        assert!(error.cause().contains("put in its place"), "{error}");
        let now = std::fs::metadata(&made).unwrap();
        assert_eq!((now.mode(), now.ctime_nsec()), (before.mode(), before.ctime_nsec()));
        if decoy == "file" {
            std::fs::remove_file(&made).unwrap();
        } else {
            std::fs::remove_dir(&made).unwrap();
        }
        std::fs::rename(&moved, &made).unwrap();
    }
}

#[test]
fn attributes_of_the_machine_are_not_set_and_a_warning_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let named = |name: &[u8]| (name.to_vec().into(), b"v".to_vec().into());
    let entry =
        Arc::new(Entry { xattrs: vec![named(b"security.evil"), named(b"user.x")], ..directory_entry() });
    let (sink, _) = directory(dir.path(), &entry);
    let notes = sink.finish().unwrap().notes;
    assert!(notes.iter().any(|note| note.what == "attribute security.evil"), "{notes:?}");
    let mut names = [0_u8; 256];
    let len = rustix::fs::listxattr(dir.path().join("d"), &mut names[..]).unwrap();
    let names = String::from_utf8_lossy(&names[..len]).into_owned();
    assert!(names.contains("user.x") && !names.contains("evil"), "{names}");
    assert_eq!(directory(dir.path(), &entry).1, Answer::Same, "the next run finds no difference");
}

#[test]
fn entries_that_no_file_system_has_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
    let sink = LocalSink::new(root, SinkOptions::default(), BufferPool::new(1 << 20)).unwrap();
    let journal = RelPath::new(b".haul-0123456789abcdef.part/.journal").unwrap();
    for bad in [
        Entry { uid: u32::MAX, ..directory_entry() },
        Entry { path: journal, ..directory_entry() },
        Entry { mtime: Timestamp { sec: 1, nsec: 0x3fff_ffff }, ..directory_entry() },
    ] {
        let offer = Offer { entry: Arc::new(bad), digest: None };
        let error = sink.offer(&[offer]).unwrap().remove(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

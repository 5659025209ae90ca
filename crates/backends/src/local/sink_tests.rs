//! Tests of the writing end.

use std::os::unix::fs::MetadataExt;

use haul_core::digest::SliceHasher;
use haul_core::{Batch, BufferPool, EntryKind, Extent, Timestamp};

use super::super::place::Base;
use super::*;

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
    receiver.recv().unwrap().remove(0).unwrap()
}

#[test]
fn a_file_that_is_sent_again_is_not_staged_if_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(
        Base { dir: dir.path().into(), name: b".".to_vec(), above: Default::default() },
        Side::Destination,
        Arc::default(),
    );
    let options = SinkOptions::default();
    let sink = LocalSink::new(root, options, BufferPool::new(1 << 20)).unwrap();
    let inode = || std::fs::metadata(dir.path().join("f")).unwrap().ino();
    let first = write(&sink, b"one", false);
    assert_eq!(first, Outcome::Committed(Some(Digest::of(b"one"))));
    let there = inode();
    assert_eq!(write(&sink, b"one", true), first);
    assert_eq!(inode(), there, "it was not written again");
    assert_eq!(write(&sink, b"two", true), Outcome::Committed(Some(Digest::of(b"two"))));
    assert_ne!(inode(), there, "it has other content");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_giant_may_come_in_parts_in_any_order_and_twice() {
    use haul_core::digest::part_count;
    use haul_core::{Digest, Place, PlaceRoot};
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
    let source = crate::local::open_source(&place(&from), false, &pool, &ops).unwrap();
    let sink = crate::local::open_sink(&place(&to), false, &SinkOptions::default(), &pool, &ops).unwrap();
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

//! Everything that a peer can do, on healthy connections.

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use haul_core::{
    Answer, Batch, BufferPool, Changes, Digest, ErrorKind, HardLink, Offer, Outcome, ScanOptions,
    SinkOptions, Slice,
};

use super::cable::Cables;
use super::mem::{bytes_of, entry, large_xattrs, path};
use super::{MIB, connect, data_of, eventually, open, place, write};

#[test]
fn every_call() {
    let remote = Cables::new();
    let names: Vec<String> = (0..9000).map(|i| format!("dir/file{i:05}")).collect();
    for name in &names {
        remote.world.put(name, name.as_bytes().to_vec());
    }
    let peer = connect(&remote, 3).unwrap();
    let (source, sink) = open(&peer);
    assert_eq!(source.root().unwrap(), Some(entry("root.d", 0)));

    let found = Mutex::new(Vec::new());
    let excluded = Mutex::new(0);
    source
        .scan(&ScanOptions::default(), &|batch| {
            found.lock().extend(batch.entries.into_iter().map(|e| e.path));
            *excluded.lock() += batch.excluded;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(*found.lock(), names.iter().map(|name| path(name)).collect::<Vec<_>>());
    assert_eq!(*excluded.lock(), 90);

    let looked = source.lookup(&[path("dir/file00007"), path("nothing")]).unwrap();
    assert_eq!(looked[0].as_ref().unwrap().as_ref().unwrap().len, 13);
    assert_eq!(looked[1], Ok(None));
    let digests = source.digest(&[path("dir/file00007"), path("nothing")]).unwrap();
    assert_eq!(digests[0], Ok(Digest::of(b"dir/file00007")));
    assert_eq!(digests[1].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
    eventually("the remote end tells how much it has hashed", || source.hashed() == Some(1 << 40));

    let batch = Arc::new(Batch {
        entries: names[..500].iter().map(|name| Arc::new(entry(name, 13))).collect(),
        slices: (0..500).map(|entry| Slice::whole(entry, 0)).collect(),
        again: false,
    });
    let data = source.read(&batch).unwrap();
    assert_eq!(data.slices.len(), 500);
    assert_eq!(&data.content.bytes()[..13], b"dir/file00000");
    assert!(!data.at_hand);

    let offers: Vec<Offer> = ["new", "dir/file00001", "some.d"]
        .map(|name| Offer { entry: Arc::new(entry(name, 13)), digest: None })
        .to_vec();
    let answers = sink.offer(&offers).unwrap();
    assert_eq!(answers[0], Ok(Answer::Need { changes: Changes::NEW, have: Vec::new() }));
    assert_eq!((&answers[1], &answers[2]), (&Ok(Answer::Same), &Ok(Answer::Made(Changes::NEW))));

    let pool = BufferPool::new(16 * MIB);
    let bytes = bytes_of(9_000_000, 3);
    let large = Arc::new(entry("huge", bytes.len() as u64));
    let written: Vec<_> =
        [2, 0, 1].map(|index| write(&*sink, data_of(&pool, &large, index, &bytes))).into_iter().collect();
    sink.flush();
    let outcomes: Vec<_> = written.iter().flat_map(|got| got.recv().unwrap()).map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Stored).count(), 2);
    assert!(outcomes.contains(&Outcome::Committed(Some(Digest::of(&bytes)))));
    assert_eq!(remote.world.content("huge").unwrap(), bytes);
    assert!(remote.world.flushed.load(Ordering::Relaxed) > 0);

    sink.discard(&[path("a")]).unwrap();
    let link = HardLink { entry: Arc::new(entry("b", 1)), to: path("huge") };
    assert_eq!(sink.link(&[link]).unwrap(), [Ok(Answer::Made(Changes::NEW))]);
    assert_eq!(sink.remove(&[path("c"), path("d")]).unwrap(), [Ok(()), Ok(())]);
    assert_eq!(*remote.world.discarded.lock(), [path("a")]);
    assert_eq!(*remote.world.removed.lock(), [path("c"), path("d")]);
    let report = sink.finish().unwrap();
    assert_eq!(report.notes.len(), 1);
    assert!(sink.offer(&[]).unwrap().is_empty());
}

#[test]
fn failures_of_the_remote_end_arrive_as_they_are() {
    let remote = Cables::new();
    let peer = connect(&remote, 1).unwrap();
    let error = peer.open_source(&place("/missing"), haul_core::Links::Kept).err().unwrap();
    assert_eq!((error.kind(), error.subject()), (ErrorKind::PermissionDenied, &b"/missing"[..]));
    let (source, _) = open(&peer);
    let broken = ScanOptions { starts: vec![path("broken")], ..ScanOptions::default() };
    let error = source.scan(&broken, &|_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.cause(), "the disk is gone");
}

#[test]
fn a_visitor_that_has_had_enough_ends_the_scan() {
    let remote = Cables::new();
    for i in 0..100_000 {
        remote.world.put(&format!("f{i}"), Vec::new());
    }
    let peer = connect(&remote, 1).unwrap();
    let (source, _) = open(&peer);
    for _ in 0..3 {
        let seen = Mutex::new(0);
        source
            .scan(&ScanOptions::default(), &|batch| {
                *seen.lock() += batch.entries.len();
                ControlFlow::Break(())
            })
            .unwrap();
        assert!(*seen.lock() < 10_000);
    }
    assert!(source.lookup(&[path("f1")]).unwrap()[0].is_ok());
}

#[test]
fn more_connections_are_opened_when_content_waits() {
    let remote = Cables::new();
    let peer = connect(&remote, 5).unwrap();
    let (source, sink) = open(&peer);
    source.lookup(&[path("x")]).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(remote.count(), 1, "nothing to carry, no further connection");
    let pool = BufferPool::new(64 * MIB);
    let bytes = bytes_of(4 << 20, 1);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (sink, pool, bytes) = (&sink, &pool, &bytes);
            scope.spawn(move || {
                for file in 0..6 {
                    let entry = Arc::new(entry(&format!("w{thread}-{file}"), bytes.len() as u64));
                    let got = write(&**sink, data_of(pool, &entry, 0, bytes)).recv().unwrap();
                    assert_eq!(got, [Ok(Outcome::Committed(Some(Digest::of(bytes))))]);
                }
            });
        }
    });
    eventually("five connections", || sink.streams() == 5);
    assert_eq!(remote.world.opened.load(Ordering::Relaxed), 2, "one far process has all of them");
    drop((source, sink));
    drop(peer);
}

#[test]
fn little_memory_and_both_ways_at_once_do_not_lock_up() {
    let remote = Cables::new();
    let bytes = bytes_of(4 << 20, 9);
    for i in 0..40 {
        remote.world.put(&format!("r{i}"), bytes.clone());
    }
    let pool = BufferPool::new(0);
    let config = super::config(2);
    let config = super::PeerConfig { max_memory: 0, ..config };
    let peer = super::Peer::over(Box::new(remote.clone()), &config, &pool, Arc::new(|_| {})).unwrap();
    let (source, sink) = open(&peer);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (source, sink) = (&source, &sink);
            scope.spawn(move || {
                for i in 0..5 {
                    let entry = Arc::new(entry(&format!("r{}", thread * 5 + i), 4 << 20));
                    let slices = vec![Slice::whole(0, 0)];
                    let batch = Batch { entries: vec![entry], slices, again: false };
                    let data = source.read(&Arc::new(batch)).unwrap();
                    assert!(write(&**sink, data).recv().unwrap()[0].is_ok());
                }
            });
        }
    });
}

#[test]
fn a_batch_that_does_not_fit_into_a_frame_goes_in_parts() {
    let remote = Cables::new();
    let mut offers = Vec::new();
    for i in 0..6 {
        let mut entry = entry(&format!("x{i}"), 3);
        entry.xattrs = large_xattrs(if i == 4 { 5 << 20 } else { 2 << 20 });
        remote.world.files.lock().insert(entry.path.clone(), (entry.clone(), b"abc".to_vec()));
        offers.push(Offer { entry: Arc::new(entry), digest: None });
    }
    let peer = connect(&remote, 2).unwrap();
    let (source, sink) = open(&peer);
    let answers = sink.offer(&offers).unwrap();
    assert_eq!(answers.iter().filter(|a| **a == Ok(Answer::Same)).count(), 5);
    assert_eq!(answers[4].as_ref().unwrap_err().kind(), ErrorKind::Unsupported);
    let paths: Vec<_> = offers.iter().map(|offer| offer.entry.path.clone()).collect();
    let looked = source.lookup(&paths).unwrap();
    assert_eq!(looked[5].as_ref().unwrap().as_ref().unwrap().xattrs[0].1.len(), 2 << 20);
    assert_eq!(looked[4].as_ref().unwrap_err().kind(), ErrorKind::Unsupported);

    remote.world.files.lock().clear();
    let pool = BufferPool::new(16 * MIB);
    let mut content = pool.take();
    content.grow(18).unwrap().copy_from_slice(&b"abc".repeat(6));
    let data = haul_core::BatchData {
        slices: offers.iter().map(|offer| Ok(super::mem::prove(&offer.entry, 0, b"abc"))).collect(),
        batch: Arc::new(Batch {
            entries: offers.iter().map(|offer| offer.entry.clone()).collect(),
            slices: (0..6).map(|entry| Slice::whole(entry, 0)).collect(),
            again: false,
        }),
        content,
        at_hand: true,
    };
    let outcomes = write(&*sink, data).recv().unwrap();
    assert_eq!(outcomes.len(), 6);
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 5);
    assert!(outcomes[4].is_err());

    let failures = Mutex::new(Vec::new());
    for offer in &offers {
        let file = ((*offer.entry).clone(), b"abc".to_vec());
        remote.world.files.lock().insert(offer.entry.path.clone(), file);
    }
    let found = Mutex::new(0);
    source
        .scan(&ScanOptions::default(), &|batch| {
            *found.lock() += batch.entries.len();
            failures.lock().extend(batch.errors);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(*found.lock(), 5);
    assert_eq!(failures.lock()[0].path, path("x4"));
}

#[test]
fn an_end_that_is_let_go_is_let_go_there_too() {
    let remote = Cables::new();
    let peer = connect(&remote, 1).unwrap();
    let held = Arc::strong_count(&remote.world);
    let sink = peer.open_sink(&place("/x"), &SinkOptions::default()).unwrap();
    eventually("open", || Arc::strong_count(&remote.world) > held);
    drop(sink);
    eventually("closed", || Arc::strong_count(&remote.world) == held);
}

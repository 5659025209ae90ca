//! Connections that die, stall or lie.

use haul_core::sync::Mutex;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{BufferPool, ErrorKind, Offer, Outcome, Retry, ScanOptions, Sink};
use haul_remote::{Peer, PeerConfig};
use haul_wire::{FrameKind, Welcome, encode};

use super::cable::Cables;
use super::mem::{bytes_of, entry, path};
use super::{MIB, connect, data_of, eventually, open, write};

/// A peer with this many connections up.
fn with_connections(remote: &Cables, count: u32) -> Arc<Peer> {
    let peer = connect(remote, count).unwrap();
    let (_, sink) = open(&peer);
    let pool = BufferPool::new(64 * MIB);
    let bytes = bytes_of(1 << 20, 1);
    let begun = Instant::now();
    while sink.streams() < count {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::scope(|scope| {
            for i in 0..count + 1 {
                let (sink, pool, bytes) = (&sink, &pool, &bytes);
                scope.spawn(move || {
                    let entry = Arc::new(entry(&format!("warm{i}"), bytes.len() as u64));
                    write(&**sink, data_of(pool, &entry, 0, bytes)).recv().unwrap();
                });
            }
        });
    }
    peer
}

#[test]
fn a_connection_that_dies_with_a_write_gives_it_back() {
    let remote = Cables::new();
    let peer = with_connections(&remote, 3);
    let (source, sink) = open(&peer);
    let pool = BufferPool::new(64 * MIB);
    let bytes = bytes_of(1 << 20, 2);
    remote.world.hold.store(true, Ordering::Relaxed);
    let gets: Vec<_> = (0..9)
        .map(|i| {
            let entry = Arc::new(entry(&format!("f{i}"), bytes.len() as u64));
            write(&*sink, data_of(&pool, &entry, 0, &bytes))
        })
        .collect();
    remote.cable(1).cut();
    eventually("one connection fewer, or replaced", || remote.count() > 3 || sink.streams() == 2);
    remote.world.hold.store(false, Ordering::Relaxed);
    let (mut stored, mut lost) = (0, 0);
    for got in gets {
        match &got.recv().unwrap()[0] {
            Ok(Outcome::Committed(_)) => stored += 1,
            Err(error) => {
                assert_eq!((error.kind(), error.retry()), (ErrorKind::Unreachable, Retry::OtherStream));
                lost += 1;
            }
            Ok(Outcome::Stored) => panic!("a whole file"),
        }
    }
    assert!(stored >= 3 && lost >= 1, "{stored} stored, {lost} lost");
    assert!(source.root().is_ok());
    eventually("the connection is replaced", || {
        let _ = write(&*sink, data_of(&pool, &Arc::new(entry("again", 1 << 20)), 0, &bytes));
        sink.streams() == 3
    });
}

#[test]
fn calls_move_to_another_connection_by_themselves() {
    let remote = Cables::new();
    for i in 0..30_000 {
        remote.world.put(&format!("f{i}"), vec![1; 10]);
    }
    let peer = with_connections(&remote, 4);
    let (source, _) = open(&peer);
    let seen = Mutex::new(Vec::new());
    let cut = Mutex::new(0);
    source
        .scan(&ScanOptions::default(), &|batch| {
            seen.lock().extend(batch.entries.into_iter().map(|e| e.path));
            let mut cut = cut.lock();
            if *cut < 3 {
                remote.cable(*cut).cut();
                *cut += 1;
            }
            thread::sleep(Duration::from_millis(20));
            ControlFlow::Continue(())
        })
        .unwrap();
    let seen = seen.lock();
    let all: BTreeSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), all.len()), (30_000 + 5, 30_000 + 5), "each entry once");
}

#[test]
fn a_stalled_connection_is_given_up_and_an_idle_one_is_not() {
    let remote = Cables::new();
    let peer = with_connections(&remote, 2);
    let (source, sink) = open(&peer);
    // Longer than the timeout with nothing to do.
    thread::sleep(Duration::from_millis(3500));
    assert_eq!((sink.streams(), remote.count()), (2, 2));
    // And with an answer that takes longer.
    remote.world.hold.store(true, Ordering::Relaxed);
    let pool = BufferPool::new(16 * MIB);
    let bytes = bytes_of(1000, 1);
    let slow = write(&*sink, data_of(&pool, &Arc::new(entry("slow", 1000)), 0, &bytes));
    thread::sleep(Duration::from_millis(3500));
    remote.world.hold.store(false, Ordering::Relaxed);
    assert!(slow.recv().unwrap()[0].is_ok());
    remote.cable(0).stall(true);
    remote.cable(1).stall(true);
    let begun = Instant::now();
    assert!(source.root().is_ok(), "on a connection that was opened anew");
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_slow_disk_holds_up_its_connections_and_loses_none() {
    let remote = Cables::new();
    let config = PeerConfig { max_memory: 8 * MIB, ..super::config(2) };
    let pool = BufferPool::new(64 * MIB);
    let peer = Peer::over(Box::new(remote.clone()), &config, &pool, Arc::new(|_| {})).unwrap();
    let (_, sink) = open(&peer);
    let bytes = bytes_of(1 << 20, 1);
    remote.world.hold.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        for i in 0..8 {
            let (sink, pool, bytes) = (&sink, &pool, &bytes);
            scope.spawn(move || {
                let entry = Arc::new(entry(&format!("f{i}"), bytes.len() as u64));
                let got = write(&**sink, data_of(pool, &entry, 0, bytes)).recv().unwrap();
                assert!(got[0].is_ok(), "{got:?}");
            });
        }
        // Longer than either end waits for a sign of life.
        thread::sleep(Duration::from_secs(7));
        remote.world.hold.store(false, Ordering::Relaxed);
    });
    assert_eq!(remote.count(), 2);
}

#[test]
fn a_damaged_frame_ends_its_connection_and_nothing_else() {
    for at in [3, 9, 17, 30, 36] {
        let remote = Cables::new();
        let peer = with_connections(&remote, 2);
        let (source, _) = open(&peer);
        remote.cable(0).flip(at);
        remote.cable(1).flip(at);
        for _ in 0..4 {
            assert!(source.root().is_ok(), "byte {at}");
        }
        assert!(remote.count() > 2, "byte {at} went unseen");
        assert!(source.lookup(&[path("x")]).is_ok());
    }
}

#[test]
fn damaged_content_is_told_by_its_proof() {
    let remote = Cables::new();
    let peer = connect(&remote, 1).unwrap();
    let (_, sink) = open(&peer);
    let pool = BufferPool::new(16 * MIB);
    let bytes = bytes_of(1 << 20, 2);
    let file = Arc::new(entry("f", 1 << 20));
    remote.cable(0).flip(500_000);
    let got = write(&*sink, data_of(&pool, &file, 0, &bytes)).recv().unwrap();
    let error = got[0].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Again));
    let got = write(&*sink, data_of(&pool, &file, 0, &bytes)).recv().unwrap();
    assert!(matches!(got[0], Ok(Outcome::Committed(Some(_)))));
    assert_eq!(remote.count(), 1);
}

#[test]
fn when_all_connections_are_lost_a_new_remote_end_goes_on() {
    let remote = Cables::new();
    let peer = with_connections(&remote, 2);
    let (source, sink) = open(&peer);
    let dir = Offer { entry: Arc::new(entry("some.d", 0)), digest: None };
    sink.offer(&[dir]).unwrap();
    for at in 0..remote.count() {
        remote.cable(at).cut();
    }
    assert!(source.root().is_ok());
    assert!(sink.offer(&[Offer { entry: Arc::new(entry("f", 1)), digest: None }]).unwrap()[0].is_ok());
    // Whichever process it is by now, it was told of the directory: nothing is said to be lost.
    assert_eq!(sink.finish().unwrap().notes.len(), 1);
}

#[test]
fn when_nothing_helps_it_says_so() {
    let remote = Cables::new();
    let peer = with_connections(&remote, 2);
    let (source, sink) = open(&peer);
    remote.world.hold.store(true, Ordering::Relaxed);
    let pool = BufferPool::new(16 * MIB);
    let bytes = bytes_of(1000, 1);
    let file = Arc::new(entry("f", 1000));
    let got = write(&*sink, data_of(&pool, &file, 0, &bytes));
    remote.refuse.store(true, Ordering::Relaxed);
    for at in 0..remote.count() {
        remote.cable(at).cut();
    }
    assert_eq!(got.recv().unwrap()[0].as_ref().unwrap_err().retry(), Retry::OtherStream);
    let error = source.root().unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unreachable, Retry::Never));
    assert_eq!(error.to_string(), "failed to reach `far`: no route to host");
    assert!(error.hint().unwrap().contains("run the same command again"));
    let got = write(&*sink, data_of(&pool, &file, 0, &bytes)).recv().unwrap();
    assert_eq!(got[0].as_ref().unwrap_err().retry(), Retry::Never);
    sink.flush();
    remote.world.hold.store(false, Ordering::Relaxed);
}

#[test]
fn another_version_is_told_by_name() {
    let mut other = Welcome::new(Ok([1; 16]));
    other.version = 77;
    other.release = "9.9.9".to_owned();
    let says = encode(FrameKind::Welcome, 0, &other, 0).unwrap();
    let remote = Cables { says: Some(says), ..Cables::new() };
    let error = connect(&remote, 1).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let text = error.to_string();
    assert!(
        text.contains("9.9.9")
            && text.contains("protocol 77")
            && text.contains(&format!("protocol {}", haul_wire::VERSION)),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("--remote-haul"));
}

#[test]
fn a_login_script_that_prints_is_quoted() {
    for says in ["Welcome to \x1b[1mfar\x1b[0m!\nLast login: never, from nowhere\n", "hi\n"] {
        let remote = Cables { says: Some(says.as_bytes().to_vec()), ..Cables::new() };
        let error = connect(&remote, 1).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let shown = if says.len() > 10 { "`Welcome to \\x1b[1mfar" } else { "sent `hi`" };
        assert!(error.to_string().contains(shown), "{error}");
        assert!(error.hint().unwrap().contains("login script"));
    }
}

#[test]
fn the_remote_end_ends_with_its_last_connection() {
    let remote = Cables::new();
    let peer = with_connections(&remote, 3);
    let (source, sink) = open(&peer);
    let flushed = remote.world.flushed.load(Ordering::Relaxed);
    remote.refuse.store(true, Ordering::Relaxed);
    drop(source);
    for at in 0..remote.count() {
        remote.cable(at).cut();
    }
    eventually("it is made durable what was taken", || {
        remote.world.flushed.load(Ordering::Relaxed) > flushed
    });
    eventually("everything is let go", || Arc::strong_count(&remote.world) <= 2);
    let _: &dyn Sink = &*sink;
    let begun = Instant::now();
    drop(sink);
    drop(peer);
    assert!(begun.elapsed() < Duration::from_secs(8));
}

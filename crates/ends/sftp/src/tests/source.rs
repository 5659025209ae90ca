//! Reading: walks, lookups, content and digests.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Batch, EntryKind, ErrorKind, RelPath, ScanOptions, Slice, Source};

use super::server::TestServer;
use super::{bytes_of, path, place};
use crate::packet::{FAILURE, PERMISSION_DENIED};

fn source(server: &TestServer) -> Arc<dyn Source> {
    server.session(2).open_source(&place("/home/src"), haul_core::Links::Kept).unwrap()
}

fn world() -> TestServer {
    let server = TestServer::default();
    let mut world = server.world();
    world.put_dir("/home/src");
    world.put_dir("/home/src/d");
    world.put_dir("/home/src/empty");
    world.put("/home/src/a", b"hello");
    world.put("/home/src/d/b", &bytes_of(5 * 1024 * 1024));
    world.put_link("/home/src/d/link", "../a");
    for number in 0..20 {
        world.put(&format!("/home/src/d/n{number:02}"), &[number]);
    }
    drop(world);
    server
}

fn scan(source: &dyn Source, options: &ScanOptions) -> haul_core::Result<(Vec<String>, usize)> {
    let found = Mutex::new((Vec::new(), 0));
    source.scan(options, &|batch| {
        let mut found = found.lock();
        for entry in &batch.entries {
            found.0.push(String::from_utf8_lossy(entry.path.as_bytes()).into_owned());
        }
        found.1 += batch.errors.len();
        ControlFlow::Continue(())
    })?;
    let mut found = found.into_inner();
    found.0.sort();
    Ok(found)
}

#[test]
fn a_walk_finds_every_entry_once() {
    let server = world();
    let (names, errors) = scan(&*source(&server), &ScanOptions::default()).unwrap();
    assert_eq!((names.len(), errors), (26, 0), "{names:?}");
    assert_eq!(names[..3], ["", "a", "d"]);
    assert!(names.contains(&"d/link".to_owned()) && names.contains(&"d/n19".to_owned()));
}

#[test]
fn a_server_that_does_not_follow_links_is_not_believed() {
    // It answers a request to follow a link with the link itself.
    let server = world();
    let source = server.session(2).open_source(&place("/home/src"), haul_core::Links::Followed).unwrap();
    let (names, errors) = scan(&*source, &ScanOptions::default()).unwrap();
    assert_eq!((names.len(), errors), (25, 1), "{names:?}");
    assert!(source.lookup(&[path("d/link")]).unwrap()[0].is_err() && !source.caps().removes);
}

#[test]
fn a_walk_that_loses_its_connection_reports_no_name_twice() {
    for cut in [2, 5, 8, 11, 14] {
        let server = world();
        let source = source(&server);
        server.world().cut_after = Some(cut);
        let (names, errors) = scan(&*source, &ScanOptions::default()).unwrap();
        assert_eq!((names.len(), errors), (26, 0), "cut after {cut}: {names:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_listed_is_an_error_of_its_own() {
    let server = world();
    server.world().refused.push((11, "/home/src/d", PERMISSION_DENIED));
    let (names, errors) = scan(&*source(&server), &ScanOptions::default()).unwrap();
    assert_eq!((names.len(), errors), (4, 1), "{names:?}");
}

#[test]
fn a_start_that_is_missing_is_an_error() {
    let server = world();
    let options = ScanOptions { starts: vec![path("none"), path("d")], ..ScanOptions::default() };
    let (names, errors) = scan(&*source(&server), &options).unwrap();
    assert_eq!(errors, 1);
    assert!(names.contains(&"d/b".to_owned()) && !names.contains(&"a".to_owned()), "{names:?}");
}

#[test]
fn one_file_system_is_refused() {
    let options = ScanOptions { one_file_system: true, ..ScanOptions::default() };
    assert_eq!(scan(&*source(&world()), &options).err().unwrap().kind(), ErrorKind::Usage);
}

fn batch(source: &dyn Source, names: &[(&str, u32)]) -> Arc<Batch> {
    let paths: Vec<RelPath> = names.iter().map(|(name, _)| path(name)).collect();
    let found = source.lookup(&paths).unwrap();
    let entries: Vec<_> = found.into_iter().map(|entry| Arc::new(entry.unwrap().unwrap())).collect();
    let slices = names.iter().enumerate().map(|(at, (_, index))| Slice::whole(at as u32, *index)).collect();
    Arc::new(Batch { entries, slices, again: false })
}

#[test]
fn lookups_follow_no_link_and_report_missing_entries() {
    let server = world();
    let source = source(&server);
    let found = source.lookup(&[path("a"), path("none"), path("d/link"), path("d/link/x")]).unwrap();
    assert_eq!(found[0].as_ref().unwrap().as_ref().unwrap().len, 5);
    assert!(found[1].as_ref().unwrap().is_none() && found[3].as_ref().unwrap().is_none());
    let link = found[2].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(link.kind, EntryKind::Symlink(b"../a".to_vec()));
    assert!(source.root().unwrap().unwrap().is_dir());
}

#[test]
fn content_is_read_whole_and_proved() {
    let server = world();
    let source = source(&server);
    let batch = batch(&*source, &[("a", 0), ("d/b", 1)]);
    let data = source.read(&batch).unwrap();
    let expected = [b"hello", &bytes_of(5 * 1024 * 1024)[4 * 1024 * 1024..]].concat();
    assert!(data.content.bytes() == expected);
    let mut used = 0;
    for ((entry, slice), read) in data.batch.iter().zip(&data.slices) {
        let read = read.as_ref().unwrap();
        let len = read.data_len() as usize;
        assert!(read.proves(entry, slice, &data.content.bytes()[used..used + len]));
        used += len;
    }
}

#[test]
fn a_file_that_changed_or_cannot_be_read_fails_alone() {
    let server = world();
    let source = source(&server);
    let batch = batch(&*source, &[("a", 0), ("d/n01", 0), ("d/n02", 0), ("d/n03", 0)]);
    let mut world = server.world();
    world.put("/home/src/a", b"longer than before");
    world.put("/home/src/d/n01", b"");
    world.refused.push((3, "n02", FAILURE));
    drop(world);
    let data = source.read(&batch).unwrap();
    let kinds: Vec<_> =
        data.slices.iter().map(|read| read.as_ref().err().map(haul_core::Error::kind)).collect();
    let changed = Some(ErrorKind::SourceChanged);
    assert_eq!(kinds, [changed, changed, Some(ErrorKind::Io), None]);
    assert_eq!(data.content.bytes(), [3]);
}

#[test]
fn a_file_is_closed_when_all_of_it_is_read() {
    const READ: u8 = 5;
    const FSTAT: u8 = 8;
    const CLOSE: u8 = 4;
    let whole: &[u8] = &[READ, FSTAT, CLOSE];
    // The metadata count only if they were asked for after the content.
    let short = &[READ, FSTAT, READ, READ, FSTAT, CLOSE];
    for (most, expected) in [(usize::MAX, whole), (2, short)] {
        let server = world();
        let source = server.session(1).open_source(&place("/home/src"), haul_core::Links::Kept).unwrap();
        let batch = batch(&*source, &[("a", 0)]);
        server.world().most = most;
        server.world().log.clear();
        let data = source.read(&batch).unwrap();
        assert!(data.slices[0].is_ok(), "{:?}", data.slices[0]);
        assert_eq!(data.content.bytes(), b"hello");
        // Nobody waits for the answer to the close: another request on its connection comes after it.
        source.root().unwrap();
        let log: Vec<u8> =
            server.world().log.iter().copied().filter(|kind| [READ, FSTAT, CLOSE].contains(kind)).collect();
        assert_eq!(log, expected);
    }
}

#[test]
fn digests_are_those_of_the_content() {
    let server = world();
    let source = source(&server);
    let digests = source.digest(&[path("d/b"), path("none"), path("d")]).unwrap();
    let expected = blake3_of(&bytes_of(5 * 1024 * 1024));
    assert_eq!(digests[0].as_ref().unwrap().0, expected);
    assert_eq!(digests[1].as_ref().err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(digests[2].as_ref().err().unwrap().kind(), ErrorKind::SourceChanged);
}

fn blake3_of(bytes: &[u8]) -> [u8; 32] {
    let mut tree = haul_core::FileTree::new(bytes.len() as u64);
    for (index, part) in bytes.chunks(haul_core::SLICE_LEN as usize).enumerate() {
        let mut hasher =
            haul_core::digest::SliceHasher::new(bytes.len() as u64, index as u64 * haul_core::SLICE_LEN);
        hasher.update(part);
        tree.set(index as u32, hasher.finish());
    }
    tree.digest().unwrap().0
}

//! Writing: offers, small and large files, resume, links, removal and metadata.

use std::sync::Arc;

use haul_core::journal::{HEADER_LEN, RECORD_LEN};
use haul_core::{
    Answer, Changes, EntryKind, ErrorKind, HardLink, Outcome, SLICE_LEN, Sink, SinkOptions, SkipReason,
};

use super::server::TestServer;
use super::{bytes_of, data_of, entry, file, offer, options, path, sink, write};
use crate::packet::{FAILURE, PERMISSION_DENIED};

fn answers(sink: &dyn Sink, entries: &[&Arc<haul_core::Entry>]) -> Vec<haul_core::Result<Answer>> {
    let offers: Vec<_> = entries.iter().map(|entry| offer(entry)).collect();
    sink.offer(&offers).unwrap()
}

fn is_need(answer: &haul_core::Result<Answer>) -> bool {
    matches!(answer, Ok(Answer::Need { .. }))
}

fn committed(outcomes: &[haul_core::Result<Outcome>]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Committed(Some(_)))))
}

/// A sink that has taken the first slice of a large file.
fn with_first_slice(
    server: &TestServer,
    options: &SinkOptions,
    large: &Arc<haul_core::Entry>,
    bytes: &[u8],
) -> Arc<dyn Sink> {
    let sink = sink(&server.session(1), options);
    assert!(is_need(&answers(&*sink, &[large])[0]));
    assert!(write(&*sink, data_of(large, 0, bytes))[0].is_ok());
    sink
}

#[test]
fn a_small_file_is_staged_renamed_and_up_to_date_afterwards() {
    for extensions in [super::server::ALL.to_vec(), Vec::new()] {
        let server = TestServer::default();
        server.world().extensions = extensions;
        let sink = sink(&server.session(1), &options());
        let root = entry("", EntryKind::Dir, 0);
        let a = file("d/a", b"hello");
        let d = entry("d", EntryKind::Dir, 0);
        let told = answers(&*sink, &[&root, &d, &a]);
        assert!(
            matches!(told[..2], [Ok(Answer::Made(Changes::NEW)), Ok(Answer::Made(Changes::NEW))]),
            "{told:?}"
        );
        assert!(is_need(&told[2]));
        assert!(committed(&write(&*sink, data_of(&a, 0, b"hello"))));
        assert_eq!(server.world().data("/home/dst/d/a"), Some(&b"hello"[..]));
        assert_eq!(server.world().names().iter().filter(|name| name.contains(".haul-")).count(), 0);
        assert!(matches!(answers(&*sink, &[&a])[..], [Ok(Answer::Same)]));
        sink.finish().unwrap();
    }
}

#[test]
fn options_decide_which_files_are_skipped() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    server.world().put("/home/dst/a", b"other!");
    let session = server.session(1);
    let a = file("a", b"hello");
    let with = |options: &SinkOptions| answers(&*sink(&session, options), &[&a]).pop().unwrap();
    let plain = options();
    assert!(is_need(&with(&plain)));
    let skipped = with(&SinkOptions { ignore_existing: true, ..plain.clone() });
    assert!(matches!(skipped, Ok(Answer::Left(SkipReason::Exists))));
    let new = file("new", b"x");
    let existing = SinkOptions { existing: true, ..plain.clone() };
    assert!(matches!(
        answers(&*sink(&session, &existing), &[&new])[..],
        [Ok(Answer::Left(SkipReason::Missing))]
    ));
    let fifo = entry("fifo", EntryKind::Fifo, 0);
    let left = answers(&*sink(&session, &plain), &[&fifo]);
    assert!(matches!(left[..], [Ok(Answer::Left(SkipReason::Unsupported))]));
    let dry = SinkOptions { dry_run: true, ..plain };
    assert!(is_need(&with(&dry)));
    assert_eq!(server.world().data("/home/dst/a"), Some(&b"other!"[..]));
}

#[test]
fn a_directory_in_the_way_is_replaced_only_when_it_is_empty() {
    let server = TestServer::default();
    for name in ["/home/dst", "/home/dst/empty", "/home/dst/full"] {
        server.world().put_dir(name);
    }
    server.world().put("/home/dst/full/x", b"x");
    let sink = sink(&server.session(1), &options());
    let told = answers(&*sink, &[&file("empty", b"1"), &file("full", b"1")]);
    assert!(is_need(&told[0]));
    assert!(told[1].is_err());
    assert!(server.world().data("/home/dst/full/x").is_some());
}

#[test]
fn links_are_made_replaced_and_recognised() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let sink = sink(&server.session(1), &options());
    let to = |target: &str| entry("l", EntryKind::Symlink(target.as_bytes().to_vec()), 0);
    assert!(matches!(answers(&*sink, &[&to("x")])[..], [Ok(Answer::Made(Changes::NEW))]));
    assert!(matches!(answers(&*sink, &[&to("x")])[..], [Ok(Answer::Same)]));
    assert!(matches!(answers(&*sink, &[&to("y")])[..], [Ok(Answer::Made(Changes::NONE))]));
    assert_eq!(server.world().data("/home/dst/l"), Some(&b"y"[..]));
}

#[test]
fn hard_links_are_made_where_the_server_can() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    server.world().put("/home/dst/a", b"a");
    let first = sink(&server.session(1), &options());
    let link = |name: &str, to: &str| HardLink { entry: file(name, b"a"), to: path(to) };
    let links = [link("b", "a"), link("c", "none")];
    let made = first.link(&links).unwrap();
    assert!(matches!(made[0], Ok(Answer::Made(Changes::NEW))), "{made:?}");
    assert!(made[1].is_err());
    assert_eq!(server.world().data("/home/dst/b"), Some(&b"a"[..]));
    assert!(matches!(first.link(&links[..1]).unwrap()[..], [Ok(Answer::Same)]));
    server.world().extensions.clear();
    let second = sink(&server.session(1), &options());
    let refused = second.link(&[link("d", "a")]).unwrap().pop().unwrap();
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn removal_takes_files_and_empty_directories() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    server.world().put_dir("/home/dst/d");
    server.world().put("/home/dst/a", b"a");
    server.world().put("/home/dst/b", b"b");
    server.world().refused.push((13, "/home/dst/b", PERMISSION_DENIED));
    let sink = sink(&server.session(1), &options());
    let removed = sink.remove(&[path("a"), path("none"), path("b"), path("d")]).unwrap();
    assert_eq!(removed.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    assert_eq!(server.world().names().len(), 4);
}

#[test]
fn a_directory_that_is_not_removed_is_not_empty_only_if_it_has_entries() {
    let server = TestServer::default();
    for name in ["/home/dst", "/home/dst/full", "/home/dst/busy", "/home/dst/busy/inner", "/home/dst/locked"]
    {
        server.world().put_dir(name);
    }
    (0..8).for_each(|number| server.world().put(&format!("/home/dst/full/{number}"), b"x"));
    server.world().put("/home/dst/locked/x", b"x");
    server.world().refused.push((15, "/home/dst/busy", FAILURE));
    server.world().refused.push((11, "/home/dst/locked", PERMISSION_DENIED));
    let sink = sink(&server.session(1), &options());
    let removed = sink.remove(&["busy/inner", "full", "locked"].map(path)).unwrap();
    let kinds: Vec<_> = removed.into_iter().map(|removed| removed.err().map(|error| error.kind())).collect();
    assert_eq!(kinds, [Some(ErrorKind::Io), Some(ErrorKind::NotEmpty), Some(ErrorKind::Io)]);
}

#[test]
fn content_that_does_not_match_its_proof_is_not_written() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let sink = sink(&server.session(1), &options());
    let a = file("a", b"hello");
    assert!(is_need(&answers(&*sink, &[&a])[0]));
    let mut data = data_of(&a, 0, b"hello");
    data.content.bytes_mut()[0] ^= 1;
    let outcome = write(&*sink, data).pop().unwrap();
    assert_eq!(outcome.err().unwrap().kind(), ErrorKind::Corrupt);
    assert_eq!(server.world().data("/home/dst/a"), None);
}

#[test]
fn verification_reads_back_the_written_bytes() {
    for corrupts in [false, true] {
        let server = TestServer::default();
        server.world().put_dir("/home/dst");
        let sink = sink(&server.session(1), &SinkOptions { verify_disk: true, ..options() });
        let a = file("a", b"hello");
        assert!(is_need(&answers(&*sink, &[&a])[0]));
        server.world().corrupts = corrupts;
        let outcome = write(&*sink, data_of(&a, 0, b"hello")).pop().unwrap();
        assert_eq!(outcome.err().map(|error| error.kind()), corrupts.then_some(ErrorKind::Corrupt));
        assert_eq!(server.world().data("/home/dst/a").is_some(), !corrupts);
    }
}

#[test]
fn a_full_disk_has_an_error_kind_of_its_own() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let sink = sink(&server.session(1), &options());
    let a = file("a", b"hello");
    assert!(is_need(&answers(&*sink, &[&a])[0]));
    server.world().refused.push((6, ".haul-", FAILURE));
    let error = |sink: &dyn Sink| write(sink, data_of(&a, 0, b"hello")).pop().unwrap().err().unwrap();
    assert_eq!(error(&*sink).kind(), ErrorKind::Io);
    server.world().free = 0;
    assert_eq!(error(&*sink).kind(), ErrorKind::NoSpace);
}

#[test]
fn metadata_that_the_server_refuses_becomes_a_warning() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let sink = sink(&server.session(1), &options());
    let a = file("a", b"hello");
    assert!(is_need(&answers(&*sink, &[&a])[0]));
    server.world().refused.push((10, ".haul-", PERMISSION_DENIED));
    assert!(committed(&write(&*sink, data_of(&a, 0, b"hello"))));
    assert!(!sink.finish().unwrap().notes.is_empty());
}

const LARGE: usize = 3 * SLICE_LEN as usize - 1000;

#[test]
fn a_large_file_is_renamed_with_its_last_slice() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let sink = sink(&server.session(1), &SinkOptions { verify_disk: true, ..options() });
    let bytes = bytes_of(LARGE);
    let large = file("large", &bytes);
    assert!(
        matches!(&answers(&*sink, &[&large])[..], [Ok(Answer::Need { changes: Changes::NEW, have })] if have.is_empty())
    );
    for index in [2, 0] {
        assert!(matches!(write(&*sink, data_of(&large, index, &bytes))[..], [Ok(Outcome::Stored)]));
        assert_eq!(server.world().data("/home/dst/large"), None);
    }
    assert!(committed(&write(&*sink, data_of(&large, 1, &bytes))));
    assert!(server.world().data("/home/dst/large") == Some(&bytes[..]));
    assert_eq!(server.world().names().len(), 4, "neither a staged file nor a journal is left");
}

#[test]
fn a_later_run_resumes_at_the_journal() {
    for verify_disk in [false, true] {
        let server = TestServer::default();
        server.world().put_dir("/home/dst");
        let bytes = bytes_of(LARGE);
        let large = file("large", &bytes);
        let options = SinkOptions { verify_disk, ..options() };
        let session = server.session(1);
        let first = sink(&session, &options);
        assert!(is_need(&answers(&*first, &[&large])[0]));
        assert!(matches!(write(&*first, data_of(&large, 1, &bytes))[..], [Ok(Outcome::Stored)]));
        // The journal is not waited for: another request on its connection comes after it.
        first.remove(&[path("none")]).unwrap();
        drop((first, session));
        let second = sink(&server.session(1), &options);
        let told = answers(&*second, &[&large]);
        assert!(
            matches!(&told[..], [Ok(Answer::Need { have, .. })] if have.len() == 1 && have[0] == (1..2)),
            "{told:?}"
        );
        for index in [0, 2] {
            assert!(write(&*second, data_of(&large, index, &bytes))[0].is_ok());
        }
        assert!(server.world().data("/home/dst/large") == Some(&bytes[..]));
    }
}

#[test]
fn reading_back_may_get_short_answers() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let bytes = bytes_of(LARGE);
    let (small, large) = (file("small", b"hello"), file("large", &bytes));
    let options = SinkOptions { verify_disk: true, ..options() };
    server.world().most = 70_000;
    let first = with_first_slice(&server, &options, &large, &bytes);
    server.world().most = 2;
    assert!(is_need(&answers(&*first, &[&small])[0]));
    assert!(committed(&write(&*first, data_of(&small, 0, b"hello"))));
    drop(first);
    let resumes = |most: usize, options: &SinkOptions| {
        server.world().most = most;
        let told = answers(&*sink(&server.session(1), options), &[&large]);
        matches!(&told[..], [Ok(Answer::Need { have, .. })] if have.len() == 1 && have[0] == (0..1))
    };
    // Shorter than a journal with one record.
    assert!(resumes(100, &SinkOptions { verify_disk: false, ..options.clone() }));
    assert!(resumes(70_000, &options));
}

#[test]
fn a_damaged_staged_file_is_written_from_the_start() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let bytes = bytes_of(LARGE);
    let large = file("large", &bytes);
    let options = SinkOptions { verify_disk: true, ..options() };
    drop(with_first_slice(&server, &options, &large, &bytes));
    server.world().corrupts = true;
    let second = sink(&server.session(1), &options);
    let told = answers(&*second, &[&large]);
    assert!(matches!(&told[..], [Ok(Answer::Need { have, .. })] if have.is_empty()), "{told:?}");
}

#[test]
fn a_large_file_whose_staged_file_is_taken_away_fails_with_a_hint() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let bytes = bytes_of(LARGE);
    let large = file("large", &bytes);
    let sink = with_first_slice(&server, &options(), &large, &bytes);
    server.world().nodes.retain(|name, _| !name.windows(6).any(|part| part == b".haul-"));
    let error = write(&*sink, data_of(&large, 1, &bytes)).pop().unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.hint().is_some());
}

#[test]
fn discarded_files_leave_nothing() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    let bytes = bytes_of(LARGE);
    let large = file("large", &bytes);
    let sink = with_first_slice(&server, &options(), &large, &bytes);
    sink.discard(&[path("large")]).unwrap();
    sink.finish().unwrap();
    assert_eq!(server.world().names().len(), 3, "{:?}", server.world().names());
}

#[test]
fn journals_are_written_and_closed_when_the_sink_ends_or_discards_the_file() {
    const OPEN: u8 = 3;
    const CLOSE: u8 = 4;
    for discards in [false, true] {
        let server = TestServer::default();
        server.world().put_dir("/home/dst");
        let bytes = bytes_of(LARGE);
        let large = file("large", &bytes);
        let sink = with_first_slice(&server, &options(), &large, &bytes);
        if discards {
            sink.discard(&[path("large")]).unwrap();
        } else {
            drop(sink);
        }
        let world = server.world();
        let count = |of: u8| world.log.iter().filter(|kind| **kind == of).count();
        assert_eq!((count(OPEN), count(CLOSE)), (3, 3), "the probe, the staged file and its journal");
        let journal = world.nodes.iter().find(|(name, _)| name.ends_with(b".journal"));
        let records = journal.map(|(_, node)| node.data.len().saturating_sub(HEADER_LEN) / RECORD_LEN);
        assert_eq!(records, if discards { None } else { Some(1) });
    }
}

#[test]
fn a_locked_directory_is_opened_for_its_owner() {
    let server = TestServer::default();
    server.world().put_dir("/home/dst");
    server.world().put_dir("/home/dst/d");
    let sink = sink(&server.session(1), &options());
    let a = file("d/a", b"hello");
    assert!(is_need(&answers(&*sink, &[&a])[0]));
    let mut world = server.world();
    world.nodes.get_mut(&b"/home/dst/d"[..]).unwrap().attrs.mode = Some(0o040_555);
    world.refused.push((3, "/home/dst/d", PERMISSION_DENIED));
    drop(world);
    let outcome = write(&*sink, data_of(&a, 0, b"hello")).pop().unwrap();
    assert_eq!(outcome.err().unwrap().kind(), ErrorKind::PermissionDenied);
    let mode = server.world().nodes[&b"/home/dst/d"[..]].attrs.mode;
    assert_eq!(mode, Some(0o040_755));
}

#[test]
fn a_batch_survives_a_cut_at_every_request() {
    for cut in 0..14 {
        let server = TestServer::default();
        server.world().put_dir("/home/dst");
        let sink = sink(&server.session(1), &options());
        let a = file("a", b"hello");
        assert!(is_need(&answers(&*sink, &[&a])[0]));
        server.world().cut_after = Some(cut);
        let done = (0..5).any(|_| committed(&write(&*sink, data_of(&a, 0, b"hello"))));
        assert!(done, "cut after {cut} requests");
        assert_eq!(server.world().data("/home/dst/a"), Some(&b"hello"[..]));
        sink.finish().unwrap();
    }
}

#[test]
fn a_root_that_takes_no_entry_is_refused_once_unless_something_in_it_may() {
    let refused = |prepare: &dyn Fn(&TestServer)| {
        let server = TestServer::default();
        server.world().put_dir("/home/dst");
        server.world().refused.push((3, "/home/dst/.haul-", PERMISSION_DENIED));
        prepare(&server);
        let sink = sink(&server.session(1), &options());
        let error = sink.offer(&[offer(&file("a", b"hello"))]).err();
        error.map(|error| (error.kind(), error.subject().to_vec()))
    };
    let denied = Some((ErrorKind::PermissionDenied, b"/home/dst".to_vec()));
    assert_eq!(refused(&|_| ()), denied);
    assert_eq!(refused(&|server| server.world().refused.clear()), None);
    assert_eq!(refused(&|server| server.world().put_dir("/home/dst/d")), None, "it may be writable");
    let set_mode = |server: &TestServer, mode: u32| {
        server.world().nodes.get_mut(&b"/home/dst"[..]).unwrap().attrs.mode = Some(mode);
    };
    assert_eq!(refused(&|server| set_mode(server, 0o040_555)), None, "its owner may unlock it");
    let of_another = |server: &TestServer| {
        set_mode(server, 0o040_555);
        server.world().refused.push((9, "/home/dst", PERMISSION_DENIED));
    };
    assert_eq!(refused(&of_another), denied);
}

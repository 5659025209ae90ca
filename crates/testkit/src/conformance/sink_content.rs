//! The promises of a sink for content: it is checked, complete before it has its name, and answered once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use haul_core::digest::slice_count;
use haul_core::{
    Batch, BatchData, BufferPool, Digest, Entry, Error, ErrorKind, Extent, Outcome, SLICE_LEN, Side, Slice,
    SliceData,
};

use super::bench::{TestBench, need, offer};
use super::case::{ConformanceCase, cases};
use super::content::{TIME, bytes, files_of, path, slice_of, slices, write, write_file, write_one};

/// Two slices and a bit.
const LARGE: usize = 2 * SLICE_LEN as usize + 777;

pub(super) const CASES: &[ConformanceCase] = cases![
    a_small_file_is_written,
    an_empty_file_is_written,
    a_batch_of_many_small_files_is_written,
    files_around_the_length_of_a_slice_are_written,
    slices_are_written_in_any_order,
    a_large_file_has_no_name_before_it_is_complete,
    the_old_file_stays_until_the_new_one_is_complete,
    a_slice_may_be_written_twice,
    a_small_file_may_be_written_again,
    wrong_content_is_refused if verifies,
    a_wrong_slice_may_be_sent_again if verifies,
    short_content_is_refused if verifies,
    a_slice_that_was_not_read_comes_back_with_its_error,
    an_empty_batch_is_answered,
    a_file_has_its_time,
    a_large_file_has_its_time,
    a_file_has_its_mode if modes,
    a_file_has_its_xattrs if xattrs,
    a_large_file_has_its_xattrs if xattrs,
    zeros_in_the_place_of_holes if sparse,
    holes_stay_holes if sparse,
    odd_names_are_written,
    invalid_utf8_is_written,
    many_threads_write,
    many_slices_in_few_buffers,
    each_write_is_answered_once,
    nothing_else_is_left,
    the_root_may_be_a_file if file_roots,
];

/// Writes a file of this length and compares.
fn written(bench: &TestBench, name: &str, len: usize) {
    let (sink, entry, content) = (bench.sink(), bench.file(name, len), bytes(name, len));
    assert_eq!(offer(&*sink, &entry), need(true));
    let outcome = write_file(&*sink, &bench.pool, &entry, &content);
    assert_eq!(outcome, Outcome::Committed(Some(Digest::of(&content))));
    assert!(bench.content(name) == content, "{name} of {len} bytes");
    sink.finish().unwrap();
}

fn a_small_file_is_written(bench: &TestBench) {
    bench.put_root();
    written(bench, "file", 1000);
}

fn an_empty_file_is_written(bench: &TestBench) {
    bench.put_root();
    written(bench, "empty", 0);
}

fn a_batch_of_many_small_files_is_written(bench: &TestBench) {
    bench.put_root();
    let files: Vec<_> = (0..200_usize)
        .map(|number| {
            let name = format!("dir{}/file{number}", number % 4);
            (bench.file(&name, number * 11), bytes(&name, number * 11))
        })
        .collect();
    let sink = bench.sink();
    for (entry, _) in &files {
        assert_eq!(offer(&*sink, entry), need(true));
    }
    let outcomes = write(&*sink, files_of(&bench.pool, &files));
    assert_eq!(outcomes.len(), files.len());
    for ((entry, content), outcome) in files.iter().zip(outcomes) {
        assert_eq!(outcome, Ok(Outcome::Committed(Some(Digest::of(content)))), "{}", entry.path);
        assert!(bench.content(entry.path.as_bytes()) == *content, "{}", entry.path);
    }
}

fn files_around_the_length_of_a_slice_are_written(bench: &TestBench) {
    bench.put_root();
    let one = SLICE_LEN as usize;
    written(bench, "less", one - 1);
    written(bench, "one", one);
    written(bench, "more", one + 1);
}

fn slices_are_written_in_any_order(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    assert_eq!(offer(&*sink, &entry), need(true));
    for index in [2, 0] {
        let outcome = write_one(&*sink, slice_of(&bench.pool, &entry, index, &content));
        assert_eq!(outcome, Ok(Outcome::Stored), "slice {index}");
    }
    let outcome = write_one(&*sink, slice_of(&bench.pool, &entry, 1, &content));
    assert_eq!(outcome, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
}

fn a_large_file_has_no_name_before_it_is_complete(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    for index in [0, 1] {
        write_one(&*sink, slice_of(&bench.pool, &entry, index, &content)).unwrap();
        assert!(bench.is_missing("large"), "after slice {index}");
    }
    write_one(&*sink, slice_of(&bench.pool, &entry, 2, &content)).unwrap();
    assert!(!bench.is_missing("large"));
}

fn the_old_file_stays_until_the_new_one_is_complete(bench: &TestBench) {
    bench.put_files(&[("large", 100)]);
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("new", LARGE));
    assert_eq!(offer(&*sink, &entry), need(false));
    for index in [0, 2] {
        write_one(&*sink, slice_of(&bench.pool, &entry, index, &content)).unwrap();
        assert_eq!(bench.content("large"), bytes("large", 100), "after slice {index}");
    }
    write_one(&*sink, slice_of(&bench.pool, &entry, 1, &content)).unwrap();
    assert!(bench.content("large") == content);
}

fn a_slice_may_be_written_twice(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    for index in [0, 0, 2, 0] {
        let outcome = write_one(&*sink, slice_of(&bench.pool, &entry, index, &content));
        assert_eq!(outcome, Ok(Outcome::Stored), "slice {index}");
    }
    let last = write_one(&*sink, slice_of(&bench.pool, &entry, 1, &content));
    assert_eq!(last, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
}

fn a_small_file_may_be_written_again(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("file", 1000), bytes("file", 1000));
    offer(&*sink, &entry).unwrap();
    let first = write_file(&*sink, &bench.pool, &entry, &content);
    let mut data = slice_of(&bench.pool, &entry, 0, &content);
    data.batch = Arc::new(Batch { again: true, ..(*data.batch).clone() });
    assert_eq!(write_one(&*sink, data), Ok(first));
    assert!(bench.content("file") == content);
}

fn damaged(mut data: BatchData) -> BatchData {
    data.content.bytes_mut()[17] ^= 4;
    data
}

fn wrong_content_is_refused(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    for (name, len) in [("small", 1000), ("large", LARGE)] {
        let (entry, content) = (bench.file(name, len), bytes(name, len));
        offer(&*sink, &entry).unwrap();
        let outcome = write_one(&*sink, damaged(slice_of(&bench.pool, &entry, 0, &content)));
        let kind = outcome.as_ref().err().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Corrupt), "{name} {outcome:?}");
        assert!(bench.is_missing(name));
    }
}

fn a_wrong_slice_may_be_sent_again(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    write_one(&*sink, slice_of(&bench.pool, &entry, 0, &content)).unwrap();
    assert!(write_one(&*sink, damaged(slice_of(&bench.pool, &entry, 1, &content))).is_err());
    write_one(&*sink, slice_of(&bench.pool, &entry, 2, &content)).unwrap();
    let last = write_one(&*sink, slice_of(&bench.pool, &entry, 1, &content));
    assert_eq!(last, Ok(Outcome::Committed(Some(Digest::of(&content)))));
    assert!(bench.content("large") == content);
}

fn short_content_is_refused(bench: &TestBench) {
    bench.put_root();
    let (sink, entry) = (bench.sink(), bench.file("file", 1000));
    offer(&*sink, &entry).unwrap();
    let mut data = slice_of(&bench.pool, &entry, 0, &bytes("file", 1000));
    data.content.truncate(999);
    assert!(write_one(&*sink, data).is_err());
    assert!(bench.is_missing("file"));
}

fn a_slice_that_was_not_read_comes_back_with_its_error(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    let files: Vec<_> = ["a", "b", "c"].map(|name| (bench.file(name, 100), bytes(name, 100))).to_vec();
    for (entry, _) in &files {
        offer(&*sink, entry).unwrap();
    }
    let error = Error::new(ErrorKind::SourceChanged, Side::Source, "read", "it changed").on("b");
    let mut data = files_of(&bench.pool, &[files[0].clone(), files[2].clone()]);
    data.batch = files_of(&bench.pool, &files).batch;
    data.slices.insert(1, Err(error.clone()));
    let outcomes = write(&*sink, data);
    assert_eq!(outcomes.len(), 3);
    assert_eq!(outcomes[1], Err(error));
    assert!(bench.is_missing("b"));
    for (at, name) in [(0, "a"), (2, "c")] {
        assert_eq!(outcomes[at], Ok(Outcome::Committed(Some(Digest::of(&bytes(name, 100))))), "{name}");
        assert_eq!(bench.content(name), bytes(name, 100));
    }
}

fn an_empty_batch_is_answered(bench: &TestBench) {
    bench.put_root();
    assert_eq!(write(&*bench.sink(), files_of(&bench.pool, &[])), []);
}

/// Writes an entry; the entry that is then behind the end.
fn kept(bench: &TestBench, entry: &Arc<Entry>) -> Entry {
    bench.put_root();
    let sink = bench.sink();
    offer(&*sink, entry).unwrap();
    write_file(&*sink, &bench.pool, entry, &bytes(entry.path.as_bytes(), entry.len as usize));
    sink.finish().unwrap();
    bench.there(entry.path.as_bytes())
}

fn a_file_has_its_time(bench: &TestBench) {
    let entry = Arc::new(Entry { mtime: bench.time(3), ..(*bench.file("file", 10)).clone() });
    assert_eq!(kept(bench, &entry).mtime, entry.mtime);
}

fn a_large_file_has_its_time(bench: &TestBench) {
    let entry = Arc::new(Entry { mtime: bench.time(3), ..(*bench.file("file", LARGE)).clone() });
    assert_eq!(kept(bench, &entry).mtime, entry.mtime);
}

fn a_file_has_its_mode(bench: &TestBench) {
    for mode in [0o640, 0o4755, 0o400] {
        let entry = Arc::new(Entry { mode, ..(*bench.file(format!("{mode:o}"), 10)).clone() });
        assert_eq!(kept(bench, &entry).mode, mode, "{mode:o}");
    }
}

fn a_file_has_its_xattrs(bench: &TestBench) {
    let entry = bench.with_xattr(&bench.file("file", 10));
    assert_eq!(kept(bench, &entry).xattrs, entry.xattrs);
}

fn a_large_file_has_its_xattrs(bench: &TestBench) {
    let entry = bench.with_xattr(&bench.file("file", LARGE));
    assert_eq!(kept(bench, &entry).xattrs, entry.xattrs);
}

/// A file of two slices, of which 64 KiB in the first one are data.
fn write_holes(bench: &TestBench) -> Vec<u8> {
    bench.put_root();
    let (from, len) = (1 << 20, 65536);
    let mut content = vec![0; 2 * SLICE_LEN as usize];
    content[from..from + len].copy_from_slice(&bytes("holes", len));
    let entry = Arc::new(Entry { allocated: len as u64, ..(*bench.file("holes", content.len())).clone() });
    let sink = bench.sink();
    offer(&*sink, &entry).unwrap();
    for index in 0..2 {
        let dense = slice_of(&bench.pool, &entry, index, &content);
        let value = dense.slices[0].as_ref().unwrap().value;
        let extents = if index == 0 { vec![Extent::data(from as u32, len as u32)] } else { Vec::new() };
        let mut buffer = bench.pool.take();
        if index == 0 {
            buffer.grow(len).unwrap().copy_from_slice(&content[from..from + len]);
        }
        let data = BatchData { slices: vec![Ok(SliceData { extents, value })], content: buffer, ..dense };
        write_one(&*sink, data).unwrap();
    }
    content
}

fn zeros_in_the_place_of_holes(bench: &TestBench) {
    let content = write_holes(bench);
    assert!(bench.content("holes") == content);
}

fn holes_stay_holes(bench: &TestBench) {
    write_holes(bench);
    let there = bench.there("holes");
    assert!(there.allocated < there.len / 8, "{} bytes are allocated", there.allocated);
}

fn odd_names_are_written(bench: &TestBench) {
    bench.put_root();
    let long = "n".repeat(255);
    for name in
        ["new\nline", "-rf", " ", "a b\t", "back\\slash", "...", "*?[x]", "%41&+#", "\u{e9}\u{4e2d}", &long]
    {
        written(bench, name, 100);
    }
}

fn invalid_utf8_is_written(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    for name in [&b"\xff\xfe"[..], b"half\xc3", b"\x01\x7f"] {
        let entry = bench.file(name, 100);
        assert_eq!(offer(&*sink, &entry), need(true));
        write_file(&*sink, &bench.pool, &entry, &bytes(name, 100));
        assert_eq!(bench.content(name), bytes(name, 100));
    }
    assert_eq!(bench.names().len(), 3);
}

fn many_threads_write(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    let (large, content) = (bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &large).unwrap();
    thread::scope(|scope| {
        for number in 0..6 {
            let (sink, bench, large, content) = (&*sink, &bench, &large, &content);
            scope.spawn(move || {
                for file in 0..6 {
                    let name = format!("dir{file}/file{number}");
                    let entry = bench.file(&name, 500 * file);
                    assert_eq!(offer(sink, &entry), need(true));
                    write_file(sink, &bench.pool, &entry, &bytes(&name, 500 * file));
                }
                if number < 3 {
                    write_one(sink, slice_of(&bench.pool, large, number, content)).unwrap();
                }
            });
        }
    });
    sink.finish().unwrap();
    for (number, file) in (0..6).flat_map(|number| (0..6).map(move |file| (number, file))) {
        let name = format!("dir{file}/file{number}");
        assert_eq!(bench.content(&name), bytes(&name, 500 * file), "{name}");
    }
    assert!(bench.content("large") == content);
}

fn many_slices_in_few_buffers(bench: &TestBench) {
    bench.put_root();
    let len = 9 * SLICE_LEN as usize;
    let (sink, entry, content) = (bench.sink(), bench.file("large", len), bytes("large", len));
    offer(&*sink, &entry).unwrap();
    // Two buffers: a sink that kept content after it answered would make the third slice wait for ever.
    let pool = BufferPool::new(0);
    for data in slices(&pool, &entry, &content) {
        write_one(&*sink, data).unwrap();
    }
    assert!(bench.content("large") == content);
}

fn each_write_is_answered_once(bench: &TestBench) {
    bench.put_root();
    let (sink, entry, content) = (bench.sink(), bench.file("large", LARGE), bytes("large", LARGE));
    offer(&*sink, &entry).unwrap();
    let answers = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = channel();
    for index in (0..slice_count(entry.len)).rev() {
        let (answers, sender) = (Arc::clone(&answers), sender.clone());
        let data = slice_of(&bench.pool, &entry, index, &content);
        let done = move |outcomes: Vec<_>| {
            answers.fetch_add(1, Ordering::Relaxed);
            let _ = sender.send(outcomes);
        };
        sink.write(data, Box::new(done));
    }
    // Every sender is gone when every callback was called or dropped.
    drop(sender);
    sink.flush();
    let mut outcomes = Vec::new();
    while let Ok(more) = receiver.recv_timeout(TIME) {
        assert_eq!(more.len(), 1);
        outcomes.extend(more);
    }
    assert_eq!((answers.load(Ordering::Relaxed), outcomes.len()), (3, 3));
    let committed = Ok(Outcome::Committed(Some(Digest::of(&content))));
    assert!(outcomes.iter().all(Result::is_ok) && outcomes.contains(&committed), "{outcomes:?}");
}

fn nothing_else_is_left(bench: &TestBench) {
    bench.put_root();
    written(bench, "small", 100);
    written(bench, "large", LARGE);
    assert_eq!(bench.names(), ["large", "small"].map(path));
    let slice = Slice::whole(0, 0);
    assert_eq!(slice.start(), 0);
}

fn the_root_may_be_a_file(bench: &TestBench) {
    let (sink, entry, content) = (bench.sink(), bench.file("", 1000), bytes("", 1000));
    assert_eq!(offer(&*sink, &entry), need(true));
    write_file(&*sink, &bench.pool, &entry, &content);
    sink.finish().unwrap();
    assert_eq!(bench.content(""), content);
}

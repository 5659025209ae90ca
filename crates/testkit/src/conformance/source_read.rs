//! The promises of a source for content: slices, proofs and digests.

use std::sync::Arc;
use std::thread;

use haul_core::buffer::BUFFER_LEN;
use haul_core::digest::{merge, part_count, slice_count};
use haul_core::{
    Batch, Digest, Entry, EntryKind, ErrorKind, FileTree, PageHashes, SLICE_LEN, Slice, SliceData,
};

use super::bench::TestBench;
use super::case::{ConformanceCase, cases};
use super::content::{batch_of, bytes, part, path, prove, read_all, read_slice};

/// Two slices and a bit.
const LARGE: usize = 2 * SLICE_LEN as usize + 777;

pub(super) const CASES: &[ConformanceCase] = cases![
    small_files_are_read_in_the_order_of_the_batch,
    an_empty_file_has_one_empty_slice,
    files_of_exactly_one_slice_and_one_byte_more,
    slices_are_read_in_any_order,
    slices_prove_the_digest_of_the_file,
    parts_prove_their_slice,
    holes_are_not_read if sparse,
    a_hole_at_the_end_is_proved if sparse,
    a_missing_file_fails_alone,
    a_file_that_grew_has_changed,
    a_file_that_shrank_has_changed,
    a_file_with_another_time_has_changed,
    a_replaced_file_has_changed if inodes,
    a_directory_in_the_place_of_a_file_fails,
    a_symlink_in_the_place_of_a_file_is_not_followed if symlinks,
    a_slice_beyond_the_end_has_no_content,
    a_file_read_twice_is_the_same,
    odd_names_are_read,
    read_changed_without_pages_is_read,
    digests_are_those_of_the_files,
    a_digest_of_a_missing_file_fails_alone,
    many_threads_read,
    reading_gives_its_buffers_back,
];

fn small_files_are_read_in_the_order_of_the_batch(bench: &TestBench) {
    let names: Vec<String> = (0..60).map(|number| format!("dir{}/file{number}", number % 3)).collect();
    let files: Vec<(&str, usize)> =
        names.iter().map(String::as_str).zip(names.iter().enumerate().map(|(at, _)| at * 37)).collect();
    bench.put_files(&files);
    let source = bench.source();
    let entries: Vec<Arc<Entry>> = names.iter().rev().map(|name| bench.seen(&*source, name)).collect();
    let slices = (0..60).map(|entry| Slice::whole(entry, 0)).collect();
    let batch = Arc::new(Batch { entries, slices, again: false });
    let data = source.read(&batch).unwrap();
    assert_eq!(data.slices.len(), 60);
    let expected: Vec<u8> = files.iter().rev().flat_map(|(name, len)| bytes(name, *len)).collect();
    assert!(data.content.bytes() == expected, "the content follows the slices");
    for ((entry, slice), read) in batch.iter().zip(data.slices) {
        let content = bytes(entry.path.as_bytes(), entry.len as usize);
        assert!(read.unwrap().proves(entry, slice, &content), "{}", entry.path);
    }
}

fn an_empty_file_has_one_empty_slice(bench: &TestBench) {
    bench.put_files(&[("empty", 0)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "empty");
    let (read, content) = read_slice(&*source, &entry, Slice::whole(0, 0)).unwrap();
    assert_eq!((read.data_len(), content.len()), (0, 0));
    assert_eq!(read.value.0, Digest::of(b"").0);
}

fn files_of_exactly_one_slice_and_one_byte_more(bench: &TestBench) {
    let one = SLICE_LEN as usize;
    bench.put_files(&[("one", one), ("more", one + 1), ("less", one - 1)]);
    let source = bench.source();
    for (name, len) in [("one", one), ("more", one + 1), ("less", one - 1)] {
        let entry = bench.seen(&*source, name);
        assert!(read_all(&*source, &entry) == bytes(name, len), "{name}");
    }
}

fn slices_are_read_in_any_order(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let (source, content) = (bench.source(), bytes("large", LARGE));
    let entry = bench.seen(&*source, "large");
    for index in [2, 0, 1, 0] {
        let slice = Slice::whole(0, index);
        let (read, found) = read_slice(&*source, &entry, slice).unwrap();
        let expected = part(&entry, slice, &content);
        assert!(found == expected, "slice {index}");
        assert_eq!(read.value, prove(&entry, slice, expected).value, "slice {index}");
    }
}

fn slices_prove_the_digest_of_the_file(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "large");
    let mut tree = FileTree::new(entry.len);
    for index in (0..slice_count(entry.len)).rev() {
        tree.set(index, read_slice(&*source, &entry, Slice::whole(0, index)).unwrap().0.value);
    }
    assert_eq!(tree.digest(), Some(Digest::of(&bytes("large", LARGE))));
}

/// Only of a source that says that it reads parts.
fn parts_prove_their_slice(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let source = bench.source();
    if !source.caps().parts {
        return;
    }
    let entry = bench.seen(&*source, "large");
    let content = bytes("large", LARGE);
    for index in [2, 0] {
        let mut values = Vec::new();
        for number in 0..part_count(entry.len, index) {
            let slice = Slice { part: Some(number), ..Slice::whole(0, index) };
            let (read, found) = read_slice(&*source, &entry, slice).unwrap();
            assert!(found == part(&entry, slice, &content), "part {number} of slice {index}");
            values.push(read.value);
        }
        let whole = Slice::whole(0, index);
        assert_eq!(merge(&values), Some(prove(&entry, whole, part(&entry, whole, &content)).value));
    }
}

/// A file of three slices: data in the first one alone.
fn with_holes(bench: &TestBench) -> Vec<u8> {
    let mut content = vec![0; 3 * SLICE_LEN as usize];
    content[65536..131_072].copy_from_slice(&bytes("holes", 65536));
    bench.put_root();
    let entry = Entry { allocated: 65536, ..(*bench.file("holes", content.len())).clone() };
    bench.world().put(&entry, &content);
    content
}

fn holes_are_not_read(bench: &TestBench) {
    let content = with_holes(bench);
    let source = bench.source();
    let entry = bench.seen(&*source, "holes");
    let data = source.read(&batch_of(&entry, [Slice::whole(0, 0)])).unwrap();
    let read = data.slices[0].as_ref().unwrap();
    assert!(read.data_len() >= 65536 && read.data_len() < SLICE_LEN / 2, "{read:?}");
    let (_, found) = read_slice(&*source, &entry, Slice::whole(0, 0)).unwrap();
    assert!(found == content[..SLICE_LEN as usize]);
}

fn a_hole_at_the_end_is_proved(bench: &TestBench) {
    let content = with_holes(bench);
    let source = bench.source();
    let entry = bench.seen(&*source, "holes");
    let mut tree = FileTree::new(entry.len);
    for index in 0..3 {
        let (read, _) = read_slice(&*source, &entry, Slice::whole(0, index)).unwrap();
        assert!(index == 0 || read.data_len() == 0, "slice {index} is a hole");
        tree.set(index, read.value);
    }
    assert_eq!(tree.digest(), Some(Digest::of(&content)));
}

/// Reads a batch of `good` and of `changed`, which was looked up before; only the second may fail.
fn fails(bench: &TestBench, change: impl FnOnce(&Entry)) -> ErrorKind {
    bench.put_files(&[("good", 100), ("changed", 200)]);
    let source = bench.source();
    let entries = vec![bench.seen(&*source, "changed"), bench.seen(&*source, "good")];
    change(&entries[0]);
    // Some ends cache their lookups for one run; only a source that is opened later sees the change.
    let batch = Batch { entries, slices: vec![Slice::whole(0, 0), Slice::whole(1, 0)], again: false };
    let data = bench.source().read(&Arc::new(batch)).unwrap();
    let good: &SliceData = data.slices[1].as_ref().expect("the other file is read");
    assert!(data.content.bytes() == bytes("good", 100), "what failed leaves no bytes behind: {good:?}");
    data.slices[0].as_ref().expect_err("the changed file fails").kind()
}

fn a_missing_file_fails_alone(bench: &TestBench) {
    let kind = fails(bench, |_| bench.world().remove(&path("changed")));
    assert!(matches!(kind, ErrorKind::NotFound | ErrorKind::SourceChanged), "{kind:?}");
}

fn a_file_that_grew_has_changed(bench: &TestBench) {
    let kind = fails(bench, |_| bench.put(&bench.file("changed", 300)));
    assert_eq!(kind, ErrorKind::SourceChanged);
}

fn a_file_that_shrank_has_changed(bench: &TestBench) {
    let kind = fails(bench, |_| bench.put(&bench.file("changed", 10)));
    assert_eq!(kind, ErrorKind::SourceChanged);
}

fn a_file_with_another_time_has_changed(bench: &TestBench) {
    let mtime = bench.time(1);
    let kind = fails(bench, |_| bench.put(&Entry { mtime, ..(*bench.file("changed", 200)).clone() }));
    assert_eq!(kind, ErrorKind::SourceChanged);
}

fn a_replaced_file_has_changed(bench: &TestBench) {
    let kind = fails(bench, |_| {
        // The old inode stays in use, so that the new file has another one.
        bench.world().link(&path("kept"), &path("changed"));
        bench.world().remove(&path("changed"));
        bench.world().put(&bench.file("changed", 200), &bytes("other", 200));
    });
    assert_eq!(kind, ErrorKind::SourceChanged);
}

fn a_directory_in_the_place_of_a_file_fails(bench: &TestBench) {
    let kind = fails(bench, |_| {
        bench.world().remove(&path("changed"));
        bench.put(&bench.dir("changed"));
    });
    // Whether that is a change or a read that fails is left to the end.
    assert!(matches!(kind, ErrorKind::SourceChanged | ErrorKind::Io | ErrorKind::NotFound), "{kind:?}");
}

fn a_symlink_in_the_place_of_a_file_is_not_followed(bench: &TestBench) {
    let kind = fails(bench, |_| {
        bench.world().remove(&path("changed"));
        bench.put(&bench.symlink("changed", "good"));
    });
    assert_eq!(kind, ErrorKind::SourceChanged);
}

fn a_slice_beyond_the_end_has_no_content(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "large");
    assert_eq!(entry.kind, EntryKind::File);
    for index in [3, 1000] {
        if let Ok(data) = source.read(&batch_of(&entry, [Slice::whole(0, index)])) {
            assert_eq!(data.content.bytes().len(), 0, "slice {index}");
        }
    }
    assert!(read_slice(&*source, &entry, Slice::whole(0, 2)).is_ok(), "the source goes on");
}

fn a_file_read_twice_is_the_same(bench: &TestBench) {
    bench.put_files(&[("file", 30_000)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "file");
    let first = read_slice(&*source, &entry, Slice::whole(0, 0)).unwrap();
    assert!(first == read_slice(&*source, &entry, Slice::whole(0, 0)).unwrap());
    assert!(first.1 == bytes("file", 30_000));
}

fn odd_names_are_read(bench: &TestBench) {
    bench.put_root();
    let long = "n".repeat(255);
    let names = [&b"new\nline"[..], b"\xff\xfe", b" ", b"back\\slash", long.as_bytes(), b"dir /-x"];
    names.iter().for_each(|name| bench.put(&bench.file(name, 1000)));
    let source = bench.source();
    for name in names {
        assert!(read_all(&*source, &bench.seen(&*source, name)) == bytes(name, 1000), "{}", path(name));
    }
}

fn read_changed_without_pages_is_read(bench: &TestBench) {
    bench.put_files(&[("large", LARGE)]);
    let source = bench.source();
    let batch = batch_of(&bench.seen(&*source, "large"), [Slice::whole(0, 1)]);
    let (plain, changed) =
        (source.read(&batch).unwrap(), source.read_changed(&batch, &PageHashes::default()).unwrap());
    assert_eq!(plain.slices, changed.slices);
    assert!(plain.content.bytes() == changed.content.bytes());
}

fn digests_are_those_of_the_files(bench: &TestBench) {
    let files = [("empty", 0), ("small", 1000), ("large", LARGE)];
    bench.put_files(&files);
    let digests = bench.source().digest(&files.map(|(name, _)| path(name))).unwrap();
    for ((name, len), digest) in files.into_iter().zip(digests) {
        assert_eq!(digest, Ok(Digest::of(&bytes(name, len))), "{name}");
    }
}

fn a_digest_of_a_missing_file_fails_alone(bench: &TestBench) {
    bench.put_files(&[("small", 1000)]);
    let digests = bench.source().digest(&["gone", "small"].map(path)).unwrap();
    assert_eq!(digests[0].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(digests[1], Ok(Digest::of(&bytes("small", 1000))));
}

fn many_threads_read(bench: &TestBench) {
    bench.put_files(&[("large", LARGE), ("small", 1000)]);
    let source = bench.source();
    let (large, small) = (bench.seen(&*source, "large"), bench.seen(&*source, "small"));
    let (content, few) = (bytes("large", LARGE), bytes("small", 1000));
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (source, large, small, content, few) = (&*source, &large, &small, &content, &few);
            scope.spawn(move || {
                for round in 0..3 {
                    let slice = Slice::whole(0, (number + round) % 3);
                    let (_, found) = read_slice(source, large, slice).unwrap();
                    assert!(found == part(large, slice, content));
                    assert!(read_slice(source, small, Slice::whole(0, 0)).unwrap().1 == *few);
                }
            });
        }
    });
}

/// Each read holds one buffer, and dropping its data gives that back: else this would wait for ever, as the ends are
/// opened with pools of a few dozen.
fn reading_gives_its_buffers_back(bench: &TestBench) {
    bench.put_files(&[("file", 10)]);
    let source = bench.source();
    let entry = bench.seen(&*source, "file");
    let rounds = (64 << 20) / BUFFER_LEN * 8;
    for _ in 0..rounds {
        drop(source.read(&batch_of(&entry, [Slice::whole(0, 0)])).unwrap());
    }
}

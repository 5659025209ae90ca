//! The answers to offers that a sink promises, under each option.

use std::sync::Arc;

use haul_core::digest::MAX_FILE_LEN;
use haul_core::{
    Answer, Changes, Compare, Digest, Entry, EntryKind, ErrorKind, Offer, Preserve, RelPath, Result,
    SinkOptions, SkipReason,
};

use super::bench::{TestBench, need, offer};
use super::case::{ConformanceCase, cases};
use super::content::{bytes, path, slice_of, write_file, write_one};

pub(super) const CASES: &[ConformanceCase] = cases![
    a_missing_file_is_needed,
    a_file_that_was_written_is_the_same,
    another_size_is_needed,
    another_time_is_needed,
    another_mode_is_set if modes,
    another_mode_is_set_on_a_file_of_some_slices if modes,
    another_xattr_is_set if xattrs,
    metadata_that_is_not_preserved_stays if modes,
    times_that_are_not_preserved_are_not_set,
    times_of_directories_and_links_may_be_left_out,
    existing_skips_missing_entries,
    existing_compares_only_files_that_exist,
    existing_replaces_an_empty_directory_however_often_it_is_asked if empty_dirs,
    ignore_existing_skips_files,
    ignore_existing_creates_missing_entries,
    update_skips_newer_files,
    update_takes_older_files,
    size_only_takes_no_notice_of_times,
    ignore_times_needs_entries_that_are_the_same,
    a_checksum_that_matches_beats_the_time,
    a_checksum_that_differs_beats_the_time,
    a_time_in_the_modify_window_is_the_same,
    a_dry_run_changes_nothing,
    a_dry_run_answers_as_a_real_run,
    a_directory_is_made_once if dir_times,
    missing_parents_are_made,
    a_symlink_is_made if symlinks,
    a_symlink_with_another_target_is_replaced if symlinks,
    a_fifo_is_made if fifos,
    a_directory_replaces_a_file,
    a_file_replaces_an_empty_directory if empty_dirs,
    a_file_replaces_a_symlink_and_not_its_target if symlinks,
    a_symlink_replaces_a_file if symlinks,
    a_directory_that_is_not_empty_is_not_replaced,
    answers_come_in_the_order_of_the_offers,
    no_offers_have_no_answers,
    an_offer_may_be_repeated,
    an_entry_that_no_file_system_can_have_is_refused,
];

fn options(set: impl FnOnce(&mut SinkOptions)) -> SinkOptions {
    let mut options = SinkOptions::default();
    set(&mut options);
    options
}

/// Offers `entry` to a sink that has `there`, which was written through a sink, so that it holds all that this end
/// keeps.
fn after(bench: &TestBench, there: &Entry, options: &SinkOptions, entry: &Arc<Entry>) -> Result<Answer> {
    bench.put_root();
    bench.put(there);
    offer(&*bench.sink_with(options), entry)
}

fn later(bench: &TestBench, entry: &Entry, number: i64) -> Arc<Entry> {
    Arc::new(Entry { mtime: bench.time(number), ..entry.clone() })
}

fn a_missing_file_is_needed(bench: &TestBench) {
    bench.put_root();
    assert_eq!(offer(&*bench.sink(), &bench.file("file", 5)), need(true));
}

fn a_file_that_was_written_is_the_same(bench: &TestBench) {
    bench.put_root();
    let entry = bench.file("file", 500);
    let sink = bench.sink();
    assert_eq!(offer(&*sink, &entry), need(true));
    write_file(&*sink, &bench.pool, &entry, &bytes("file", 500));
    sink.finish().unwrap();
    drop(sink);
    assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Same));
}

fn another_size_is_needed(bench: &TestBench) {
    let there = bench.file("file", 5);
    assert_eq!(after(bench, &there, &SinkOptions::default(), &bench.file("file", 6)), need(false));
}

fn another_time_is_needed(bench: &TestBench) {
    let there = bench.file("file", 5);
    let entry = later(bench, &there, 1);
    assert_eq!(after(bench, &there, &SinkOptions::default(), &entry), need(false));
}

fn sets_the_mode(bench: &TestBench, len: usize) {
    let there = bench.file("file", len);
    let entry = Arc::new(Entry { mode: 0o600, ..(*there).clone() });
    assert_eq!(after(bench, &there, &SinkOptions::default(), &entry), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!((bench.there("file").mode, bench.there("file").mtime), (0o600, there.mtime));
    assert!(bench.content("file") == bytes("file", len), "the content stays");
}

fn another_mode_is_set(bench: &TestBench) {
    sets_the_mode(bench, 5);
}

fn another_mode_is_set_on_a_file_of_some_slices(bench: &TestBench) {
    sets_the_mode(bench, 5_000_000);
}

fn another_xattr_is_set(bench: &TestBench) {
    let there = bench.file("file", 5);
    let entry = bench.with_xattr(&there);
    assert_eq!(after(bench, &there, &SinkOptions::default(), &entry), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!(bench.there("file").xattrs, entry.xattrs);
}

fn metadata_that_is_not_preserved_stays(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| {
        options.preserve =
            Preserve { owner: false, group: false, perms: false, xattrs: false, ..Preserve::default() };
    });
    let other = Entry { mode: 0o600, uid: there.uid + 1, gid: there.gid + 1, ..(*there).clone() };
    let other = if bench.keeps.xattrs { bench.with_xattr(&other) } else { Arc::new(other) };
    let before = {
        bench.put_root();
        bench.put(&there);
        bench.there("file")
    };
    assert_eq!(offer(&*bench.sink_with(&options), &other), Ok(Answer::Same));
    let now = bench.there("file");
    assert_eq!((now.mode, now.uid, now.gid), (before.mode, before.uid, before.gid));
    assert_eq!((now.mtime, now.xattrs), (before.mtime, before.xattrs));
}

fn times_that_are_not_preserved_are_not_set(bench: &TestBench) {
    bench.put_root();
    let without_times =
        options(|options| options.preserve = Preserve { times: false, ..Preserve::default() });
    let entry = bench.file("file", 500);
    let sink = bench.sink_with(&without_times);
    assert_eq!(offer(&*sink, &entry), need(true));
    write_file(&*sink, &bench.pool, &entry, &bytes("file", 500));
    sink.finish().unwrap();
    drop(sink);
    assert_eq!(bench.content("file"), bytes("file", 500));
    assert_ne!(bench.there("file").mtime.sec, entry.mtime.sec);
    assert_eq!(offer(&*bench.sink_with(&without_times), &entry), need(false), "times are compared");
    let by_size = SinkOptions { compare: Compare::SizeOnly, ..without_times };
    assert_eq!(offer(&*bench.sink_with(&by_size), &entry), Ok(Answer::Same));
}

fn times_of_directories_and_links_may_be_left_out(bench: &TestBench) {
    bench.put_root();
    let left_out = options(|options| {
        options.preserve = Preserve { dir_times: false, link_times: false, ..Preserve::default() };
    });
    let mut entries = vec![bench.dir("dir")];
    if bench.keeps.symlinks {
        entries.push(bench.symlink("link", "dir"));
    }
    for entry in entries {
        let sink = bench.sink_with(&left_out);
        assert_eq!(offer(&*sink, &entry), Ok(Answer::Made(Changes::NEW)), "{}", entry.path);
        sink.finish().unwrap();
        drop(sink);
        assert_ne!(bench.there(entry.path.as_bytes()).mtime.sec, entry.mtime.sec, "{}", entry.path);
        assert_eq!(offer(&*bench.sink_with(&left_out), &entry), Ok(Answer::Same), "{}", entry.path);
    }
}

fn existing_skips_missing_entries(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink_with(&options(|options| options.existing = true));
    let mut entries = vec![bench.file("file", 5), bench.dir("dir")];
    if bench.keeps.symlinks {
        entries.push(bench.symlink("link", "file"));
    }
    for entry in entries {
        assert_eq!(offer(&*sink, &entry), Ok(Answer::Left(SkipReason::Missing)), "{}", entry.path);
    }
    sink.finish().unwrap();
    assert_eq!(bench.names(), []);
}

fn existing_compares_only_files_that_exist(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| options.existing = true);
    assert_eq!(after(bench, &there, &options, &there), Ok(Answer::Same));
    assert_eq!(after(bench, &there, &options, &bench.file("file", 6)), need(false));
}

fn existing_replaces_an_empty_directory_however_often_it_is_asked(bench: &TestBench) {
    bench.put_root();
    bench.put(&bench.dir("entry"));
    let sink = bench.sink_with(&options(|options| options.existing = true));
    let entry = bench.file("entry", 5);
    for _ in 0..2 {
        assert!(matches!(offer(&*sink, &entry), Ok(Answer::Need { .. })));
    }
}

fn ignore_existing_skips_files(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| options.ignore_existing = true);
    let exists = Ok(Answer::Left(SkipReason::Exists));
    assert_eq!(after(bench, &there, &options, &bench.file("file", 6)), exists);
    assert_eq!(after(bench, &there, &options, &bench.dir("file")), exists, "a directory is offered");
    assert_eq!(bench.content("file"), bytes("file", 5));
}

fn ignore_existing_creates_missing_entries(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink_with(&options(|options| options.ignore_existing = true));
    assert_eq!(offer(&*sink, &bench.file("file", 5)), need(true));
    assert_eq!(offer(&*sink, &bench.dir("dir")), Ok(Answer::Made(Changes::NEW)));
}

fn update_skips_newer_files(bench: &TestBench) {
    let entry = bench.file("file", 5);
    let options = options(|options| options.update = true);
    let newer = Ok(Answer::Left(SkipReason::Newer));
    assert_eq!(after(bench, &later(bench, &entry, 1), &options, &entry), newer);
    let longer = bench.file("file", 6);
    assert_eq!(after(bench, &later(bench, &entry, 1), &options, &longer), newer, "with another size too");
}

fn update_takes_older_files(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| options.update = true);
    assert_eq!(after(bench, &there, &options, &later(bench, &there, 1)), need(false));
    assert_eq!(after(bench, &there, &options, &there), Ok(Answer::Same));
}

fn size_only_takes_no_notice_of_times(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| options.compare = Compare::SizeOnly);
    let entry = later(bench, &there, 1);
    assert_eq!(after(bench, &there, &options, &entry), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!(bench.there("file").mtime, entry.mtime, "the time is set");
    assert_eq!(after(bench, &there, &options, &bench.file("file", 6)), need(false));
}

fn by_checksum(bench: &TestBench, entry: &Arc<Entry>, content: &[u8]) -> Result<Answer> {
    let sink = bench.sink_with(&options(|options| options.compare = Compare::Checksum));
    let digest = Some(Digest::of(content));
    sink.offer(&[Offer { entry: Arc::clone(entry), digest }]).unwrap().remove(0)
}

fn ignore_times_needs_entries_that_are_the_same(bench: &TestBench) {
    let there = bench.file("file", 5);
    let options = options(|options| options.compare = Compare::Nothing);
    assert_eq!(after(bench, &there, &options, &there), need(false));
    let sink = bench.sink_with(&options);
    write_file(&*sink, &bench.pool, &there, b"12345");
    sink.finish().unwrap();
    assert_eq!(bench.content("file"), b"12345");
}

fn a_checksum_that_matches_beats_the_time(bench: &TestBench) {
    bench.put_root();
    let there = bench.file("file", 500);
    bench.put(&there);
    assert_eq!(by_checksum(bench, &there, &bytes("file", 500)), Ok(Answer::Same));
    let entry = later(bench, &there, 1);
    assert_eq!(by_checksum(bench, &entry, &bytes("file", 500)), Ok(Answer::Updated(Changes::NONE)));
    assert_eq!(bench.there("file").mtime, entry.mtime);
}

fn a_checksum_that_differs_beats_the_time(bench: &TestBench) {
    bench.put_root();
    let there = bench.file("file", 500);
    bench.put(&there);
    assert_eq!(by_checksum(bench, &there, &bytes("other", 500)), need(false));
}

fn a_time_in_the_modify_window_is_the_same(bench: &TestBench) {
    let there = bench.file("file", 5);
    let near = |seconds| {
        let mtime = haul_core::Timestamp { sec: there.mtime.sec + seconds, ..there.mtime };
        Arc::new(Entry { mtime, ..(*there).clone() })
    };
    let options = options(|options| options.modify_window = Some(2));
    let answer = after(bench, &there, &options, &near(2));
    assert!(matches!(answer, Ok(Answer::Same | Answer::Updated(Changes::NONE))), "{answer:?}");
    assert_eq!(after(bench, &there, &options, &near(3)), need(false));
}

/// Entries of all kinds that the end keeps, none of which is there.
fn some_entries(bench: &TestBench) -> Vec<Arc<Entry>> {
    let mut entries = vec![bench.dir("new"), bench.dir("new/deep"), bench.file("new/file", 9)];
    if bench.keeps.symlinks {
        entries.push(bench.symlink("new/link", "file"));
    }
    if bench.keeps.fifos {
        entries.push(Arc::new(bench.entry("new/pipe", EntryKind::Fifo, 0)));
    }
    entries
}

fn a_dry_run_changes_nothing(bench: &TestBench) {
    let there = bench.file("file", 5);
    bench.put_root();
    bench.put(&there);
    let sink = bench.sink_with(&options(|options| options.dry_run = true));
    for entry in some_entries(bench) {
        offer(&*sink, &entry).unwrap();
    }
    let mode = Arc::new(Entry { mode: 0o600, ..(*there).clone() });
    offer(&*sink, &mode).unwrap();
    sink.finish().unwrap();
    assert_eq!(bench.names(), [path("file")]);
    assert!(!bench.keeps.modes || bench.there("file").mode == there.mode);
    bench.world().remove(&RelPath::root());
    let sink = bench.sink_with(&options(|options| options.dry_run = true));
    offer(&*sink, &bench.dir("")).unwrap();
    offer(&*sink, &there).unwrap();
    sink.finish().unwrap();
    assert_eq!(bench.names(), [], "a root that is missing is not made");
}

fn a_dry_run_answers_as_a_real_run(bench: &TestBench) {
    bench.put_files(&[("same", 5), ("size", 5), ("time", 5)]);
    let mut entries =
        vec![bench.file("same", 5), bench.file("size", 6), later(bench, &bench.file("time", 5), 1)];
    entries.extend(some_entries(bench));
    let answers = |dry_run: bool| {
        let sink = bench.sink_with(&options(|options| options.dry_run = dry_run));
        entries.iter().map(|entry| offer(&*sink, entry)).collect::<Vec<_>>()
    };
    let dry = answers(true);
    assert_eq!(dry, answers(false));
}

fn a_directory_is_made_once(bench: &TestBench) {
    bench.put_root();
    let dir = bench.dir("dir");
    let sink = bench.sink();
    assert_eq!(offer(&*sink, &dir), Ok(Answer::Made(Changes::NEW)));
    assert!(bench.there("dir").is_dir());
    sink.finish().unwrap();
    drop(sink);
    let sink = bench.sink();
    let again = offer(&*sink, &dir);
    assert!(matches!(again, Ok(Answer::Same)), "{again:?}");
}

fn missing_parents_are_made(bench: &TestBench) {
    let sink = bench.sink();
    let entry = bench.file("a/b/c/file", 5);
    assert_eq!(offer(&*sink, &entry), need(true));
    write_file(&*sink, &bench.pool, &entry, &bytes("x", 5));
    sink.finish().unwrap();
    assert_eq!(bench.names(), ["a", "a/b", "a/b/c", "a/b/c/file"].map(path));
}

fn a_symlink_is_made(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    for (name, to) in [("one", "nowhere"), ("two", "/etc/passwd"), ("three", "..")] {
        let entry = bench.symlink(name, to);
        assert_eq!(offer(&*sink, &entry), Ok(Answer::Made(Changes::NEW)), "{name}");
        assert_eq!(bench.there(name).kind, entry.kind);
        assert!(!bench.keeps.symlink_times || bench.there(name).mtime == entry.mtime, "its time is set");
        assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Same), "{name}");
    }
}

fn a_symlink_with_another_target_is_replaced(bench: &TestBench) {
    bench.put_root();
    bench.put(&bench.symlink("link", "old"));
    let entry = bench.symlink("link", "new");
    assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Made(Changes::NONE)));
    assert_eq!(bench.there("link").kind, entry.kind);
}

fn a_fifo_is_made(bench: &TestBench) {
    bench.put_root();
    let entry = Arc::new(bench.entry("pipe", EntryKind::Fifo, 0));
    assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Made(Changes::NEW)));
    assert_eq!(bench.there("pipe").kind, EntryKind::Fifo);
    assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Same));
}

fn a_directory_replaces_a_file(bench: &TestBench) {
    bench.put_files(&[("name", 5)]);
    assert_eq!(offer(&*bench.sink(), &bench.dir("name")), Ok(Answer::Made(Changes::NONE)));
    assert!(bench.there("name").is_dir());
}

fn a_file_replaces_an_empty_directory(bench: &TestBench) {
    bench.put_root();
    bench.put(&bench.dir("name"));
    let (sink, entry) = (bench.sink(), bench.file("name", 5));
    let answer = offer(&*sink, &entry);
    assert!(matches!(answer, Ok(Answer::Need { .. })), "{answer:?}");
    write_file(&*sink, &bench.pool, &entry, &bytes("name", 5));
    assert_eq!(bench.content("name"), bytes("name", 5));
}

fn a_file_replaces_a_symlink_and_not_its_target(bench: &TestBench) {
    bench.put_files(&[("target", 9)]);
    bench.put(&bench.symlink("name", "target"));
    let (sink, entry) = (bench.sink(), bench.file("name", 5));
    assert_eq!(offer(&*sink, &entry), need(false));
    write_file(&*sink, &bench.pool, &entry, &bytes("name", 5));
    assert!(bench.there("name").is_file());
    assert_eq!(bench.content("target"), bytes("target", 9));
}

fn a_symlink_replaces_a_file(bench: &TestBench) {
    bench.put_files(&[("name", 9)]);
    let entry = bench.symlink("name", "target");
    assert_eq!(offer(&*bench.sink(), &entry), Ok(Answer::Made(Changes::NONE)));
    assert_eq!(bench.there("name").kind, entry.kind);
}

fn a_directory_that_is_not_empty_is_not_replaced(bench: &TestBench) {
    bench.put_files(&[("name/inside", 9)]);
    let mut entries = vec![bench.file("name", 5), bench.file("name", 5_000_000)];
    if bench.keeps.symlinks {
        entries.push(bench.symlink("name", "inside"));
    }
    for entry in entries {
        let error = offer(&*bench.sink(), &entry).expect_err("it is not empty");
        assert_eq!(error.kind(), ErrorKind::NotEmpty, "{error}");
    }
    assert_eq!(bench.content("name/inside"), bytes("name/inside", 9));
}

fn answers_come_in_the_order_of_the_offers(bench: &TestBench) {
    bench.put_root();
    (0..300).step_by(3).for_each(|number| bench.put(&bench.file(format!("f{number}"), number)));
    let entries = (0..300).map(|number| bench.file(format!("f{number}"), number));
    let offers: Vec<Offer> = entries.map(|entry| Offer { entry, digest: None }).collect();
    let answers = bench.sink().offer(&offers).unwrap();
    assert_eq!(answers.len(), offers.len());
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if number % 3 == 0 { Ok(Answer::Same) } else { need(true) }, "{number}");
    }
}

fn no_offers_have_no_answers(bench: &TestBench) {
    bench.put_root();
    assert_eq!(bench.sink().offer(&[]).unwrap(), []);
}

fn an_offer_may_be_repeated(bench: &TestBench) {
    bench.put_root();
    let sink = bench.sink();
    let entry = bench.file("file", 500);
    assert_eq!(offer(&*sink, &entry), need(true));
    assert_eq!(offer(&*sink, &entry), need(true));
    write_file(&*sink, &bench.pool, &entry, &bytes("file", 500));
    assert_eq!(bench.content("file"), bytes("file", 500));
}

fn an_entry_that_no_file_system_can_have_is_refused(bench: &TestBench) {
    bench.put_root();
    let good = bench.file("file", 5);
    let odd = haul_core::Timestamp { sec: 0, nsec: 1_000_000_000 };
    for bad in [
        Entry { uid: u32::MAX, ..(*good).clone() },
        Entry { mtime: odd, ..(*good).clone() },
        Entry { mode: 0o100_644, ..(*good).clone() },
        Entry { path: path(".haul-0123456789abcdef.part"), ..(*good).clone() },
    ] {
        let (sink, bad) = (bench.sink(), Arc::new(bad));
        let answer = offer(&*sink, &bad);
        let kind = answer.as_ref().err().map(haul_core::Error::kind);
        assert_eq!(kind, Some(ErrorKind::Unsupported), "{bad:?} {answer:?}");
        let outcome = write_one(&*sink, slice_of(&bench.pool, &bad, 0, &bytes("file", 5)));
        let kind = outcome.as_ref().err().map(haul_core::Error::kind);
        assert_eq!(kind, Some(ErrorKind::Unsupported), "{bad:?} {outcome:?}");
    }
    let endless = Arc::new(Entry { len: MAX_FILE_LEN + 1, ..(*good).clone() });
    let kind = offer(&*bench.sink(), &endless).err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::Unsupported));
    assert_eq!(bench.names(), []);
}

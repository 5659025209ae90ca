//! The promises of a sink for names without content: hard links, removals, and directories at the end of a run.

use std::sync::Arc;

use haul_core::{Answer, Changes, Entry, ErrorKind, HardLink, RelPath, Result, Sink, SinkOptions};

use super::bench::{TestBench, offer};
use super::case::{ConformanceCase, cases};
use super::content::{bytes, path, write_file};

pub(super) const CASES: &[ConformanceCase] = cases![
    a_further_name_is_made if hard_links,
    a_further_name_replaces_another_file if hard_links,
    a_further_name_that_is_there_is_the_same if hard_links,
    a_further_name_of_a_missing_file_fails,
    files_and_symlinks_are_removed,
    directories_are_removed_after_their_entries if empty_dirs,
    a_missing_name_counts_as_removed,
    a_directory_that_is_not_empty_stays,
    a_directory_stays_with_the_entries_that_stay_in_it,
    a_symlink_to_a_directory_is_removed_and_not_followed if symlinks,
    a_dry_run_removes_nothing,
    odd_names_are_removed,
    finish_sets_the_times_of_directories if dir_times,
    finish_sets_the_modes_of_directories if dir_times if modes,
    finish_of_an_unused_sink,
    a_dry_run_finishes,
];

fn link_one(sink: &dyn Sink, entry: &Arc<Entry>, to: &str) -> Result<Answer> {
    let link = HardLink { entry: Arc::clone(entry), to: path(to) };
    let mut answers = sink.link(&[link]).unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// A file that this run has written, and the sink that did.
fn first_name(bench: &TestBench) -> Arc<dyn Sink> {
    let (sink, entry) = (bench.sink(), bench.file("first", 100));
    offer(&*sink, &entry).unwrap();
    write_file(&*sink, &bench.pool, &entry, &bytes("first", 100));
    sink
}

fn assert_one_file(bench: &TestBench, name: &str) {
    assert_eq!(bench.there(name).ino, bench.there("first").ino, "{name} is a name of the file");
    assert_eq!(bench.content(name), bytes("first", 100));
}

fn a_further_name_is_made(bench: &TestBench) {
    bench.put_root();
    let sink = first_name(bench);
    assert_eq!(link_one(&*sink, &bench.file("second", 100), "first"), Ok(Answer::Made(Changes::NEW)));
    assert_eq!(link_one(&*sink, &bench.file("dir/third", 100), "first"), Ok(Answer::Made(Changes::NEW)));
    assert_one_file(bench, "second");
    assert_one_file(bench, "dir/third");
    assert_eq!(bench.there("first").nlink, 3);
}

fn a_further_name_replaces_another_file(bench: &TestBench) {
    bench.put_files(&[("second", 50)]);
    let sink = first_name(bench);
    let answer = link_one(&*sink, &bench.file("second", 100), "first");
    assert_eq!(answer, Ok(Answer::Made(Changes::NONE)));
    assert_one_file(bench, "second");
}

fn a_further_name_that_is_there_is_the_same(bench: &TestBench) {
    bench.put_root();
    let sink = first_name(bench);
    let entry = bench.file("second", 100);
    assert_eq!(link_one(&*sink, &entry, "first"), Ok(Answer::Made(Changes::NEW)));
    assert_eq!(link_one(&*sink, &entry, "first"), Ok(Answer::Same));
    assert_one_file(bench, "second");
}

fn a_further_name_of_a_missing_file_fails(bench: &TestBench) {
    bench.put_root();
    let error = link_one(&*bench.sink(), &bench.file("second", 100), "gone").expect_err("there is no file");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(bench.is_missing("second"));
}

fn remove(sink: &dyn Sink, names: &[&str]) -> Vec<Option<ErrorKind>> {
    let paths: Vec<RelPath> = names.iter().map(path).collect();
    let gone = sink.remove(&paths).unwrap();
    assert_eq!(gone.len(), names.len());
    gone.into_iter().map(|gone| gone.err().map(|error| error.kind())).collect()
}

fn files_and_symlinks_are_removed(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b", 1), ("dir/c", 1)]);
    let mut names = vec!["a", "dir/c"];
    if bench.keeps.symlinks {
        bench.put(&bench.symlink("link", "b"));
        names.push("link");
    }
    let gone = remove(&*bench.sink(), &names);
    assert!(gone.iter().all(Option::is_none), "{gone:?}");
    assert!(bench.is_missing("a") && bench.is_missing("dir/c") && bench.is_missing("link"));
    assert_eq!(bench.content("b"), bytes("b", 1));
}

fn directories_are_removed_after_their_entries(bench: &TestBench) {
    bench.put_files(&[("dir/deep/file", 1), ("keep", 1)]);
    bench.put(&bench.dir("empty"));
    let gone = remove(&*bench.sink(), &["dir/deep/file", "dir/deep", "dir", "empty"]);
    assert_eq!(gone, [None; 4]);
    assert_eq!(bench.names(), [path("keep")]);
}

fn a_missing_name_counts_as_removed(bench: &TestBench) {
    bench.put_files(&[("keep", 1)]);
    assert_eq!(remove(&*bench.sink(), &["gone", "gone/deep", "keep/below"]), [None; 3]);
    assert_eq!(bench.names(), [path("keep")]);
}

fn a_directory_that_is_not_empty_stays(bench: &TestBench) {
    bench.put_files(&[("dir/file", 1), ("other", 1)]);
    assert_eq!(remove(&*bench.sink(), &["dir", "other"]), [Some(ErrorKind::NotEmpty), None]);
    assert_eq!(bench.names(), ["dir", "dir/file"].map(path));
}

fn a_directory_stays_with_the_entries_that_stay_in_it(bench: &TestBench) {
    bench.put_files(&[("dir/deep/file", 1), ("dir/other", 1)]);
    let full = Some(ErrorKind::NotEmpty);
    assert_eq!(remove(&*bench.sink(), &["dir/other", "dir/deep", "dir"]), [None, full, full]);
    assert_eq!(bench.names(), ["dir", "dir/deep", "dir/deep/file"].map(path));
}

fn a_symlink_to_a_directory_is_removed_and_not_followed(bench: &TestBench) {
    bench.put_files(&[("dir/file", 1)]);
    bench.put(&bench.symlink("link", "dir"));
    assert_eq!(remove(&*bench.sink(), &["link/file", "link"]).last(), Some(&None));
    assert_eq!(bench.names(), ["dir", "dir/file"].map(path), "nothing is removed through a link");
}

fn a_dry_run_removes_nothing(bench: &TestBench) {
    bench.put_files(&[("dir/file", 1), ("other", 1)]);
    let sink = bench.sink_with(&SinkOptions { dry_run: true, ..SinkOptions::default() });
    assert_eq!(remove(&*sink, &["dir/file", "other", "gone"]), [None; 3]);
    assert_eq!(bench.names(), ["dir", "dir/file", "other"].map(path));
}

fn odd_names_are_removed(bench: &TestBench) {
    let names = ["new\nline", "-rf", " ", "back\\slash", "*", "?", "%41"];
    bench.put_root();
    bench.put(&bench.file("keep", 1));
    names.iter().for_each(|name| bench.put(&bench.file(name, 1)));
    assert_eq!(remove(&*bench.sink(), &names), [None; 7]);
    assert_eq!(bench.names(), [path("keep")]);
}

fn finish_sets_the_times_of_directories(bench: &TestBench) {
    bench.put_root();
    let dirs = ["dir", "dir/deep"].map(|name| {
        let mtime = bench.time(2);
        Arc::new(Entry { mtime, ..(*bench.dir(name)).clone() })
    });
    let sink = bench.sink();
    dirs.iter().for_each(|dir| drop(offer(&*sink, dir).unwrap()));
    for name in ["dir/deep/file", "dir/file"] {
        let entry = bench.file(name, 10);
        offer(&*sink, &entry).unwrap();
        write_file(&*sink, &bench.pool, &entry, &bytes(name, 10));
    }
    sink.finish().unwrap();
    for dir in dirs {
        assert_eq!(bench.there(dir.path.as_bytes()).mtime, dir.mtime, "{}", dir.path);
    }
}

fn finish_sets_the_modes_of_directories(bench: &TestBench) {
    bench.put_root();
    let dir = Arc::new(Entry { mode: 0o555, ..(*bench.dir("dir")).clone() });
    let (sink, entry) = (bench.sink(), bench.file("dir/file", 10));
    offer(&*sink, &dir).unwrap();
    offer(&*sink, &entry).unwrap();
    write_file(&*sink, &bench.pool, &entry, &bytes("dir/file", 10));
    sink.finish().unwrap();
    assert_eq!(bench.there("dir").mode, 0o555, "though a file was written into it");
}

fn finish_of_an_unused_sink(bench: &TestBench) {
    bench.put_root();
    assert_eq!(bench.sink().finish().unwrap().notes, []);
    assert_eq!(bench.names(), []);
}

fn a_dry_run_finishes(bench: &TestBench) {
    let sink = bench.sink_with(&SinkOptions { dry_run: true, ..SinkOptions::default() });
    offer(&*sink, &bench.dir("dir")).unwrap();
    sink.finish().unwrap();
    assert_eq!(bench.names(), []);
}

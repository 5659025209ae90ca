//! Tests of walking a tree.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use haul_core::staging::{PART, staging_name};
use haul_core::sync::Mutex;
use haul_core::{ErrorKind, Side};

use super::*;
use crate::path::place::RootEntry;
use crate::path::root::Root;

fn tree(dir: &Path, is_network_fs: bool) -> LocalTree {
    LocalTree::on(Root::new(RootEntry::new(dir, b"."), Side::Source, Arc::default()), is_network_fs)
}

#[derive(Default, Debug, PartialEq)]
struct WalkResult {
    paths: BTreeSet<String>,
    errors: Vec<(String, ErrorKind)>,
    excluded: u64,
}

fn found(tree: &LocalTree, options: &ScanOptions) -> WalkResult {
    let found = Mutex::new(WalkResult::default());
    let text = |path: &RelPath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
    let visit = |batch: ScanBatch| {
        let mut found = found.lock();
        for entry in &batch.entries {
            assert!(found.paths.insert(text(&entry.path)), "{:?} twice", entry.path);
        }
        found.errors.extend(batch.errors.iter().map(|one| (text(&one.path), one.error.kind())));
        found.excluded += batch.excluded;
        ControlFlow::Continue(())
    };
    walk(tree, &ThreadPool::growing(2, 4), None, options, &visit).unwrap();
    found.into_inner()
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

#[test]
fn every_entry_is_found_once_on_local_and_network_file_systems() {
    let dir = tempfile::tempdir().unwrap();
    let mut wanted = BTreeSet::from([String::new()]);
    for directory in ["a", "a/b", "a/b/c", "d"] {
        fs::create_dir(dir.path().join(directory)).unwrap();
        wanted.insert(directory.to_owned());
        for file in 0..NAMES + 3 {
            let file = format!("{directory}/{file}");
            fs::write(dir.path().join(&file), "").unwrap();
            wanted.insert(file);
        }
    }
    let staged = String::from_utf8(staging_name(b"x", PART)).unwrap();
    fs::write(dir.path().join("d").join(staged), "").unwrap();
    for is_network_fs in [false, true] {
        let found = found(&tree(dir.path(), is_network_fs), &ScanOptions::default());
        assert_eq!(found, WalkResult { paths: wanted.clone(), errors: Vec::new(), excluded: 1 });
    }
}

#[test]
fn starts_are_walked_with_their_ancestors() {
    let dir = tempfile::tempdir().unwrap();
    for directory in ["a/b/c", "a/x", "d"] {
        fs::create_dir_all(dir.path().join(directory)).unwrap();
    }
    let starts = vec![path("a/b"), path("missing")];
    let found = found(&tree(dir.path(), false), &ScanOptions { starts, ..ScanOptions::default() });
    let paths: Vec<_> = found.paths.iter().map(String::as_str).collect();
    assert_eq!(paths, ["", "a", "a/b", "a/b/c"]);
    assert_eq!(found.errors, [("missing".to_owned(), ErrorKind::NotFound)]);
}

#[test]
fn a_visitor_stops_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    for directory in 0..20 {
        fs::create_dir(dir.path().join(directory.to_string())).unwrap();
    }
    let batches = Mutex::new(0);
    let visit = |_: ScanBatch| {
        *batches.lock() += 1;
        ControlFlow::Break(())
    };
    let tree = tree(dir.path(), false);
    walk(&tree, &ThreadPool::fixed(1), None, &ScanOptions::default(), &visit).unwrap();
    assert_eq!(batches.into_inner(), 1);
}

#[test]
fn other_file_systems_are_not_entered_if_the_options_say_so() {
    // The root directory and /proc are on different file systems.
    for one_file_system in [false, true] {
        let starts = vec![path("dev")];
        let options = ScanOptions { starts, one_file_system, ..ScanOptions::default() };
        let found = found(&tree(Path::new("/"), false), &options);
        assert!(found.paths.contains("dev/null"));
        if Path::new("/dev/pts/ptmx").exists() {
            assert_eq!(found.paths.contains("dev/pts/ptmx"), !one_file_system);
        }
    }
}

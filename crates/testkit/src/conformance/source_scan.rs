//! The promises of a source for its root, for scans and for lookups.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use haul_core::filter::{MergeRule, Prefixes, Rule, RuleFormat, RuleItem, Rules};
use haul_core::{Entry, EntryKind, ErrorKind, RelPath, ScanOptions};

use super::bench::TestBench;
use super::case::{ConformanceCase, cases};
use super::content::{path, scan};

pub(super) const CASES: &[ConformanceCase] = cases![
    the_root_is_a_directory if empty_dirs,
    the_root_is_a_file if file_roots,
    a_missing_root_is_none,
    a_scan_of_a_missing_root_names_it,
    a_scan_of_an_empty_directory_finds_only_the_root if empty_dirs,
    a_scan_reports_each_entry_once,
    a_scan_reports_every_directory_on_the_way,
    a_scan_reports_kinds_and_lengths,
    a_scan_reports_file_times,
    a_scan_reports_directory_times if dir_times,
    a_scan_reports_modes if modes,
    a_scan_reports_xattrs if xattrs,
    a_scan_reports_symlinks_and_does_not_follow_them if symlinks,
    a_scan_reports_fifos if fifos,
    a_scan_reports_names_of_one_file_by_inode if hard_links,
    a_scan_reports_sparse_files if sparse,
    a_scan_reports_odd_names,
    a_scan_reports_names_of_255_bytes,
    a_scan_reports_invalid_utf8,
    a_scan_reports_deep_trees,
    a_scan_reports_many_entries,
    a_scan_expects_about_as_many_entries_as_there_are,
    two_scans_agree,
    break_ends_a_scan,
    a_rule_excludes_a_directory_with_all_below_it,
    the_first_matching_rule_decides,
    excluded_paths_are_reported_on_request,
    directories_bring_their_own_rules,
    a_scan_ends_at_its_depth,
    sizes_limit_a_scan,
    ages_limit_a_scan,
    a_scan_begins_at_its_starts,
    a_missing_start_is_named,
    a_lookup_answers_in_order,
    a_lookup_of_the_root,
    a_lookup_agrees_with_the_scan,
    a_lookup_below_a_file_is_none,
    holds_agrees_with_lookup,
];

fn the_root_is_a_directory(bench: &TestBench) {
    bench.put_root();
    let root = bench.source().root().unwrap().expect("there is a root");
    assert!(root.is_dir() && root.path.is_root(), "{root:?}");
}

fn the_root_is_a_file(bench: &TestBench) {
    bench.put(&bench.file("", 12));
    let source = bench.source();
    let root = source.root().unwrap().expect("there is a root");
    assert!(root.is_file() && root.len == 12 && root.path.is_root(), "{root:?}");
    let found = scan(&*source, &ScanOptions::default()).whole();
    assert_eq!(found.paths(), [RelPath::root()]);
}

fn a_missing_root_is_none(bench: &TestBench) {
    assert_eq!(bench.source().root().unwrap(), None);
}

fn a_scan_of_a_missing_root_names_it(bench: &TestBench) {
    let found = scan(&*bench.source(), &ScanOptions::default());
    let mut kinds: Vec<ErrorKind> = found.all.errors.iter().map(|failure| failure.error.kind()).collect();
    kinds.extend(found.result.err().map(|error| error.kind()));
    assert_eq!(kinds, [ErrorKind::NotFound]);
    assert_eq!(found.all.entries, []);
}

fn a_scan_of_an_empty_directory_finds_only_the_root(bench: &TestBench) {
    bench.put_root();
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.paths(), [RelPath::root()]);
}

fn a_scan_reports_each_entry_once(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2), ("b/d", 3), ("b/e/f", 0), ("g", 9)]);
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.below(), ["a", "b", "b/c", "b/d", "b/e", "b/e/f", "g"].map(path));
}

fn a_scan_reports_every_directory_on_the_way(bench: &TestBench) {
    bench.put_files(&[("x/y/z/file", 3)]);
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    for dir in ["x", "x/y", "x/y/z"] {
        assert!(found.entry(dir).is_dir(), "{dir}");
    }
}

fn a_scan_reports_kinds_and_lengths(bench: &TestBench) {
    bench.put_files(&[("empty", 0), ("one", 1), ("block", 4096), ("large", 5_000_000)]);
    bench.put(&bench.dir("dir"));
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    for (name, len) in [("empty", 0), ("one", 1), ("block", 4096), ("large", 5_000_000)] {
        let entry = found.entry(name);
        assert!(entry.is_file() && entry.len == len, "{entry:?}");
    }
    assert!(found.entry("dir").is_dir() && found.entry("dir").len == 0);
}

fn a_scan_reports_file_times(bench: &TestBench) {
    bench.put_root();
    for number in 1..4 {
        let mtime = bench.time(number);
        bench.put(&Entry { mtime, ..(*bench.file(format!("file{number}"), 5)).clone() });
    }
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    for number in 1..4 {
        assert_eq!(found.entry(&format!("file{number}")).mtime, bench.time(number));
    }
}

fn a_scan_reports_directory_times(bench: &TestBench) {
    bench.put_root();
    let mtime = bench.time(5);
    bench.put(&Entry { mtime, ..(*bench.dir("dir")).clone() });
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.entry("dir").mtime, mtime);
}

fn a_scan_reports_modes(bench: &TestBench) {
    bench.put_root();
    for mode in [0o600, 0o755, 0o4711] {
        bench.put(&Entry { mode, ..(*bench.file(format!("{mode:o}"), 1)).clone() });
    }
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    for mode in [0o600, 0o755, 0o4711] {
        assert_eq!(found.entry(&format!("{mode:o}")).mode, mode);
    }
}

fn a_scan_reports_xattrs(bench: &TestBench) {
    bench.put_root();
    let entry = bench.with_xattr(&bench.file("file", 1));
    bench.put(&entry);
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.entry("file").xattrs, entry.xattrs);
}

fn a_scan_reports_symlinks_and_does_not_follow_them(bench: &TestBench) {
    bench.put_files(&[("dir/file", 1)]);
    for (name, to) in [("dangling", "nowhere"), ("absolute", "/etc"), ("inside", "dir")] {
        bench.put(&bench.symlink(name, to));
    }
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.below().len(), 5);
    for (name, to) in [("dangling", "nowhere"), ("absolute", "/etc"), ("inside", "dir")] {
        assert_eq!(found.entry(name).kind, EntryKind::Symlink(to.into()));
    }
}

fn a_scan_reports_fifos(bench: &TestBench) {
    bench.put_root();
    bench.put(&bench.entry("pipe", EntryKind::Fifo, 0));
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.entry("pipe").kind, EntryKind::Fifo);
}

fn a_scan_reports_names_of_one_file_by_inode(bench: &TestBench) {
    bench.put_files(&[("one", 10), ("alone", 10)]);
    bench.world().link(&path("two"), &path("one"));
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    let inode = |name: &str| (found.entry(name).dev, found.entry(name).ino);
    assert_eq!((inode("one"), found.entry("one").nlink), (inode("two"), 2));
    assert_ne!(inode("alone"), inode("one"));
    assert_eq!(found.entry("alone").nlink, 1);
}

fn a_scan_reports_sparse_files(bench: &TestBench) {
    bench.put_root();
    let entry = Entry { allocated: 0, ..(*bench.file("holes", 1 << 20)).clone() };
    bench.world().put(&entry, &vec![0; 1 << 20]);
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert!(found.entry("holes").is_sparse(), "{:?}", found.entry("holes"));
}

fn a_scan_reports_odd_names(bench: &TestBench) {
    bench.put_root();
    let names = [
        &b"new\nline"[..],
        b"-rf",
        b" ",
        b"a b\t",
        b"back\\slash",
        b"...",
        b"*?[x]",
        b"%41&+#",
        "\u{e9}\u{4e2d}".as_bytes(),
        b"dir ",
    ];
    for name in names {
        bench.put(&bench.file(name, 3));
    }
    let mut expected = names.map(path);
    expected.sort();
    let source = bench.source();
    assert_eq!(scan(&*source, &ScanOptions::default()).whole().below(), expected);
    for found in source.lookup(&expected).unwrap() {
        assert!(found.unwrap().is_some());
    }
}

fn a_scan_reports_names_of_255_bytes(bench: &TestBench) {
    bench.put_root();
    let name = "n".repeat(255);
    bench.put(&bench.file(&name, 3));
    assert_eq!(scan(&*bench.source(), &ScanOptions::default()).whole().below(), [path(name)]);
}

fn a_scan_reports_invalid_utf8(bench: &TestBench) {
    bench.put_root();
    let names = [&b"\xff\xfe"[..], b"half\xc3", b"\x01\x7f"];
    for name in names {
        bench.put(&bench.file(name, 3));
    }
    let mut expected = names.map(path);
    expected.sort();
    assert_eq!(scan(&*bench.source(), &ScanOptions::default()).whole().below(), expected);
}

fn a_scan_reports_deep_trees(bench: &TestBench) {
    let deep = "d/".repeat(60) + "file";
    bench.put_files(&[(&deep, 1)]);
    let found = scan(&*bench.source(), &ScanOptions::default()).whole();
    assert_eq!(found.below().len(), 61);
    assert!(found.entry(&deep).is_file());
}

fn a_scan_reports_many_entries(bench: &TestBench) {
    bench.put_root();
    let expected: Vec<RelPath> = (0..1200).map(|number| path(format!("file{number:05}"))).collect();
    for name in &expected {
        bench.put(&bench.file(name.as_bytes(), 0));
    }
    assert!(scan(&*bench.source(), &ScanOptions::default()).whole().below() == expected);
}

fn a_scan_expects_about_as_many_entries_as_there_are(bench: &TestBench) {
    bench.put_root();
    for number in 0..1200 {
        bench.put(&bench.file(format!("dir{}/file{number}", number / 100), 0));
    }
    let (found, expected) = (AtomicUsize::new(0), AtomicU64::new(0));
    let result = bench.source().scan(&ScanOptions::default(), &|batch| {
        let count = batch.entries.len();
        let before = found.fetch_add(count, Ordering::Relaxed);
        let all = (before + count) as u64 + batch.expected.unwrap_or(0);
        expected.fetch_max(all, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let (found, expected) = (found.into_inner() as u64, expected.into_inner());
    // A sum may count entries twice: other threads of the scan may have reported the entries that this one expects.
    assert!(result.is_ok() && expected <= found * 2, "{result:?} {found} {expected}");
}

fn two_scans_agree(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2)]);
    let source = bench.source();
    let scanned = || {
        let mut entries = scan(&*source, &ScanOptions::default()).whole().all.entries;
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        // Reading a directory may set its time of access.
        entries.into_iter().map(|entry| (entry.path.clone(), entry.identity())).collect::<Vec<_>>()
    };
    assert_eq!(scanned(), scanned());
}

fn break_ends_a_scan(bench: &TestBench) {
    let names: Vec<String> = (0..2000).map(|number| format!("dir{}/file{number}", number % 40)).collect();
    bench.put_root();
    names.iter().take(400).for_each(|name| bench.put(&bench.file(name, 0)));
    let visits = AtomicUsize::new(0);
    let result = bench.source().scan(&ScanOptions::default(), &|_| {
        visits.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    // Other threads of the scan may be about to visit.
    assert!(result.is_ok() && visits.load(Ordering::Relaxed) <= 64, "{result:?} {visits:?}");
}

fn a_rule_excludes_a_directory_with_all_below_it(bench: &TestBench) {
    bench.put_files(&[("keep/file", 1), ("tmp/one", 1), ("tmp/two", 1), ("keep/tmp", 1)]);
    let options = ScanOptions { rules: vec![Rule::exclude("/tmp")].into(), ..ScanOptions::default() };
    let found = scan(&*bench.source(), &options).whole();
    assert_eq!(found.below(), ["keep", "keep/file", "keep/tmp"].map(path));
    assert_eq!(found.all.excluded, 1, "what is below is not counted");
    assert_eq!(found.all.left_out, []);
}

fn the_first_matching_rule_decides(bench: &TestBench) {
    bench.put_files(&[("a.c", 1), ("a.o", 1), ("dir/b.c", 1), ("dir/b.o", 1)]);
    let rules = vec![Rule::include("*.c"), Rule::include("*/"), Rule::exclude("*")];
    let options = ScanOptions { rules: rules.into(), ..ScanOptions::default() };
    let found = scan(&*bench.source(), &options).whole();
    assert_eq!(found.below(), ["a.c", "dir", "dir/b.c"].map(path));
    assert_eq!(found.all.excluded, 2);
}

fn a_scan_ends_at_its_depth(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2), ("b/d/e", 3), ("b/d/f/g", 0), ("h/i", 9)]);
    let source = bench.source();
    let at = |depth| {
        let options = ScanOptions { max_depth: Some(depth), ..ScanOptions::default() };
        scan(&*source, &options).whole().below()
    };
    assert_eq!(at(0), []);
    assert_eq!(at(1), ["a", "b", "h"].map(path));
    assert_eq!(at(2), ["a", "b", "b/c", "b/d", "h", "h/i"].map(path));
    assert_eq!(at(9), scan(&*source, &ScanOptions::default()).whole().below());
}

fn excluded_paths_are_reported_on_request(bench: &TestBench) {
    bench.put_files(&[("a.c", 1), ("a.o", 1), ("dir/b.o", 1)]);
    let rules = vec![Rule::exclude("*.o")];
    let options = ScanOptions { rules: rules.into(), tells_left_out: true, ..ScanOptions::default() };
    let left_out = scan(&*bench.source(), &options).whole().all.left_out;
    let mut excluded: Vec<RelPath> = left_out.into_iter().map(|left| left.path).collect();
    excluded.sort();
    assert_eq!(excluded, ["a.o", "dir/b.o"].map(path));
}

/// A rule of a run that names a file of rules.
fn merging(file: &str) -> Rules {
    let format = RuleFormat::new(Prefixes::Rules);
    let merge = MergeRule { file: file.into(), format, is_private: false, excludes_itself: false, tag: None };
    Rules { items: vec![RuleItem::DirMerge(merge)], ..Rules::default() }
}

fn directories_bring_their_own_rules(bench: &TestBench) {
    bench.put_root();
    for (name, text) in [("dir/.f", "- *.o\n- /x\n"), ("dir/sub/.f", "+ keep.o\n"), ("bad/.g", "nonsense\n")]
    {
        bench.world().put(&bench.file(name, text.len()), text.as_bytes());
    }
    bench.put_files(&[("a.o", 1), ("dir/b.o", 1), ("dir/x", 1), ("dir/sub/x", 1), ("dir/sub/keep.o", 1)]);
    bench.put_files(&[("dir/sub/deep/c.o", 1), ("dir/sub/deep/keep.o", 1)]);
    let options = ScanOptions { rules: merging(".f"), ..ScanOptions::default() };
    let source = bench.source();
    let below = |options: &ScanOptions| scan(&*source, options).whole().below();
    let in_sub =
        ["dir/sub", "dir/sub/.f", "dir/sub/deep", "dir/sub/deep/keep.o", "dir/sub/keep.o", "dir/sub/x"];
    let above = ["a.o", "bad", "bad/.g", "dir", "dir/.f"];
    assert_eq!(below(&options), [&above[..], &in_sub].concat().into_iter().map(path).collect::<Vec<_>>());
    // A scan that begins below inherits them too.
    let starts = vec![path("dir/sub")];
    let found = below(&ScanOptions { starts, ..options.clone() });
    assert_eq!(found, [&["dir"], &in_sub[..]].concat().into_iter().map(path).collect::<Vec<_>>());
    let error = source.scan(&ScanOptions { rules: merging(".g"), ..options }, &|_| ControlFlow::Continue(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Usage);
}

fn sizes_limit_a_scan(bench: &TestBench) {
    bench.put_files(&[("s0", 0), ("s10", 10), ("s20", 20), ("s30", 30), ("dir/s5", 5)]);
    let options = ScanOptions { min_size: Some(10), max_size: Some(20), ..ScanOptions::default() };
    let found = scan(&*bench.source(), &options).whole();
    assert_eq!(found.below(), ["dir", "s10", "s20"].map(path));
    assert_eq!(found.all.excluded, 3);
}

fn ages_limit_a_scan(bench: &TestBench) {
    bench.put_root();
    for (number, name) in ["a", "b", "c", "d", "dir/e"].into_iter().enumerate() {
        let file = bench.file(name, 3);
        bench.put(&Entry { mtime: bench.time(number as i64), ..(*file).clone() });
    }
    let options = ScanOptions {
        modified_from: Some(bench.time(1)),
        modified_until: Some(bench.time(2)),
        ..ScanOptions::default()
    };
    let found = scan(&*bench.source(), &options).whole();
    assert_eq!(found.below(), ["b", "c", "dir"].map(path));
    assert_eq!(found.all.excluded, 3);
}

fn a_scan_begins_at_its_starts(bench: &TestBench) {
    bench.put_files(&[("a/b/one", 1), ("a/b/two", 1), ("a/c/three", 1), ("d/four", 1), ("five", 1)]);
    let starts = ["a/b", "five"].map(path).to_vec();
    let found = scan(&*bench.source(), &ScanOptions { starts, ..ScanOptions::default() }).whole();
    assert_eq!(found.below(), ["a", "a/b", "a/b/one", "a/b/two", "five"].map(path));
}

fn a_missing_start_is_named(bench: &TestBench) {
    bench.put_files(&[("a/one", 1)]);
    let starts = ["a", "gone", "a/gone"].map(path).to_vec();
    let found = scan(&*bench.source(), &ScanOptions { starts, ..ScanOptions::default() });
    found.result.as_ref().expect("the scan goes on");
    let mut missing: Vec<_> =
        found.all.errors.iter().map(|failure| (failure.path.clone(), failure.error.kind())).collect();
    missing.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(missing, ["a/gone", "gone"].map(|name| (path(name), ErrorKind::NotFound)));
    assert_eq!(found.below(), ["a", "a/one"].map(path));
}

fn a_lookup_answers_in_order(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2)]);
    let source = bench.source();
    let asked = ["b/c", "gone", "a", "b", "b/gone", "gone/deep", "a"].map(path);
    let found = source.lookup(&asked).unwrap();
    let lens: Vec<Option<u64>> =
        found.into_iter().map(|found| found.unwrap().map(|entry| entry.len)).collect();
    assert_eq!(lens, [Some(2), None, Some(1), Some(0), None, None, Some(1)]);
    assert_eq!(source.lookup(&[]).unwrap().len(), 0);
}

fn a_lookup_of_the_root(bench: &TestBench) {
    bench.put_files(&[("a", 1)]);
    let source = bench.source();
    let root = source.lookup(&[RelPath::root()]).unwrap().remove(0).unwrap().expect("there is a root");
    assert!(root.is_dir() && root.path.is_root(), "{root:?}");
}

fn a_lookup_agrees_with_the_scan(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2), ("b/d", 4_500_000)]);
    let source = bench.source();
    let found = scan(&*source, &ScanOptions::default()).whole();
    for entry in found.all.entries.iter().filter(|entry| entry.is_file()) {
        let looked = bench.seen(&*source, entry.path.as_bytes());
        assert_eq!((looked.identity(), &looked.kind), (entry.identity(), &entry.kind), "{}", entry.path);
    }
}

fn a_lookup_below_a_file_is_none(bench: &TestBench) {
    bench.put_files(&[("file", 1)]);
    assert_eq!(bench.source().lookup(&[path("file/x")]).unwrap(), [Ok(None)]);
}

fn holds_agrees_with_lookup(bench: &TestBench) {
    bench.put_files(&[("a", 1), ("b/c", 2)]);
    let asked = ["gone", "a", "b", "b/c", "b/gone"].map(path);
    let held: Vec<bool> = bench.source().holds(&asked).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(held, [false, true, true, true, false]);
}

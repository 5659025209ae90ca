//! The changes that a sink reports for entries that differ.

use std::sync::Arc;

use haul_core::{Answer, Changes, Entry, SinkOptions};

use super::bench::{TestBench, offer};
use super::case::{ConformanceCase, cases};

pub(super) const CASES: &[ConformanceCase] = cases![
    differing_attributes_are_told if modes,
];

fn options(set: impl FnOnce(&mut SinkOptions)) -> SinkOptions {
    let mut options = SinkOptions::default();
    set(&mut options);
    options
}

/// Only with `itemize`, and the same whether the run is dry.
fn differing_attributes_are_told(bench: &TestBench) {
    let there = bench.file("file", 5);
    let other_mode = |entry: &Entry| Entry { mode: 0o600, ..entry.clone() };
    let entries = [
        (other_mode(&there), Changes::MODE),
        (Entry { mtime: bench.time(1), ..(*there).clone() }, Changes::TIME),
        (Entry { mtime: bench.time(1), ..other_mode(&there) }, Changes::TIME | Changes::MODE),
    ];
    bench.put_root();
    bench.put(&there);
    for (entry, expected) in entries {
        for (itemize, dry_run) in [(false, true), (true, true), (true, false)] {
            let sink = bench.sink_with(&options(|options| {
                (options.itemize, options.dry_run) = (itemize, dry_run);
            }));
            let told = match offer(&*sink, &Arc::new(entry.clone())) {
                Ok(Answer::Need { changes, .. } | Answer::Updated(changes)) => changes,
                other => panic!("{expected:?}: {other:?}"),
            };
            assert_eq!(told, expected.when(itemize), "itemize {itemize}, dry run {dry_run}");
        }
        bench.put(&there);
    }
    let sink = bench.sink_with(&options(|options| options.itemize = true));
    let told = |entry: &Arc<Entry>| match offer(&*sink, entry) {
        Ok(Answer::Need { changes, .. } | Answer::Updated(changes) | Answer::Made(changes)) => changes,
        other => panic!("{other:?}"),
    };
    assert!(told(&bench.file("file", 6)).has(Changes::SIZE));
    assert_eq!(told(&bench.file("new", 6)), Changes::NEW);
    assert_eq!(told(&bench.dir("dir")), Changes::NEW);
    if bench.keeps.symlinks {
        assert_eq!(told(&bench.symlink("file", "x")), Changes::KIND);
        assert!(told(&bench.symlink("file", "y")).has(Changes::CONTENT));
    }
}

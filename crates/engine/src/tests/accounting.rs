//! Every entry that the scan found is counted exactly once, whatever fails.

use std::sync::atomic::Ordering;

use haul_core::sync::Mutex;
use haul_core::{Entry, ErrorKind, Retry, SLICE_LEN};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

use super::faults::{EndCall, error, path};
use super::memory::{MemorySink, MemoryTree, dir, file, older, symlink, tree};
use super::runs::{Setup, counted, options};
use crate::{CopyOptions, Delete};

/// Names of which some are below others.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/b"];

/// A kind of entry in the trees of the tests.
#[derive(Clone, Copy, Debug)]
enum TreeKind {
    Small,
    Large,
    Older,
    Dir,
    Symlink,
    /// One of several names of a file.
    Link,
}

fn entry(at: &str, kind: TreeKind) -> Entry {
    match kind {
        TreeKind::Small => file(at, 10),
        TreeKind::Large => file(at, 3 * SLICE_LEN + 1),
        TreeKind::Older => older(file(at, 10)),
        TreeKind::Dir => dir(at),
        TreeKind::Symlink => symlink(at, "a"),
        TreeKind::Link => Entry { nlink: 4, ino: 5, dev: 1, ..file(at, 10) },
    }
}

fn kinds() -> impl Strategy<Value = TreeKind> {
    select(vec![
        TreeKind::Small,
        TreeKind::Large,
        TreeKind::Older,
        TreeKind::Dir,
        TreeKind::Symlink,
        TreeKind::Link,
    ])
}

/// A tree in which the parent of every entry is a directory.
fn trees() -> impl Strategy<Value = MemoryTree> {
    vec((select(NAMES.to_vec()), kinds()), 0..12).prop_map(|entries| {
        let mut found = tree([dir("")]);
        for (name, kind) in entries {
            let mut above = path(name).parent();
            while let Some(at) = above {
                found.insert(at.clone(), Entry { path: at.clone(), ..dir("") });
                above = at.parent();
            }
            let is_parent = found.keys().any(|other| other.parent() == Some(path(name)));
            if !is_parent {
                found.insert(path(name), entry(name, kind));
            }
        }
        found.insert(path(""), dir(""));
        found
    })
}

/// A call about a path that returns an error some times.
#[derive(Clone, Debug)]
struct FaultyCall(EndCall, &'static str, usize, ErrorKind, Retry);

fn faults() -> impl Strategy<Value = Vec<FaultyCall>> {
    let calls = select(vec![
        EndCall::Lookup,
        EndCall::Digest,
        EndCall::Read,
        EndCall::Offer,
        EndCall::Write,
        EndCall::Clone,
        EndCall::Discard,
        EndCall::Link,
    ]);
    let kinds =
        select(vec![ErrorKind::SourceChanged, ErrorKind::Io, ErrorKind::Corrupt, ErrorKind::NotEmpty]);
    let retries = select(vec![Retry::Never, Retry::Again, Retry::OtherStream, Retry::Anew]);
    let fault = (calls, select(NAMES.to_vec()), 1..6_usize, kinds, retries);
    vec(fault.prop_map(|(call, at, times, kind, retry)| FaultyCall(call, at, times, kind, retry)), 0..8)
}

/// The options of a run.
#[derive(Clone, Debug)]
struct Switches {
    checksum: bool,
    dry_run: bool,
    delete: bool,
    ignore_errors: bool,
    delta: bool,
    unreadable: bool,
    from_index: bool,
    clones: bool,
}

fn switches() -> impl Strategy<Value = Switches> {
    any::<[bool; 8]>().prop_map(
        |[checksum, dry_run, delete, ignore_errors, delta, unreadable, from_index, clones]| Switches {
            checksum,
            dry_run,
            delete,
            ignore_errors,
            delta,
            unreadable,
            from_index,
            clones,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_entry_is_counted_exactly_once(
        source in trees(), old in trees(), faults in faults(), on in switches(), silent in 0..2_u32,
    ) {
        let sink = MemorySink { tree: Mutex::new(old), dry_run: on.dry_run, ..MemorySink::default() };
        let mut setup = Setup::with_sink(source.into_values(), sink);
        for FaultyCall(call, at, times, kind, retry) in faults {
            setup.faults.plan(call, at, times, &error(kind, retry));
        }
        if on.unreadable {
            setup.source.unreadable.lock().push(path("locked"));
        }
        setup.source.from_index.store(on.from_index, Ordering::Relaxed);
        setup.source.can_clone.store(on.clones, Ordering::Relaxed);
        setup.sink.can_clone.store(on.clones, Ordering::Relaxed);
        setup.sink.silent_commits.store(silent, Ordering::Relaxed);
        let delete = Delete { ignore_errors: on.ignore_errors, force: true, ..Delete::default() };
        let report = setup.run(CopyOptions {
            checksum: on.checksum,
            dry_run: on.dry_run,
            delta: on.delta && !on.dry_run,
            delete: on.delete.then_some(delete),
            ..options()
        });
        prop_assert_eq!(report.fatal, None);
        prop_assert_eq!(counted(&report.totals), report.totals.found);
        prop_assert_eq!(setup.failures().len() as u64, report.totals.failed);
        prop_assert!(report.not_removed.is_none() || on.unreadable);
        if report.totals.failed == 0 && !on.dry_run {
            let scanned = setup.source.tree.lock().clone();
            let missing: Vec<_> = scanned.keys().filter(|path| !setup.old().contains_key(path)).collect();
            prop_assert!(missing.is_empty(), "{missing:?}");
        }
    }
}

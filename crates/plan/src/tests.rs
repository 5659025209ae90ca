use std::collections::{BTreeMap, BTreeSet};

use haul_core::{Entry, EntryKind, RelPath, Result, ScanBatch};

use super::Collector;
use crate::{Partition, Plan, PlanOptions, PlanOutput, Reason, Split, Target};

/// The lists that a plan reported besides the figures.
#[derive(Default)]
struct ReportedLists {
    unfit: Vec<String>,
    parts: BTreeMap<usize, Vec<String>>,
}

impl PlanOutput for ReportedLists {
    fn unfit(&mut self, path: &RelPath) {
        self.unfit.push(path.to_string());
    }

    fn part(&mut self, part: usize, path: &RelPath) -> Result<()> {
        self.parts.entry(part).or_default().push(path.to_string());
        Ok(())
    }
}

fn entry(path: &str, kind: EntryKind, len: u64) -> Entry {
    Entry { dev: 1, ..Entry::new(RelPath::new(path.as_bytes()).unwrap(), kind, len) }
}

fn dir(path: &str) -> Entry {
    entry(path, EntryKind::Dir, 0)
}

fn file(path: &str, len: u64) -> Entry {
    entry(path, EntryKind::File, len)
}

fn linked(path: &str, len: u64, ino: u64, nlink: u32) -> Entry {
    Entry { ino, nlink, ..file(path, len) }
}

fn plan(request: PlanOptions, entries: &[Entry]) -> (Plan, ReportedLists) {
    let mut collector = Collector::new(request);
    let mut lists = ReportedLists::default();
    // A scan reports entries in any order.
    for entries in entries.rchunks(3) {
        let batch = ScanBatch { entries: entries.to_vec(), ..ScanBatch::default() };
        collector.add(&batch, &mut lists).unwrap();
    }
    (collector.finish(&mut lists).unwrap(), lists)
}

fn names<'a>(ranked: impl IntoIterator<Item = &'a crate::RankedEntry>) -> Vec<(String, u64)> {
    ranked.into_iter().map(|one| (one.path.to_string(), one.figure)).collect()
}

#[test]
fn the_figures_of_a_small_tree() {
    let sparse = Entry { allocated: 1 << 20, ..file("a/b/sparse", 5 << 20) };
    let entries = vec![
        dir(""),
        dir("a"),
        dir("a/b"),
        sparse,
        file("a/x", 1000),
        linked("a/one", 700, 7, 3),
        linked("c/two", 700, 7, 3),
        linked("c/alone", 50, 8, 2),
        dir("c"),
        dir("empty"),
        entry("link", EntryKind::Symlink(b"a".to_vec()), 0),
        entry("pipe", EntryKind::Fifo, 0),
    ];
    let (plan, _) = plan(PlanOptions { top: 2, ..PlanOptions::default() }, &entries);
    let tally = plan.tally;
    assert_eq!((tally.entries, tally.directories, tally.symlinks, tally.specials), (12, 5, 1, 1));
    assert_eq!((tally.files, tally.bytes), (4, (5 << 20) + 1000 + 700 + 50));
    assert_eq!((tally.sparse_files, tally.hole_bytes), (1, 4 << 20));
    assert_eq!((tally.small_files, tally.small_bytes), (3, 1750));
    assert_eq!(plan.histogram.iter().map(|bucket| bucket.files).sum::<u64>(), 4);
    assert_eq!(names(&plan.largest_files), [("a/b/sparse".to_owned(), 5 << 20), ("a/x".to_owned(), 1000)]);
    let directories: Vec<_> =
        plan.largest_directories.iter().map(|f| (f.path.to_string(), f.bytes, f.entries)).collect();
    // A hard-linked file counts at its first name.
    assert_eq!(directories, [("a".to_owned(), (1 << 20) + 1700, 4), ("a/b".to_owned(), 1 << 20, 1)]);
    assert_eq!(names(&plan.widest_directories), [(".".to_owned(), 5), ("a".to_owned(), 3)]);
    assert_eq!(names(&plan.deepest_directories)[0], ("a/b".to_owned(), 2));
    assert_eq!(names(&plan.longest_path), [("a/b/sparse".to_owned(), 10)]);
    let links = plan.hard_links;
    assert_eq!((links.files, links.names, links.saved_bytes, links.outside), (1, 2, 700, 2));
    assert_eq!(names(&links.largest), [("a/one".to_owned(), 700)]);
}

#[test]
fn names_that_do_not_fit_are_reported_once() {
    let request = PlanOptions { top: 1, target: Some(Target::Ntfs), split: None };
    let entries =
        vec![dir(""), dir("A"), dir("a"), file("A/x", 1), file("a/X", 1), file("a/b?", 1), file("b", 1)];
    let (plan, mut lists) = plan(request, &entries);
    let found: Vec<_> = plan.unfit.iter().map(|unfit| (unfit.reason, unfit.count)).collect();
    assert_eq!(found, [(Reason::Clash, 4), (Reason::Character, 1)]);
    lists.unfit.sort();
    assert_eq!(lists.unfit, ["A", "A/x", "a", "a/X", "a/b?"]);
}

/// A tree with files of mixed sizes, some of them linked across directories.
fn tree() -> (Vec<Entry>, BTreeSet<String>) {
    let mut entries = vec![dir(""), dir("empty"), dir("d0/also empty")];
    let mut expected = BTreeSet::from(["empty".to_owned(), "d0/also empty".to_owned()]);
    for directory in 0..40_u64 {
        entries.push(dir(&format!("d{directory}")));
        for number in 0..50_u64 {
            let name = format!("d{directory}/f{number}");
            let random = (directory * 50 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let len = if random % 40 == 0 { 300_000 } else { random % 9000 };
            let linked_to = number % 10 == 3;
            let ino = 10_000 + directory / 2 * 50 + number;
            entries.push(if linked_to { linked(&name, 400, ino, 2) } else { file(&name, len) });
            expected.insert(name);
        }
    }
    (entries, expected)
}

fn cut(split: Split) -> (Vec<Partition>, BTreeMap<usize, Vec<String>>) {
    let (entries, expected) = tree();
    let (plan, lists) = plan(PlanOptions { top: 3, target: None, split: Some(split) }, &entries);
    let all: Vec<String> = lists.parts.values().flatten().cloned().collect();
    assert_eq!(all.len(), expected.len(), "each once");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected);
    for (number, part) in plan.parts.iter().enumerate() {
        assert_eq!(part.entries, lists.parts.get(&number).map_or(0, |list| list.len() as u64));
    }
    assert_eq!(plan.parts.iter().map(|part| part.bytes).sum::<u64>(), plan.tally.bytes);
    let part_of: BTreeMap<&String, usize> =
        lists.parts.iter().flat_map(|(part, list)| list.iter().map(|name| (name, *part))).collect();
    for directory in (0..40).step_by(2) {
        let (one, other) = (format!("d{directory}/f13"), format!("d{}/f13", directory + 1));
        assert_eq!(part_of[&one], part_of[&other], "names of one file stay together");
    }
    (plan.parts, lists.parts)
}

#[test]
fn partitions_are_balanced_by_bytes_and_by_entries() {
    for count in [1, 2, 4, 7] {
        let (parts, _) = cut(Split::Count(count));
        assert_eq!(parts.len(), count);
        let spread = |figure: fn(&Partition) -> u64| {
            let all = parts.iter().map(figure).sum::<u64>() as f64 / count as f64;
            parts.iter().map(figure).max().unwrap_or_default() as f64 / all
        };
        assert!(spread(|part| part.bytes) < 1.15, "{count}: {parts:?}");
        assert!(spread(|part| part.entries) < 1.15, "{count}: {parts:?}");
    }
    let (parts, _) = cut(Split::Count(5000));
    assert_eq!(
        parts.iter().filter(|part| part.entries > 0).count().min(1000),
        1000,
        "more parts than entries"
    );
}

#[test]
fn partitions_stay_within_their_limits() {
    let (parts, lists) = cut(Split::Limit { bytes: Some(200_000), entries: Some(300) });
    let (larger, others): (Vec<Partition>, Vec<Partition>) =
        parts.into_iter().partition(|part| part.bytes > 200_000);
    assert!(!larger.is_empty() && larger.iter().all(|part| part.entries == 1 && part.bytes == 300_000));
    // Further names of files in the partition come on top.
    assert!(others.iter().all(|part| part.entries <= 320), "{others:?}");
    assert!(others.len() >= 6 && lists.len() == larger.len() + others.len());
    let (parts, _) = cut(Split::Limit { bytes: None, entries: Some(1) });
    assert!(parts.iter().all(|part| part.entries <= 2));
}

#[test]
fn a_tree_of_many_entries_is_not_held_in_memory() {
    let mut collector =
        Collector::new(PlanOptions { top: 5, target: Some(Target::Apfs), split: Some(Split::Count(3)) });
    let mut lists = ReportedLists::default();
    collector.add(&ScanBatch { entries: vec![dir("")], ..ScanBatch::default() }, &mut lists).unwrap();
    for directory in 0..300 {
        let mut entries = vec![dir(&format!("directory {directory:0>60}"))];
        entries.extend(
            (0..500).map(|number| file(&format!("directory {directory:0>60}/{number:0>60}"), number)),
        );
        collector.add(&ScanBatch { entries, ..ScanBatch::default() }, &mut lists).unwrap();
    }
    let plan = collector.finish(&mut lists).unwrap();
    assert_eq!((plan.tally.files, plan.tally.directories), (150_000, 301));
    let listed: BTreeSet<&String> = lists.parts.values().flatten().collect();
    assert_eq!(listed.len(), 150_000);
    assert_eq!(plan.widest_directories[1].figure, 500);
}

//! How many entries a walk still expects.
//!
//! Knuth's estimator of the size of a tree, by depth: a directory that is not listed yet counts as the mean of those of
//! its depth that are, with everything that the means of the depths below predict for its subdirectories. The numbers
//! are a few for each depth, however large the tree is.

use std::sync::atomic::{AtomicU64, Ordering};

/// The depths that are told apart; nothing is expected below the last.
const DEPTHS: usize = 64;
/// Names that one thread counts by itself, so that threads seldom write to the same memory.
const COUNTED: u64 = 64;
/// A directory with this many times the names of those before says that they are no measure for it.
const FAR: f64 = 4.0;
/// No directory is far larger than others before it has this many names.
const MANY: f64 = 1024.0;

/// The counts of a walk, by depth. Any number of threads may count at once.
pub struct Forecast {
    depths: [Depth; DEPTHS],
}

impl Default for Forecast {
    fn default() -> Self {
        Self { depths: std::array::from_fn(|_| Depth::default()) }
    }
}

/// The directories of one depth, and the names in them.
#[derive(Default)]
struct Depth {
    /// Directories that were found and will be listed.
    found: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    names: AtomicU64,
    /// Of the names, those in directories whose listing has ended.
    names_of_ended: AtomicU64,
    looked_up: AtomicU64,
    /// Of the names that were looked up, those that the scan reports.
    entries: AtomicU64,
}

/// The listing of a directory; its end when dropped.
pub struct ForecastListing<'a> {
    depth: &'a Depth,
    names: u64,
    uncounted: ListingCounts,
}

#[derive(Default)]
struct ListingCounts {
    names: u64,
    looked_up: u64,
    entries: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

impl Forecast {
    fn at(&self, depth: usize) -> &Depth {
        &self.depths[depth.min(DEPTHS - 1)]
    }

    /// A directory of this depth was found, and will be listed.
    pub fn found_directory(&self, depth: usize) {
        add(&self.at(depth).found, 1);
    }

    /// Begins to list a directory that was found.
    pub fn list(&self, depth: usize) -> ForecastListing<'_> {
        let depth = self.at(depth);
        add(&depth.begun, 1);
        ForecastListing { depth, names: 0, uncounted: ListingCounts::default() }
    }

    /// Names in a directory of this depth were looked up, and so many of them are entries of the scan.
    pub fn looked_up(&self, depth: usize, names: u64, entries: u64) {
        self.at(depth).count(&ListingCounts { names: 0, looked_up: names, entries });
    }

    /// The entries that the walk has still to find; `None` while that is unknown. Exactly none when all is listed.
    pub fn expected(&self) -> Option<u64> {
        let mut expected = 0.0;
        // The entries below a directory of the depth below.
        let mut below = 0.0;
        let mut directories_below = 0.0;
        for depth in self.depths.iter().rev() {
            let directories = get(&depth.found);
            if directories == 0.0 {
                (below, directories_below) = (0.0, 0.0);
                continue;
            }
            let (begun, ended) = (get(&depth.begun), get(&depth.ended));
            let (names, names_of_ended) = (get(&depth.names), get(&depth.names_of_ended));
            let looked_up = get(&depth.looked_up);
            let of_a_name = match looked_up {
                0.0 => 1.0,
                looked_up => (get(&depth.entries) + directories_below * below) / looked_up,
            };
            let mean = if ended > 0.0 { names_of_ended / ended } else { 0.0 };
            let (waiting, listing) = ((directories - begun).max(0.0), (begun - ended).max(0.0));
            let listed = (names - names_of_ended).max(0.0);
            let usual = mean * listing;
            if ended == 0.0 && waiting + listing > 0.0 || listed > MANY.max(usual * FAR) {
                return None;
            }
            let names_left = (names - looked_up).max(0.0) + waiting * mean + (usual - listed).max(0.0);
            expected += names_left * of_a_name;
            (below, directories_below) = (mean * of_a_name, directories);
        }
        // Beyond the largest number it stays the largest number.
        Some(expected.ceil() as u64)
    }
}

impl Depth {
    fn count(&self, counts: &ListingCounts) {
        add(&self.names, counts.names);
        add(&self.looked_up, counts.looked_up);
        add(&self.entries, counts.entries);
    }
}

impl ForecastListing<'_> {
    /// Counts a name; if it was looked up already, with whether it is an entry of the scan.
    pub fn name(&mut self, is_entry: Option<bool>) {
        self.names += 1;
        self.uncounted.names += 1;
        self.uncounted.looked_up += u64::from(is_entry.is_some());
        self.uncounted.entries += u64::from(is_entry == Some(true));
        if self.uncounted.names >= COUNTED {
            self.depth.count(&std::mem::take(&mut self.uncounted));
        }
    }
}

impl Drop for ForecastListing<'_> {
    fn drop(&mut self) {
        self.depth.count(&self.uncounted);
        add(&self.depth.names_of_ended, self.names);
        add(&self.depth.ended, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directories below a directory of this depth, and the files in it.
    type Tree = fn(usize, u64) -> (u64, u64);

    /// Walks a tree as the ends do. Returns the found and the expected entries after each directory, and the total.
    fn walk(tree: Tree) -> (Vec<(u64, Option<u64>)>, u64) {
        let forecast = Forecast::default();
        let (mut open, mut found, mut seen, mut number) = (vec![0], 1, Vec::new(), 0);
        forecast.found_directory(0);
        while let Some(depth) = open.pop() {
            let mut listing = forecast.list(depth);
            let (directories, files) = tree(depth, number);
            number += 1;
            for at in 0..directories + files {
                if at < directories {
                    forecast.found_directory(depth + 1);
                    open.push(depth + 1);
                }
                // Every other file is looked up later.
                listing.name((at % 2 == 0 || at < directories).then_some(true));
            }
            let late = (directories..directories + files).filter(|at| at % 2 == 1).count() as u64;
            forecast.looked_up(depth, late, late);
            found += directories + files;
            drop(listing);
            seen.push((found, forecast.expected()));
        }
        (seen, found)
    }

    const TREES: [Tree; 4] = [
        |depth, _| if depth < 3 { (12, 3) } else { (0, 40) },
        |depth, number| if depth < 3 { (number * 7 % 25, 3) } else { (0, number * 31 % 90) },
        // A chain that is deeper than the depths that are told apart.
        |depth, _| (u64::from(depth < 300), 1),
        |_, _| (0, 5000),
    ];

    #[test]
    fn the_end_is_exact() {
        for tree in TREES {
            assert_eq!(walk(tree).0.last().unwrap().1, Some(0));
        }
    }

    #[test]
    fn the_rest_of_a_tree_is_known_from_a_part_of_it() {
        for (tree, precision) in [(TREES[0], 0.01), (TREES[1], 0.25)] {
            let (seen, all) = walk(tree);
            let early = seen.into_iter().filter(|(found, _)| *found > all / 5);
            for (found, expected) in early {
                let ratio = (found + expected.unwrap()) as f64 / all as f64;
                assert!((ratio - 1.0).abs() < precision, "{ratio} at {found} of {all}");
            }
        }
    }

    #[test]
    fn a_directory_that_is_like_no_other_is_unknown() {
        let forecast = Forecast::default();
        forecast.found_directory(0);
        assert_eq!(forecast.expected(), None);
        let mut listing = forecast.list(0);
        for directory in [3, 3, 100_000] {
            forecast.found_directory(1);
            listing.name(Some(true));
            let mut listing = forecast.list(1);
            (0..directory).for_each(|_| listing.name(Some(true)));
            assert_eq!(forecast.expected(), None, "the root is not listed");
            if directory > 3 {
                std::mem::forget(listing);
            }
        }
        drop(listing);
        assert_eq!(forecast.expected(), None, "100,000 names after two directories of three");
    }

    #[test]
    fn names_that_are_no_entries_are_not_expected() {
        let forecast = Forecast::default();
        (0..4).for_each(|_| forecast.found_directory(0));
        let mut listing = forecast.list(0);
        (0..1000).for_each(|name| listing.name(Some(name % 10 == 0)));
        drop(listing);
        assert_eq!(forecast.expected(), Some(300));
    }

    #[test]
    fn no_count_is_too_large() {
        let forecast = Forecast::default();
        for depth in 0..200 {
            let depth = forecast.at(depth);
            let all = [&depth.found, &depth.begun, &depth.ended, &depth.names, &depth.names_of_ended];
            all.iter().for_each(|counter| counter.store(u64::MAX, Ordering::Relaxed));
            depth.begun.store(1, Ordering::Relaxed);
            depth.ended.store(1, Ordering::Relaxed);
        }
        assert_eq!(forecast.expected(), Some(u64::MAX));
    }
}

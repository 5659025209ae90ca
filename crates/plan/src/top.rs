//! Keeps the largest few of many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use haul_core::RelPath;

use crate::ranked::RankedEntry;

/// Keeps the `most` largest; among equals those whose path comes first, so that the result is deterministic.
pub(crate) struct Top<T = ()> {
    most: usize,
    /// The least of them on top.
    kept: BinaryHeap<Reverse<(u64, Reverse<RelPath>, T)>>,
}

impl<T: Ord> Top<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new() }
    }

    /// Considers an entry, with a value that is kept with it.
    pub(crate) fn add(&mut self, figure: u64, path: &RelPath, beside: T) {
        if self.kept.len() >= self.most {
            match self.kept.peek() {
                Some(Reverse((least, Reverse(last), _)))
                    if (figure, Reverse(path)) > (*least, Reverse(last)) =>
                {
                    self.kept.pop();
                }
                _ => return,
            }
        }
        self.kept.push(Reverse((figure, Reverse(path.clone()), beside)));
    }

    /// The kept entries, the largest first.
    pub(crate) fn into_vec(self) -> Vec<(RelPath, u64, T)> {
        let sorted = self.kept.into_sorted_vec().into_iter();
        sorted.map(|Reverse((figure, Reverse(path), beside))| (path, figure, beside)).collect()
    }
}

impl Top {
    pub(crate) fn into_ranked(self) -> Vec<RankedEntry> {
        self.into_vec().into_iter().map(|(path, figure, ())| RankedEntry { path, figure }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_largest_and_of_equals_the_first() {
        let mut top = Top::new(3);
        for (name, figure) in [("c", 5), ("a", 5), ("x", 1), ("b", 5), ("y", 9), ("z", 0)] {
            top.add(figure, &RelPath::new(name.as_bytes()).unwrap(), ());
        }
        let names: Vec<String> = top.into_ranked().iter().map(|one| one.path.to_string()).collect();
        assert_eq!(names, ["y", "a", "b"]);
        let mut none = Top::new(0);
        none.add(1, &RelPath::root(), ());
        assert!(none.into_ranked().is_empty());
    }
}

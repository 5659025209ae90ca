//! Finds cycles in the graph of `use` between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::{Crate, NameUse};

/// Each cycle of a crate as lines of text: its files, and the names that tie them.
pub(crate) fn cycles(krate: &Crate, repository: &Path) -> Vec<String> {
    let taken = krate.taken();
    let name = |file: usize| {
        let path = &krate.files[file].path;
        path.strip_prefix(repository).unwrap_or(path).display().to_string()
    };
    groups(krate.files.len(), &taken).iter().map(|group| describe(group, &taken, name)).collect()
}

/// The groups of two or more files that reach each other.
fn groups(files: usize, taken: &[NameUse]) -> Vec<BTreeSet<usize>> {
    let mut next: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); files];
    for NameUse { from, to, .. } in taken {
        next[*from].insert(*to);
    }
    let reached: Vec<BTreeSet<usize>> = (0..files).map(|file| reached(file, &next)).collect();
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    for file in 0..files {
        let group: BTreeSet<usize> =
            reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn reached(start: usize, next: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(file) = waiting.pop() {
        waiting.extend(next[file].iter().copied().filter(|other| seen.insert(*other)));
    }
    seen
}

fn describe(group: &BTreeSet<usize>, taken: &[NameUse], name: impl Fn(usize) -> String) -> String {
    let mut edges: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for NameUse { from, to, name: item } in taken {
        if group.contains(from) && group.contains(to) {
            edges.entry((name(*from), name(*to))).or_default().push(item);
        }
    }
    let mut text = format!("a cycle of {} files:", group.len());
    for ((from, to), names) in edges {
        text.push_str(&format!("\n  {from} -> {to}: {}", names.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_reported_with_the_names_that_tie_it() {
        let krate = Crate::of(&[
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use crate::b::B;"),
            ("b", "use crate::c::{C, f}; struct B;"),
            ("c", "struct C; fn f(a: super::a::A) {}"),
            ("d", "use crate::a::A;"),
        ]);
        let found = cycles(&krate, Path::new(""));
        assert_eq!(found, ["a cycle of 3 files:\n  a -> b: B\n  b -> c: C, f\n  c -> a: A"]);
    }

    #[test]
    fn a_module_and_its_children_are_a_cycle_when_both_take_from_each_other() {
        let tied = [
            ("", "mod a;"),
            ("a", "mod b; pub use b::B; pub const LIMIT: u8 = 1;"),
            ("a::b", "use super::LIMIT; struct B;"),
        ];
        assert_eq!(cycles(&Crate::of(&tied), Path::new("")).len(), 1);
        let open = [
            ("", "mod a;"),
            ("a", "mod b; mod c; pub use b::B;"),
            ("a::b", "use super::c::C; struct B;"),
            ("a::c", ""),
        ];
        assert!(cycles(&Crate::of(&open), Path::new("")).is_empty());
    }

    #[test]
    fn tests_do_not_count() {
        let krate = Crate::of(&[
            ("", "mod a; mod b;"),
            ("a", "use crate::b::B;"),
            ("b", "struct B; #[cfg(test)] use crate::a::A;"),
        ]);
        assert!(cycles(&krate, Path::new("")).is_empty());
    }
}

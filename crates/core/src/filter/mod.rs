//! Include and exclude rules in rsync's pattern language.
//!
//! The language is the one of rsync's manual, "PATTERN MATCHING RULES", with the corners as its implementation has
//! them. Everything is bytes; a match takes time proportional to pattern × path, whatever the pattern.

mod pattern;
mod wild;

use serde::{Deserialize, Serialize};

use crate::path::RelPath;

/// One rule. The first rule whose pattern matches decides; no match means included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whether a match is kept or left out.
    pub include: bool,
    /// The pattern, as rsync reads it.
    #[serde(with = "serde_bytes")]
    pub pattern: Vec<u8>,
    /// The name that the root itself bears in the transfer; empty where what is in the root is meant.
    ///
    /// In `haul copy src dst` a pattern sees `src/file`, in `haul copy src/ dst` it sees `file`.
    #[serde(with = "serde_bytes")]
    pub root_name: Vec<u8>,
}

impl Rule {
    /// A rule that keeps what matches.
    #[must_use]
    pub fn include(pattern: impl Into<Vec<u8>>) -> Self {
        Self { include: true, pattern: pattern.into(), root_name: Vec::new() }
    }

    /// A rule that leaves out what matches.
    #[must_use]
    pub fn exclude(pattern: impl Into<Vec<u8>>) -> Self {
        Self { include: false, pattern: pattern.into(), root_name: Vec::new() }
    }

    /// The same rule for a root that bears `name` in the transfer.
    #[must_use]
    pub fn below(&self, name: &[u8]) -> Self {
        Self { root_name: name.to_vec(), ..self.clone() }
    }

    fn matches(&self, path: &RelPath, is_dir: bool) -> bool {
        let path = path.as_bytes();
        if self.root_name.is_empty() {
            return pattern::matches(&self.pattern, path, is_dir);
        }
        let mut name = self.root_name.clone();
        if !path.is_empty() {
            name.push(b'/');
            name.extend_from_slice(path);
        }
        pattern::matches(&self.pattern, &name, is_dir)
    }
}

/// Whether the rules leave out the entry at `path`. Asked from the root downwards: what is below a directory that
/// is left out is never asked about. A root that bears no name is never left out.
#[must_use]
pub fn excludes(rules: &[Rule], path: &RelPath, is_dir: bool) -> bool {
    rules.iter().find(|rule| rule.matches(path, is_dir)).is_some_and(|rule| !rule.include)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_first_match_decides() {
        let rules = [Rule::include("*.c"), Rule::include("*/"), Rule::exclude("*")];
        assert!(!excludes(&rules, &path("a/b.c"), false));
        assert!(!excludes(&rules, &path("a"), true));
        assert!(excludes(&rules, &path("a/b.o"), false));
        assert!(excludes(&rules, &path("a"), false), "`*/` is for directories");
        assert!(!excludes(&[], &path("a"), false));
    }

    #[test]
    fn a_named_root_is_part_of_what_is_matched() {
        let rules = [Rule::exclude("/src/tmp").below(b"src"), Rule::exclude("/x").below(b"src")];
        assert!(excludes(&rules, &path("tmp"), true));
        assert!(!excludes(&rules, &path("x"), true));
        assert!(excludes(&[Rule::exclude("src").below(b"src")], &RelPath::root(), true));
        assert!(!excludes(&[Rule::exclude("*")], &RelPath::root(), true), "the nameless root stays");
    }
}

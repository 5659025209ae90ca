//! Include and exclude rules in rsync's pattern language.
//!
//! The language is that of rsync(1), "PATTERN MATCHING RULES", with the corner cases of its implementation. Patterns
//! and paths are bytes. Matching takes time proportional to pattern length × path length for every pattern.
//!
//! ```
//! use haul_core::RelPath;
//! use haul_core::filter::{Rule, excludes};
//!
//! let rules = [Rule::include("*.c"), Rule::include("*/"), Rule::exclude("*")];
//! let is_excluded = |path: &[u8], is_dir| Ok(excludes(&rules, &RelPath::new(path)?, is_dir));
//! assert!(!is_excluded(b"src/main.c", false)?);
//! assert!(!is_excluded(b"src", true)?);
//! assert!(is_excluded(b"src/main.o", false)?);
//! # Ok::<(), haul_core::path::BadPath>(())
//! ```

mod pattern;
mod wild;

use serde::{Deserialize, Serialize};

use crate::path::RelPath;

/// A filter rule. The first rule with a matching pattern decides; without a match, an entry is included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whether a match is included; else it is excluded.
    pub include: bool,
    /// The pattern, as rsync reads it.
    #[serde(with = "serde_bytes")]
    pub pattern: Vec<u8>,
    /// The name of the root in the transfer; empty if only the contents of the root are transferred.
    ///
    /// In `haul copy src dst` a pattern sees `src/file`, in `haul copy src/ dst` it sees `file`.
    #[serde(with = "serde_bytes")]
    pub root_name: Vec<u8>,
}

impl Rule {
    /// A rule that includes matching entries.
    #[must_use]
    pub fn include(pattern: impl Into<Vec<u8>>) -> Self {
        Self { include: true, pattern: pattern.into(), root_name: Vec::new() }
    }

    /// A rule that excludes matching entries.
    #[must_use]
    pub fn exclude(pattern: impl Into<Vec<u8>>) -> Self {
        Self { include: false, pattern: pattern.into(), root_name: Vec::new() }
    }

    /// The same rule for a root that has `name` in the transfer.
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

/// Whether a pattern with `*`, `?` and `[` matches the whole of a name.
#[must_use]
pub fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    wild::matches(&wild::compile(pattern), name, false)
}

/// Whether the rules exclude the entry at `path`. A scan goes from the root downwards and skips everything below an
/// excluded directory, so this does not look at the directories above `path`. A root without a name is never excluded.
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

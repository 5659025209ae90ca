//! Names that match one component of a pattern, up to a limit.

use std::fmt::Display;

use haul_core::Error;
use haul_core::filter::matches_name;

use crate::errors::usage;

/// The most memory for one list of the paths that a pattern matches, in bytes: a hostile end may name any number.
/// Planning holds some three such lists, which have to stay within the 64 MiB beside the budget.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// The memory for one path, besides its bytes.
pub(super) const EACH: usize = 64;

/// Whether a component, or a whole path, has a wildcard.
pub(super) fn is_wild(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// As in a shell, a wildcard matches no dot at the beginning of a name.
pub(super) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    (!name.starts_with(b".") || pattern.starts_with(b".")) && matches_name(pattern, name)
}

/// The bytes with which each name begins that `pattern` matches.
pub(super) fn literal_start(pattern: &[u8]) -> &[u8] {
    // A backslash may make the next byte literal.
    let end = pattern.iter().position(|byte| is_wild(&[*byte]) || *byte == b'\\');
    &pattern[..end.unwrap_or(pattern.len())]
}

/// The error of a pattern that matches more than fits in memory.
pub(super) fn too_many(pattern: &dyn Display) -> Error {
    let error = usage("expand the pattern", "too many entries match").on(pattern.to_string());
    error.with_hint("name the directory with a slash at its end, and add --include and --exclude")
}

/// A name in a directory.
pub(super) struct MatchedName {
    pub(super) name: Vec<u8>,
    /// It is certainly not a directory, and no link to one.
    pub(super) is_file: bool,
}

/// Names, up to a limit.
#[derive(Default)]
pub(super) struct BoundedNames {
    all: Vec<MatchedName>,
    bytes: usize,
}

impl BoundedNames {
    /// Adds a name, unless the limit is reached.
    pub(super) fn add(&mut self, name: &[u8], is_file: bool) {
        if !self.is_full() {
            self.bytes += name.len() + EACH;
            self.all.push(MatchedName { name: name.to_vec(), is_file });
        }
    }

    /// Whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    /// The names in their order, without duplicates.
    pub(super) fn sorted(self) -> Vec<MatchedName> {
        let mut names = self.all;
        names.sort_by(|a, b| a.name.cmp(&b.name));
        names.dedup_by(|a, b| a.name == b.name);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_does_not_end_fills_a_limit_and_no_more() {
        let mut names = BoundedNames::default();
        (0..1_000_000).for_each(|_| names.add(b"0123456789", true));
        assert!(names.is_full() && names.bytes < MOST_BYTES + 100);
    }

    #[test]
    fn a_listing_begins_before_the_first_wildcard_or_backslash() {
        for (pattern, start) in [("a*", "a"), ("*", ""), ("ab[c]", "ab"), ("star\\*", "star"), ("\\?x", "")] {
            assert_eq!(literal_start(pattern.as_bytes()), start.as_bytes(), "{pattern}");
        }
    }

    #[test]
    fn a_dot_at_the_beginning_is_matched_by_a_dot_only() {
        assert!(is_match(b"*", b"a") && !is_match(b"*", b".a") && is_match(b".*", b".a"));
        assert!(is_match(b"a[0-9]?", b"a1x") && !is_match(b"a", b"ab"));
    }
}

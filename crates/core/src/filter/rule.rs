//! One rule: a pattern, and its effect on the entries that it matches.

use serde::{Deserialize, Serialize};

use super::pattern;

/// The sides that a rule applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sides {
    /// It selects the entries to copy, and protects the rest from deletion.
    #[default]
    Both,
    /// It selects the entries to copy (hide, show).
    Source,
    /// It protects from deletion (protect, risk).
    Destination,
}

impl Sides {
    /// Whether a rule of these sides counts at `side`, which is one of the two.
    #[must_use]
    pub fn include(self, side: Self) -> bool {
        self == Self::Both || self == side
    }
}

/// A filter rule. The first rule with a matching pattern decides; without a match, an entry is included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whether a match is included; else it is excluded.
    pub include: bool,
    /// The pattern, as rsync reads it.
    #[serde(with = "serde_bytes")]
    pub pattern: Vec<u8>,
    /// Where it applies.
    pub sides: Sides,
    /// It matches the paths that the pattern does not match (`!`).
    pub negated: bool,
    /// The pattern is matched against the absolute path (`/`).
    pub absolute: bool,
    /// It does not protect the entries of a directory that is deleted (`p`).
    pub perishable: bool,
}

impl Rule {
    /// A rule that includes matching entries.
    #[must_use]
    pub fn include(pattern: impl Into<Vec<u8>>) -> Self {
        Self { include: true, ..Self::exclude(pattern) }
    }

    /// A rule that excludes matching entries.
    #[must_use]
    pub fn exclude(pattern: impl Into<Vec<u8>>) -> Self {
        Self { pattern: pattern.into(), ..Self::default() }
    }

    /// The same rule for these sides.
    #[must_use]
    pub fn at(self, sides: Sides) -> Self {
        Self { sides, ..self }
    }

    pub(super) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        !path.is_empty() && pattern::matches(&self.pattern, path, is_dir) != self.negated
    }
}

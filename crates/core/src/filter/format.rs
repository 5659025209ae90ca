//! How the rules of a file are written, and the rules that name such files.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::rule::Sides;

/// The prefixes that rules may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prefixes {
    /// A rule of the full language, as of `--filter`.
    Rules,
    /// `- ` or `+ ` may precede the pattern, as of `--exclude` (`include: false`) and `--include`.
    Old {
        /// Whether a pattern without prefix is included.
        include: bool,
    },
    /// Nothing: each line or word is a pattern.
    None {
        /// Whether the patterns are included.
        include: bool,
    },
}

/// The syntax of rules, and the properties that they have unless a rule states others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFormat {
    /// The prefixes that the rules may have.
    pub prefixes: Prefixes,
    /// Rules end at white space instead of line ends, and there are no comments (`w`).
    pub words: bool,
    /// Rules end with NUL instead of line ends (`--from0`).
    pub nul: bool,
    /// `!` clears the list, though rules have no prefixes (`C`).
    pub clears: bool,
    /// The sides of all rules; then no rule may name its own.
    pub sides: Option<Sides>,
    /// The sides of rules that name none: [`Sides::Source`] with `--delete-excluded`.
    pub plain: Sides,
    /// All rules are matched against the absolute path (`/`).
    pub absolute: bool,
    /// All rules are perishable (`p`).
    pub perishable: bool,
}

impl RuleFormat {
    /// Rules with these prefixes, in lines.
    #[must_use]
    pub fn new(prefixes: Prefixes) -> Self {
        Self {
            prefixes,
            words: false,
            nul: false,
            clears: false,
            sides: None,
            plain: Sides::Both,
            absolute: false,
            perishable: false,
        }
    }

    /// The format of files in CVS's own language: patterns in words.
    #[must_use]
    pub fn cvs(self) -> Self {
        Self { prefixes: Prefixes::None { include: false }, words: true, nul: false, clears: true, ..self }
    }
}

/// A rule that names a file with rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRule {
    /// The name of the file, as given.
    #[serde(with = "serde_bytes")]
    pub file: Vec<u8>,
    /// How its rules are written.
    pub format: RuleFormat,
    /// Subdirectories do not inherit the rules (`n`). Only for files of directories.
    pub is_private: bool,
    /// The files themselves are excluded (`e`).
    pub excludes_itself: bool,
    /// The files have no rules: one that begins with these bytes excludes all else in its directory.
    pub tag: Option<ByteBuf>,
}

impl MergeRule {
    /// The rule of a file that excludes all else in its directory, if it begins with `signature`. The rule is for the sides
    /// of `plain`.
    #[must_use]
    pub fn tag(file: &[u8], signature: &[u8], plain: Sides) -> Self {
        Self {
            file: file.to_vec(),
            format: RuleFormat { plain, ..RuleFormat::new(Prefixes::Rules) },
            is_private: false,
            excludes_itself: false,
            tag: Some(ByteBuf::from(signature.to_vec())),
        }
    }

    /// Whether the rules name the same files for the same purpose.
    #[must_use]
    pub fn is_again(&self, other: &Self) -> bool {
        self.name() == other.name() && self.tag == other.tag
    }

    /// The name of the file without directories.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.file.rsplit(|byte| *byte == b'/').next().unwrap_or(&self.file)
    }

    /// The directory that the name begins with; `None` if it is a name alone.
    #[must_use]
    pub fn dir(&self) -> Option<&[u8]> {
        let end = self.file.iter().rposition(|byte| *byte == b'/')?;
        Some(if end == 0 { b"/" } else { &self.file[..end] })
    }
}

//! The rules of a run, and their decision about an entry.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::dir_rules::{DirRules, FileRule, RuleBase};
use super::format::MergeRule;
use super::rule::{Rule, Sides};
use crate::path::RelPath;

/// An element of the list of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleItem {
    /// A rule.
    Rule(Rule),
    /// In each directory, the rules of a file in it, and of those above it.
    DirMerge(MergeRule),
}

/// The rules of a run. The first rule that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The list. It names each file of directories once.
    pub items: Vec<RuleItem>,
    /// Whether the rules select the entries to copy ([`Sides::Source`]; also the default) or protect from deletion
    /// ([`Sides::Destination`]).
    pub side: Sides,
    /// The name of the root in the transfer; empty if only the contents of the root are transferred.
    ///
    /// In `haul copy src dst` a pattern sees `src/file`, in `haul copy src/ dst` it sees `file`.
    #[serde(with = "serde_bytes")]
    pub root_name: Vec<u8>,
    /// Perishable rules count for nothing.
    pub ignores_perishable: bool,
}

/// The absolute path of a root, and the files of rules in the directories above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesAbove {
    /// The absolute path of the root.
    #[serde(with = "serde_bytes")]
    pub root: Vec<u8>,
    /// The files that there are.
    pub files: Vec<AboveFile>,
}

/// A file in a directory above a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboveFile {
    /// The absolute path of the directory.
    #[serde(with = "serde_bytes")]
    pub dir: Vec<u8>,
    /// Its name.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Its content.
    #[serde(with = "serde_bytes")]
    pub text: Vec<u8>,
}

/// Why an entry is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// A perishable rule alone excludes it.
    pub perishable: bool,
}

impl From<Vec<Rule>> for Rules {
    fn from(rules: Vec<Rule>) -> Self {
        Self { items: rules.into_iter().map(RuleItem::Rule).collect(), ..Self::default() }
    }
}

impl Rules {
    /// The same rules for a root that has `name` in the transfer.
    #[must_use]
    pub fn below(&self, name: &[u8]) -> Self {
        Self { root_name: name.to_vec(), ..self.clone() }
    }

    /// The same rules as protection from deletion.
    #[must_use]
    pub fn of_destination(&self) -> Self {
        Self { side: Sides::Destination, ..self.clone() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether rules are read in the directories of the tree.
    #[must_use]
    pub fn are_in_tree(&self) -> bool {
        self.dir_merges().next().is_some()
    }

    pub(super) fn dir_merges(&self) -> impl Iterator<Item = &MergeRule> {
        self.items.iter().filter_map(|item| match item {
            RuleItem::DirMerge(merge) => Some(merge),
            RuleItem::Rule(_) => None,
        })
    }

    pub(super) fn counts(&self, sides: Sides) -> bool {
        sides.include(if self.side == Sides::Destination { Sides::Destination } else { Sides::Source })
    }

    /// The names of the files to look for in the directories above the root.
    #[must_use]
    pub fn names_above(&self) -> Vec<Vec<u8>> {
        let merges = self.dir_merges().filter(|merge| merge.dir().is_some());
        merges
            .filter(|merge| self.counts(merge.format.sides.unwrap_or_default()))
            .map(|m| m.name().to_vec())
            .collect()
    }

    /// Whether something outside of the root counts: see [`RulesAbove`].
    #[must_use]
    pub fn look_above(&self) -> bool {
        // A file of a directory may have rules for absolute paths.
        self.items.iter().any(|item| match item {
            RuleItem::Rule(rule) => rule.absolute,
            RuleItem::DirMerge(_) => true,
        })
    }

    /// Whether the list excludes the root. It does not if the root has no name in the transfer.
    #[must_use]
    pub fn exclude_root(&self, is_dir: bool) -> bool {
        let filter = Filter { rules: self, root: Vec::new() };
        filter.excludes(&DirRules::default(), &RelPath::root(), is_dir).is_some()
    }
}

/// The rules of a run below one root.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    pub(super) rules: &'a Rules,
    /// The absolute path of the root; empty if no rule needs it.
    pub(super) root: Vec<u8>,
}

impl<'a> Filter<'a> {
    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &'a Rules {
        self.rules
    }

    /// Whether the list excludes an entry of a directory with these rules. A scan goes from the root downwards and skips
    /// everything below an excluded directory, so this does not look at the directories above `path`.
    #[must_use]
    pub fn excludes(&self, dir: &DirRules, path: &RelPath, is_dir: bool) -> Option<Excluded> {
        let rules = self.rules;
        let text = self.in_transfer(path);
        let judge = |rule: &Rule, base: Option<&RuleBase>| {
            let counts = rules.counts(rule.sides) && !(rules.ignores_perishable && rule.perishable);
            counts && self.matches(rule, base, path, &text, is_dir)
        };
        let mut merges = 0;
        let decides = rules.items.iter().find_map(|item| match item {
            RuleItem::Rule(rule) => judge(rule, None).then(|| rule.clone()),
            RuleItem::DirMerge(_) => {
                merges += 1;
                dir.find(merges - 1, &mut |FileRule { rule, base }| judge(rule, Some(base)))
            }
        });
        decides.filter(|rule| !rule.include).map(|rule| Excluded { perishable: rule.perishable })
    }

    /// The path of an entry in the transfer.
    fn in_transfer<'b>(&self, path: &'b RelPath) -> Cow<'b, [u8]> {
        let name = &self.rules.root_name;
        if name.is_empty() {
            return Cow::Borrowed(path.as_bytes());
        }
        let slash: &[u8] = if path.is_root() { b"" } else { b"/" };
        Cow::Owned([&name[..], slash, path.as_bytes()].concat())
    }

    fn matches(
        &self,
        rule: &Rule,
        base: Option<&RuleBase>,
        path: &RelPath,
        text: &[u8],
        is_dir: bool,
    ) -> bool {
        if rule.absolute {
            let root = self.root.strip_prefix(b"/").unwrap_or(&self.root);
            let slash: &[u8] = if root.is_empty() || path.is_root() { b"" } else { b"/" };
            return rule.matches(&[root, slash, path.as_bytes()].concat(), is_dir);
        }
        match base.filter(|_| rule.pattern.starts_with(b"/")) {
            None => rule.matches(text, is_dir),
            Some(RuleBase::Dir(dir)) => {
                let below = path.as_bytes().strip_prefix(dir.as_bytes()).unwrap_or_default();
                rule.matches(below.strip_prefix(b"/").unwrap_or(below), is_dir)
            }
            Some(RuleBase::Above(way)) => {
                let slash: &[u8] = if path.is_root() { b"" } else { b"/" };
                rule.matches(&[&way[..], slash, path.as_bytes()].concat(), is_dir)
            }
        }
    }
}

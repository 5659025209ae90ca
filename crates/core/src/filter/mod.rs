//! Include and exclude rules in rsync's pattern language.
//!
//! The language is that of rsync(1), "PATTERN MATCHING RULES", with the corner cases of its implementation. Patterns
//! and paths are bytes. Matching takes time proportional to pattern length × path length for every pattern.
//!
//! A list of [`Rules`] may name files with further rules, which are read in each directory. An end opens the list as a
//! [`Filter`], and gives each directory of a scan its [`DirRules`] ([`Filter::enter`]).
//!
//! ```
//! use haul_core::RelPath;
//! use haul_core::filter::{Filter, Rule, Rules};
//!
//! let rules = Rules::from(vec![Rule::include("*.c"), Rule::include("*/"), Rule::exclude("*")]);
//! let (filter, top) = Filter::open(&rules, |_| unreachable!("no rule is about anything above the root"))?;
//! let is_excluded = |path: &[u8], is_dir| {
//!     RelPath::new(path).map(|path| filter.excludes(&top, &path, is_dir).is_some()).unwrap()
//! };
//! assert!(!is_excluded(b"src/main.c", false));
//! assert!(!is_excluded(b"src", true));
//! assert!(is_excluded(b"src/main.o", false));
//! # Ok::<(), haul_core::Error>(())
//! ```

mod dir_rules;
mod enter;
mod files;
mod format;
pub mod parse;
mod pattern;
mod rule;
mod rules;
#[cfg(test)]
mod tests;
mod wild;

pub use dir_rules::DirRules;
pub use enter::{MAX_RULES_LEN, ReadRuleFile};
pub use files::{IS_LINK, RulesReader, look_above, read_rules};
pub use format::{MergeRule, Prefixes, RuleFormat};
pub use rule::{Rule, Sides};
pub use rules::{AboveFile, Excluded, Filter, RuleItem, Rules, RulesAbove};

/// Whether a pattern with `*`, `?` and `[` matches the whole of a name.
#[must_use]
pub fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    wild::matches(&wild::compile(pattern), name, false)
}

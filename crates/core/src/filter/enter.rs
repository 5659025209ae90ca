//! Reads the files of rules: those above the root when a filter is opened, and those of each directory of a scan.

use std::sync::Arc;

use super::dir_rules::{DirRuleItem, DirRules, RuleBase, RuleChunk, RuleList};
use super::format::MergeRule;
use super::parse::{BadRule, Parsed, parse_file};
use super::rule::Rule;
use super::rules::{Filter, Rules, RulesAbove};
use crate::error::{Error, ErrorKind, Result, Side};
use crate::path::RelPath;

/// The most bytes of rules in one file, and in all files that count in one directory.
pub const MAX_RULES_LEN: usize = 1024 * 1024;
/// The most files of each directory, and of files that one names after the other.
const MAX_MERGES: usize = 32;

/// Reads a file below the root; `None` if there is none.
pub type ReadRuleFile<'a> = &'a mut dyn FnMut(&RelPath) -> Result<Option<Vec<u8>>>;

/// The rules before the root is entered: of files above it.
fn top(rules: &Rules, above: &RulesAbove) -> Result<DirRules> {
    let lists: Vec<_> = rules
        .dir_merges()
        .map(|merge| Some(RuleList { merge: Arc::new(merge.clone()), head: None }))
        .collect();
    let mut reader = RuleFileReader { lists, len: 0, depth: 0 };
    for list in 0..reader.lists.len() {
        let Some(merge) = reader.lists[list].as_ref().map(|list| Arc::clone(&list.merge)) else {
            continue;
        };
        let Some(from) = merge.dir().map(|dir| absolute(&above.root, dir)) else { continue };
        for file in
            above.files.iter().filter(|file| file.name == merge.name() && is_at_or_below(&file.dir, &from))
        {
            let way = below(&above.root, &file.dir).to_vec();
            let shown = [&file.dir[..], b"/", &file.name].concat();
            reader.take(list, RuleBase::Above(way), &file.text, &shown, None)?;
            if merge.is_private {
                reader.clear(list);
            }
        }
    }
    Ok(DirRules { lists: Arc::new(reader.lists), len: reader.len })
}

impl<'a> Filter<'a> {
    /// Prepares rules for a root, and returns those that files above the root add. `above` reads these files.
    ///
    /// # Errors
    /// Those of `above`; [`crate::ErrorKind::Usage`] if a file has a text that is no rule.
    pub fn open(
        rules: &'a Rules,
        above: impl FnOnce(&[Vec<u8>]) -> Result<RulesAbove>,
    ) -> Result<(Self, DirRules)> {
        let above = if rules.look_above() { above(&rules.names_above())? } else { RulesAbove::default() };
        let top = top(rules, &above)?;
        Ok((Self { rules, root: above.root }, top))
    }

    /// The files of rules to read in `dir`, whose parent has the rules `above`.
    #[must_use]
    pub fn files_in(&self, above: &DirRules, dir: &RelPath) -> Vec<RelPath> {
        let lists = above.lists.iter().flatten();
        let counting = lists.filter(|list| self.rules.counts(list.merge.format.sides.unwrap_or_default()));
        counting.filter_map(|list| dir.join(list.merge.name()).ok()).collect()
    }

    /// The rules of `dir`, whose parent has the rules `above`; for the root, `above` are those of [`Filter::open`].
    ///
    /// # Errors
    /// Those of `read`; [`ErrorKind::Usage`] if a file has a text that is no rule, or is too long.
    pub fn enter(&self, above: &DirRules, dir: &RelPath, read: ReadRuleFile<'_>) -> Result<DirRules> {
        if above.lists.is_empty() {
            return Ok(above.clone());
        }
        let mut reader = RuleFileReader { lists: above.lists.to_vec(), len: above.len, depth: 0 };
        let (mut is_new, mut at) = (false, 0);
        // The file of one list may add others.
        while at < reader.lists.len() {
            let Some(list) = reader.lists[at].as_mut() else {
                at += 1;
                continue;
            };
            let merge = Arc::clone(&list.merge);
            is_new |= merge.is_private && list.head.take().is_some();
            if self.rules.counts(merge.format.sides.unwrap_or_default())
                && let Ok(path) = dir.join(merge.name())
                && let Some(text) = read(&path)?
            {
                is_new = true;
                reader.take(
                    at,
                    RuleBase::Dir(dir.clone()),
                    &text,
                    path.as_bytes(),
                    Some((dir, &mut *read)),
                )?;
            }
            at += 1;
        }
        if !is_new {
            return Ok(above.clone());
        }
        Ok(DirRules { lists: Arc::new(reader.lists), len: reader.len })
    }

    /// The rules of a directory anywhere below the root.
    ///
    /// # Errors
    /// As [`Filter::enter`].
    pub fn enter_all(&self, top: &DirRules, dir: &RelPath, read: ReadRuleFile<'_>) -> Result<DirRules> {
        let mut rules = top.clone();
        if rules.lists.is_empty() {
            return Ok(rules);
        }
        let ends = dir.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let all = std::iter::once(0).chain(ends).chain([dir.as_bytes().len()]);
        for (number, end) in all.enumerate() {
            if (number == 0) == (end == 0)
                && let Some(dir) = dir.ancestor(end)
            {
                rules = self.enter(&rules, &dir, &mut *read)?;
            }
        }
        Ok(rules)
    }
}

/// Where a file is that others may be relative to, and how these are read.
type RelativeTo<'a, 'b> = Option<(&'a RelPath, ReadRuleFile<'b>)>;

struct RuleFileReader {
    lists: Vec<Option<RuleList>>,
    len: usize,
    depth: usize,
}

/// A failure in a file: a text that is no rule, or another error.
enum RuleFileError {
    Bad(BadRule),
    Other(Error),
}

impl From<BadRule> for RuleFileError {
    fn from(bad: BadRule) -> Self {
        Self::Bad(bad)
    }
}

fn refused(why: impl Into<String>, file: &[u8]) -> Error {
    Error::new(ErrorKind::Usage, Side::Source, "read the filter rules", why).on(file)
}

impl RuleFileReader {
    fn clear(&mut self, list: usize) {
        if let Some(list) = self.lists.get_mut(list).and_then(Option::as_mut) {
            list.head = None;
        }
    }

    /// Puts the rules of a file in front of a list.
    fn take(
        &mut self,
        list: usize,
        base: RuleBase,
        text: &[u8],
        shown: &[u8],
        beside: RelativeTo<'_, '_>,
    ) -> Result<()> {
        let Some(found) = self.lists.get(list).and_then(Option::as_ref) else { return Ok(()) };
        let (merge, inherited) = (Arc::clone(&found.merge), found.head.clone());
        let mut chunk = RuleChunk { base, items: Vec::new(), next: inherited };
        match &merge.tag {
            None => self.add(&mut chunk, &merge, text, shown, beside)?,
            Some(signature) if !text.starts_with(signature) => return Ok(()),
            Some(_) => {
                let rules = [Rule::include(literal(merge.name())), Rule::exclude("*")];
                chunk.items.extend(rules.map(|rule| DirRuleItem::Rule(rule.at(merge.format.plain))));
            }
        }
        if let Some(list) = self.lists.get_mut(list).and_then(Option::as_mut) {
            list.head = Some(Arc::new(chunk));
        }
        Ok(())
    }

    /// Adds the rules of a file to a chunk.
    fn add(
        &mut self,
        chunk: &mut RuleChunk,
        merge: &MergeRule,
        text: &[u8],
        shown: &[u8],
        mut beside: RelativeTo<'_, '_>,
    ) -> Result<()> {
        self.len += text.len();
        if self.len > MAX_RULES_LEN {
            return Err(refused(format!("more than {MAX_RULES_LEN} bytes of rules count here"), shown));
        }
        let parsed = parse_file(text, &merge.format, &mut |parsed| {
            let other = |error| Err(RuleFileError::Other(error));
            match parsed {
                Parsed::Rule(rule) => chunk.items.push(DirRuleItem::Rule(rule)),
                Parsed::Clear => {
                    for item in chunk.items.drain(..) {
                        if let DirRuleItem::List(number) = item {
                            self.lists[number] = None;
                        }
                    }
                    chunk.next = None;
                }
                Parsed::DirMerge(inner) if inner.dir().is_some() || beside.is_none() => {
                    return other(refused("dir-merge takes a name without a directory there", shown));
                }
                Parsed::DirMerge(inner) => {
                    if self.lists.iter().flatten().any(|list| list.merge.is_again(&inner)) {
                        return Ok(());
                    }
                    if self.lists.len() >= MAX_MERGES {
                        return other(refused("too many dir-merge rules count here", shown));
                    }
                    chunk.items.push(DirRuleItem::List(self.lists.len()));
                    self.lists.push(Some(RuleList { merge: Arc::new(inner), head: None }));
                }
                Parsed::Merge(inner) => {
                    let Some((dir, read)) = beside.as_mut() else {
                        return other(refused("merge is not possible in a file above the root", shown));
                    };
                    return self
                        .include(chunk, &inner, dir, &mut **read, shown)
                        .map_err(RuleFileError::Other);
                }
                Parsed::Cvs(_) => {
                    return other(refused("-C is possible on the command line only", shown));
                }
            }
            Ok(())
        });
        parsed.map_err(|trouble| match trouble {
            RuleFileError::Other(error) => error,
            RuleFileError::Bad(bad) => refused(format!("`{}`: {}", bad.text.escape_ascii(), bad.why), shown),
        })
    }

    /// Reads a file that another one names, relative to the directory of that one.
    fn include(
        &mut self,
        chunk: &mut RuleChunk,
        merge: &MergeRule,
        dir: &RelPath,
        read: ReadRuleFile<'_>,
        shown: &[u8],
    ) -> Result<()> {
        if self.depth >= MAX_MERGES {
            return Err(refused("merge files name each other, or too many in a row", shown));
        }
        let mut path = dir.clone();
        for name in merge.file.split(|byte| *byte == b'/').filter(|name| *name != b".") {
            path = path.join(name).map_err(|bad| {
                refused(format!("merge takes a file below the directory of this one: {bad}"), shown)
            })?;
        }
        let Some(text) = read(&path)? else {
            return Err(refused("a merge rule names this file, and it does not exist", path.as_bytes()));
        };
        self.depth += 1;
        let added = self.add(chunk, merge, &text, path.as_bytes(), Some((dir, read)));
        self.depth -= 1;
        added
    }
}

/// The pattern of a name in the directory of its rule.
fn literal(name: &[u8]) -> Vec<u8> {
    let is_wild = name.iter().any(|byte| b"*?[".contains(byte));
    let escaped = name.iter().flat_map(|byte| {
        let escape = is_wild && b"*?[\\".contains(byte);
        escape.then_some(b'\\').into_iter().chain([*byte])
    });
    [b'/'].into_iter().chain(escaped).collect()
}

/// An absolute path without `.` and `..`; `path` may be relative to `dir`.
pub(super) fn absolute(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let both = if path.starts_with(b"/") { path.to_vec() } else { [dir, b"/", path].concat() };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in both.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    [b"/".to_vec(), parts.join(&b'/')].concat()
}

/// The rest of an absolute path below a directory.
fn below<'a>(path: &'a [u8], dir: &[u8]) -> &'a [u8] {
    let rest = path.strip_prefix(dir).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest)
}

fn is_at_or_below(path: &[u8], dir: &[u8]) -> bool {
    dir == b"/" || path.strip_prefix(dir).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

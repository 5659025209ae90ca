//! The rules that the files of directories add. Each directory inherits those of its parent, so directories share them.

use std::sync::Arc;

use super::format::MergeRule;
use super::rule::Rule;
use crate::path::RelPath;

/// The directory that the rules of a file are relative to.
#[derive(Clone, Debug)]
pub(super) enum RuleBase {
    /// A directory at or below the root.
    Dir(RelPath),
    /// A directory above the root: the path of the root from there.
    Above(Vec<u8>),
}

/// A rule of a file.
pub(super) struct FileRule<'a> {
    pub(super) rule: &'a Rule,
    pub(super) base: &'a RuleBase,
}

#[derive(Debug)]
pub(super) enum DirRuleItem {
    Rule(Rule),
    /// The number of a further list.
    List(usize),
}

/// The rules of one file, followed by those that its directory inherits.
#[derive(Debug)]
pub(super) struct RuleChunk {
    pub(super) base: RuleBase,
    pub(super) items: Vec<DirRuleItem>,
    pub(super) next: Option<Arc<RuleChunk>>,
}

impl Drop for RuleChunk {
    /// In a loop, because the tree decides how deep it is.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut last) = next.and_then(Arc::into_inner) {
            next = last.next.take();
        }
    }
}

/// The rules of the files with one name.
#[derive(Clone, Debug)]
pub(super) struct RuleList {
    pub(super) merge: Arc<MergeRule>,
    pub(super) head: Option<Arc<RuleChunk>>,
}

/// The rules that count in one directory, besides those of the run.
#[derive(Clone, Debug, Default)]
pub struct DirRules {
    /// In the order in which the files were named. A list that the `!` of its file has dropped is `None`.
    pub(super) lists: Arc<Vec<Option<RuleList>>>,
    /// The bytes of all files.
    pub(super) len: usize,
}

impl DirRules {
    /// The first rule of list `list` that `holds`.
    pub(super) fn find(&self, list: usize, holds: &mut dyn FnMut(FileRule<'_>) -> bool) -> Option<Rule> {
        let head = |list: usize| self.lists.get(list)?.as_ref()?.head.as_deref();
        // A list contains lists with higher numbers only.
        let mut todo: Vec<(&RuleChunk, usize)> = head(list).map(|chunk| (chunk, 0)).into_iter().collect();
        while let Some((chunk, at)) = todo.pop() {
            let Some(item) = chunk.items.get(at) else {
                todo.extend(chunk.next.as_deref().map(|next| (next, 0)));
                continue;
            };
            match item {
                DirRuleItem::Rule(rule) if holds(FileRule { rule, base: &chunk.base }) => {
                    return Some(rule.clone());
                }
                DirRuleItem::Rule(_) => todo.push((chunk, at + 1)),
                DirRuleItem::List(inner) => {
                    todo.push((chunk, at + 1));
                    todo.extend(head(*inner).map(|chunk| (chunk, 0)));
                }
            }
        }
        None
    }
}

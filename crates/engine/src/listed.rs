//! Which paths a scan of the source lists: those that exist, and that the filter rules do not exclude.

use std::collections::{BTreeSet, HashMap, HashSet};

use haul_core::filter::{DirRules, Filter, Rules, RulesReader};
use haul_core::sync::Mutex;
use haul_core::{Entry, RelPath, Result, Source};

/// The most directories whose rules are remembered.
const REMEMBERED: usize = 20_000;

/// Tells which entries a scan of a source lists.
pub(crate) struct ListedEntries<'a> {
    source: &'a dyn Source,
    filter: Filter<'a>,
    /// The rules of files above the root.
    top: DirRules,
    known: Mutex<HashMap<RelPath, DirState>>,
    /// Excluded directories above the starts of a scan: the scan still lists the entries below the starts.
    opened: Mutex<HashSet<RelPath>>,
}

/// The state of a directory in a scan.
#[derive(Clone)]
enum DirState {
    /// It or a directory above it is excluded.
    Hidden,
    Rules(DirRules),
    /// Its rules cannot be read.
    Unknown(haul_core::Error),
}

impl<'a> ListedEntries<'a> {
    /// # Errors
    /// If files of rules above the root are needed and cannot be read.
    pub(crate) fn new(source: &'a dyn Source, rules: &'a Rules) -> Result<Self> {
        let (filter, top) = Filter::open(rules, |names| source.above(names))?;
        Ok(Self { source, filter, top, known: Mutex::default(), opened: Mutex::default() })
    }

    /// Whether the scan lists the entry at each path: one result for each, in order.
    ///
    /// # Errors
    /// If the source cannot answer.
    pub(crate) fn lists(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        if self.filter.rules().is_empty() {
            return self.source.holds(paths);
        }
        let parents: BTreeSet<RelPath> = paths.iter().filter_map(RelPath::parent).collect();
        let rules = self.rules_of(parents)?;
        // Mostly the kind of the entry does not matter, and whether it exists is cheaper to ask.
        let (mut to_hold, mut to_look) = (Vec::new(), Vec::new());
        let mut lists: Vec<Result<bool>> = Vec::with_capacity(paths.len());
        for (at, path) in paths.iter().enumerate() {
            let is_opened = self.opened.lock().contains(path);
            let excluded = |is_dir| match path.parent().map(|parent| rules.get(&parent)) {
                None => Ok(false),
                Some(Some(DirState::Rules(_))) if is_opened => Ok(false),
                Some(Some(DirState::Rules(rules))) => Ok(self.filter.excludes(rules, path, is_dir).is_some()),
                Some(Some(DirState::Hidden) | None) => Ok(true),
                Some(Some(DirState::Unknown(error))) => Err(error.clone()),
            };
            lists.push(match (excluded(false), excluded(true)) {
                (Ok(true), Ok(true)) => Ok(false),
                (Ok(file), Ok(dir)) if file == dir => {
                    to_hold.push(at);
                    Ok(true)
                }
                (Ok(file), Ok(_)) => {
                    to_look.push(at);
                    Ok(file)
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            });
        }
        let of = |all: &[usize]| all.iter().filter_map(|at| paths.get(*at).cloned()).collect::<Vec<_>>();
        let held = if to_hold.is_empty() { Vec::new() } else { self.source.holds(&of(&to_hold))? };
        for (at, held) in to_hold.into_iter().zip(held) {
            lists[at] = held;
        }
        let found = if to_look.is_empty() { Vec::new() } else { self.source.lookup(&of(&to_look))? };
        for (at, found) in to_look.into_iter().zip(found) {
            let files_are_excluded = lists[at] == Ok(true);
            lists[at] = found.map(|entry| entry.is_some_and(|entry| entry.is_dir() == files_are_excluded));
        }
        Ok(lists)
    }

    /// Whether the scan lists a directory at each path: one result for each, in order.
    ///
    /// # Errors
    /// If the source cannot answer.
    pub(crate) fn lists_dirs(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        let found = self.source.lookup(paths)?;
        let is_dir =
            |found: Result<Option<Entry>>| found.map(|entry| entry.is_some_and(|entry| entry.is_dir()));
        if self.filter.rules().is_empty() {
            return Ok(found.into_iter().map(is_dir).collect());
        }
        let both = self.lists(paths)?.into_iter().zip(found);
        Ok(both.map(|(listed, found)| Ok(listed? && is_dir(found)?)).collect())
    }

    /// Lists the entries at these paths and below them even if a directory above is excluded, like a scan that begins
    /// at these paths. Returns for each path the nearest excluded directory above it.
    ///
    /// # Errors
    /// If the source cannot answer.
    pub(crate) fn open_above(&self, paths: &[RelPath]) -> Result<Vec<Option<RelPath>>> {
        if self.filter.rules().is_empty() {
            return Ok(vec![None; paths.len()]);
        }
        let parents: BTreeSet<RelPath> = paths.iter().filter_map(RelPath::parent).collect();
        loop {
            let dirs = self.rules_of(parents.clone())?;
            let mut known = self.known.lock();
            let is_hidden = |dir: &RelPath| matches!(known.get(dir), Some(DirState::Hidden));
            let topmost = |mut dir: RelPath| {
                while let Some(parent) = dir.parent().filter(is_hidden) {
                    dir = parent;
                }
                dir
            };
            let hidden = dirs.into_keys().filter(is_hidden);
            let topmost: HashSet<RelPath> = hidden.map(topmost).collect();
            if topmost.is_empty() {
                break;
            }
            self.opened.lock().extend(topmost);
            known.clear();
        }
        let opened = self.opened.lock();
        let nearest = |path: &RelPath| {
            let mut above = path.parent();
            while let Some(dir) = &above
                && !opened.contains(dir)
            {
                above = dir.parent();
            }
            above
        };
        Ok(paths.iter().map(nearest).collect())
    }

    /// The states of these directories.
    fn rules_of(&self, dirs: BTreeSet<RelPath>) -> Result<HashMap<RelPath, DirState>> {
        let mut known = self.known.lock();
        if known.len() > REMEMBERED {
            known.clear();
        }
        // The directories to find out about, by depth.
        let mut levels: Vec<BTreeSet<RelPath>> = Vec::new();
        for dir in &dirs {
            let mut next = Some(dir.clone());
            while let Some(path) = next.take().filter(|path| !known.contains_key(path)) {
                let depth = path.components().count();
                if levels.len() <= depth {
                    levels.resize_with(depth + 1, BTreeSet::new);
                }
                next = path.parent();
                if !levels[depth].insert(path) {
                    break;
                }
            }
        }
        for level in levels {
            let mut entered: Vec<(DirRules, RelPath)> = Vec::new();
            for dir in level {
                let above = match dir.parent().map(|parent| known.get(&parent).cloned()) {
                    None => DirState::Rules(self.top.clone()),
                    Some(above) => above.unwrap_or(DirState::Hidden),
                };
                match above {
                    DirState::Rules(above)
                        if dir.is_root()
                            || self.filter.excludes(&above, &dir, true).is_none()
                            || self.opened.lock().contains(&dir) =>
                    {
                        entered.push((above, dir));
                    }
                    DirState::Rules(_) => drop(known.insert(dir, DirState::Hidden)),
                    other => drop(known.insert(dir, other)),
                }
            }
            let asked: Vec<_> = entered.iter().map(|(above, dir)| (above, dir)).collect();
            let reader = RulesReader {
                lookup: &|paths| self.source.lookup(paths),
                read: &|batch| self.source.read(batch),
            };
            let rules = reader.enter(&self.filter, &asked)?;
            for ((_, dir), rules) in entered.into_iter().zip(rules) {
                known.insert(dir, rules.map_or_else(DirState::Unknown, DirState::Rules));
            }
        }
        Ok(dirs.into_iter().filter_map(|dir| known.get(&dir).cloned().map(|known| (dir, known))).collect())
    }
}

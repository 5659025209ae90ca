//! Reading files of rules with the operations of an end.

use std::collections::HashMap;
use std::sync::Arc;

use super::dir_rules::DirRules;
use super::enter::{MAX_RULES_LEN, ReadRuleFile, absolute};
use super::rules::{AboveFile, Filter, RulesAbove};
use crate::entry::{Entry, EntryKind};
use crate::error::{Error, ErrorKind, Result, Side};
use crate::path::RelPath;
use crate::slice::{Batch, BatchData, Slice};

/// Looks up paths.
type Lookup<'a> = &'a dyn Fn(&[RelPath]) -> Result<Vec<Result<Option<Entry>>>>;

/// Reads files of rules with two operations of an end.
pub struct RulesReader<'a> {
    /// Looks up paths: one result for each.
    pub lookup: Lookup<'a>,
    /// Reads slices.
    pub read: &'a dyn Fn(&Arc<Batch>) -> Result<BatchData>,
}

impl RulesReader<'_> {
    /// Reads the file at a path; `None` if there is none.
    ///
    /// # Errors
    /// As [`read_rules`], or the error of the lookup.
    pub fn read_at(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        let found = (self.lookup)(std::slice::from_ref(path))?.pop();
        read_rules(found.unwrap_or(Ok(None))?, self.read)
    }

    /// The rules of directories, whose parents have the rules given with them: one result for each, in order. All files
    /// are looked up at once: mostly there is none.
    ///
    /// # Errors
    /// If the whole lookup fails.
    pub fn enter(
        &self,
        filter: &Filter<'_>,
        dirs: &[(&DirRules, &RelPath)],
    ) -> Result<Vec<Result<DirRules>>> {
        let files: Vec<RelPath> = dirs.iter().flat_map(|(above, dir)| filter.files_in(above, dir)).collect();
        let found = if files.is_empty() { Vec::new() } else { (self.lookup)(&files)? };
        let mut known: HashMap<RelPath, Result<Option<Entry>>> = files.into_iter().zip(found).collect();
        let entered = dirs.iter().map(|(above, dir)| {
            filter.enter(above, dir, &mut |path| match known.remove(path) {
                Some(found) => read_rules(found?, self.read),
                None => self.read_at(path),
            })
        });
        Ok(entered.collect())
    }
}

/// Reads the file of rules that was found at a path; `read` reads its slices. A directory or a special file has no
/// rules.
///
/// # Errors
/// [`ErrorKind::Usage`] if the file is too long, [`ErrorKind::Unsupported`] if it is a symbolic link; the error of the
/// read.
pub fn read_rules(
    found: Option<Entry>,
    read: impl FnOnce(&Arc<Batch>) -> Result<BatchData>,
) -> Result<Option<Vec<u8>>> {
    let Some(entry) = found else { return Ok(None) };
    let failed = |kind, why: &str| {
        Err(Error::new(kind, Side::Source, "read the filter rules", why).on(entry.path.as_bytes()))
    };
    let len = match &entry.kind {
        EntryKind::File if entry.len > MAX_RULES_LEN as u64 => {
            return failed(ErrorKind::Usage, "the file has more than 1 MiB");
        }
        EntryKind::File => entry.len as usize,
        EntryKind::Symlink(_) => return failed(ErrorKind::Unsupported, IS_LINK),
        _ => return Ok(None),
    };
    let batch =
        Batch { entries: vec![Arc::new(entry.clone())], slices: vec![Slice::whole(0, 0)], again: false };
    let data = read(&Arc::new(batch))?;
    let Some(slice) = data.slices.into_iter().next() else { return failed(ErrorKind::Protocol, "no answer") };
    let (mut text, mut used) = (vec![0; len], 0);
    for extent in slice?.extents {
        let (start, len) = (extent.start as usize, extent.len as usize);
        let (to, from) = (text.get_mut(start..start + len), data.content.bytes().get(used..used + len));
        let (Some(to), Some(from)) = (to, from) else { return failed(ErrorKind::Protocol, "a wrong length") };
        to.copy_from_slice(from);
        used += len;
    }
    Ok(Some(text))
}

/// The cause of an error of a file of rules that is a symbolic link.
pub const IS_LINK: &str = "it is a symbolic link, and rules are read from regular files only";

/// Looks for files in the directories above a root: those of [`RulesAbove`]. `read` gets paths below `/`.
///
/// # Errors
/// Those of `read`.
pub fn look_above(root: &[u8], names: &[Vec<u8>], read: ReadRuleFile<'_>) -> Result<RulesAbove> {
    let root = absolute(b"/", root);
    let mut above = RulesAbove { root: root.clone(), files: Vec::new() };
    let ends = root.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends.filter(|_| root.len() > 1) {
        let dir = if end == 0 { &b"/"[..] } else { &root[..end] };
        for name in names {
            let full = [dir, &b"/"[..usize::from(end > 0)], name].concat();
            let Ok(path) = RelPath::new(full.strip_prefix(b"/").unwrap_or(&full)) else { continue };
            if let Some(text) = read(&path)? {
                above.files.push(AboveFile { dir: dir.to_vec(), name: name.clone(), text });
            }
        }
    }
    Ok(above)
}

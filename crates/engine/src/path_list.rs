//! The paths of a list that a run needs again after it has read them: outside of memory, each once.

use haul_core::{Error, RelPath, Result, ScanOptions, Side, Source};
use haul_spool::{Sorter, Spool};
use serde_bytes::ByteBuf;

use crate::answers::one_each;
use crate::chunks::chunks;
use crate::listed::ListedEntries;
use crate::path_key::{is_below, path_key, path_of_key};

/// The number of paths in one scan.
pub(crate) const PATHS_PER_SCAN: usize = 1000;

/// Collects the paths of a list.
#[derive(Default)]
pub(crate) struct PathList(Sorter<ByteBuf>);

impl PathList {
    /// Adds a path.
    ///
    /// # Errors
    /// `Io` if the list cannot be written.
    pub(crate) fn add(&mut self, path: &RelPath) -> Result<()> {
        self.0.push(path_key(path)).map_err(|error| list_error(&error))
    }

    /// The paths without those that are below another one: a scan of that one finds them, unless it does not enter a
    /// directory between the two. `hiders` returns, for each path, the nearest directory above that no scan enters.
    /// Returns also the first path that is kept although it is below another one.
    ///
    /// # Errors
    /// `Io` if the list cannot be read; the error of `hiders`.
    pub(crate) fn outermost(
        self,
        mut hiders: impl FnMut(&[RelPath]) -> Result<Vec<Option<RelPath>>>,
    ) -> Result<(Spool<RelPath>, Option<RelPath>)> {
        let mut outermost = Outermost::default();
        let mut paths: Vec<RelPath> = Vec::new();
        for key in self.0.sorted().map_err(|error| list_error(&error))? {
            let key = key.map_err(|error| list_error(&error))?;
            paths.push(path_of_key(&key).map_err(|bad| list_error(&std::io::Error::other(bad)))?);
            if paths.len() == PATHS_PER_SCAN {
                outermost.add(&paths, hiders(&paths)?)?;
                paths.clear();
            }
        }
        outermost.add(&paths, hiders(&paths)?)?;
        Ok((outermost.kept, outermost.hidden))
    }
}

/// The paths of a list that are kept, while they are read in order.
#[derive(Default)]
struct Outermost {
    kept: Spool<RelPath>,
    /// The kept paths that the next one may be below, from the outermost on.
    above: Vec<ByteBuf>,
    /// The first path that is kept although it is below another one.
    hidden: Option<RelPath>,
}

impl Outermost {
    fn add(&mut self, paths: &[RelPath], hiders: Vec<Option<RelPath>>) -> Result<()> {
        for (path, hider) in paths.iter().zip(hiders) {
            let key = path_key(path);
            while self.above.last().is_some_and(|above| *above != key && !is_below(&key, above)) {
                self.above.pop();
            }
            if let Some(above) = self.above.last() {
                let hider = hider.map(|hider| path_key(&hider));
                if !hider.is_some_and(|hider| hider == *above || is_below(&hider, above)) {
                    continue;
                }
                self.hidden.get_or_insert_with(|| path.clone());
            }
            self.kept.push(path).map_err(|error| list_error(&error))?;
            self.above.push(key);
        }
        Ok(())
    }
}

/// Returns the paths that are directories at both ends and that a scan of the source lists: the entries below them can
/// be compared. `too` adds other paths that are directories at the destination.
///
/// # Errors
/// The error of an end that cannot answer; `Io` if a list cannot be read or written.
pub(crate) fn common_dirs(
    paths: &Spool<RelPath>,
    listed: &ListedEntries<'_>,
    destination: &dyn Source,
    too: impl Fn(&RelPath) -> bool,
) -> Result<Spool<RelPath>> {
    let mut dirs = Spool::default();
    each_chunk(paths, |paths| {
        let is_dir = one_each(listed.lists_dirs(paths)?, paths.len(), Side::Wire, "look up the list")?;
        // A directory that cannot be looked up is named where it is copied or compared.
        let both = paths.iter().zip(is_dir).filter(|(path, is_dir)| *is_dir == Ok(true) || too(path));
        let paths: Vec<RelPath> = both.map(|(path, _)| path.clone()).collect();
        let is_dir = are_dirs(destination, &paths).map_err(|error| match error.side() {
            Side::Source => error.with_side(Side::Destination),
            _ => error,
        });
        for (path, is_dir) in paths.iter().zip(is_dir?) {
            if is_dir {
                dirs.push(path).map_err(|error| list_error(&error))?;
            }
        }
        Ok(())
    })?;
    Ok(dirs)
}

/// Whether there is a directory at each path. One that cannot be looked up is named where it is copied or compared.
///
/// # Errors
/// If the end cannot answer.
pub(crate) fn are_dirs(end: &dyn Source, paths: &[RelPath]) -> Result<Vec<bool>> {
    let found = one_each(end.lookup(paths)?, paths.len(), Side::Wire, "look up the list")?;
    Ok(found.into_iter().map(|entry| matches!(entry, Ok(Some(entry)) if entry.is_dir())).collect())
}

/// Calls `visit` with options for each scan of `paths`.
///
/// # Errors
/// `Io` if the list cannot be read, or the error of `visit`.
pub(crate) fn each_scan(
    paths: &Spool<RelPath>,
    options: &ScanOptions,
    mut visit: impl FnMut(&ScanOptions) -> Result<()>,
) -> Result<()> {
    each_chunk(paths, |starts| visit(&ScanOptions { starts: starts.to_vec(), ..options.clone() }))
}

fn each_chunk(paths: &Spool<RelPath>, mut visit: impl FnMut(&[RelPath]) -> Result<()>) -> Result<()> {
    let mut ended = Ok(());
    let read = paths.forwards(|paths: Vec<RelPath>| -> std::io::Result<()> {
        let chunks = &mut chunks(&paths, PATHS_PER_SCAN, |path| path.as_bytes().len());
        ended = std::mem::replace(&mut ended, Ok(())).and_then(|()| chunks.try_for_each(&mut visit));
        Ok(())
    });
    ended.and(read.map_err(|error| list_error(&error)))
}

fn list_error(error: &std::io::Error) -> Error {
    Error::list("listed paths", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_a_listed_one_is_no_start_of_its_own() {
        let outermost = |names: &[&str], hidden: Option<(&str, &str)>| {
            let path = |name: &str| RelPath::new(name.as_bytes()).unwrap();
            let mut listed = PathList::default();
            names.iter().for_each(|name| listed.add(&path(name)).unwrap());
            let hider = |at: &RelPath| hidden.filter(|(of, _)| *at == path(of)).map(|(_, hider)| path(hider));
            let (kept, hidden) = listed.outermost(|paths| Ok(paths.iter().map(hider).collect())).unwrap();
            let mut found = Vec::new();
            each_chunk(&kept, |paths| {
                found.extend(paths.iter().map(ToString::to_string));
                Ok(())
            })
            .unwrap();
            (found, hidden.map(|path| path.to_string()))
        };
        let some = &["a-b", "a/c", "b/d", "a", "b/d", "ab"];
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(outermost(some, None), (names(&["a", "a-b", "ab", "b/d"]), None));
        assert_eq!(outermost(some, Some(("b/d", "b"))), (names(&["a", "a-b", "ab", "b/d"]), None));
        assert_eq!(outermost(&["a", ""], None).0.len(), 1);
        assert!(outermost(&[], None).0.is_empty());
        let nested = outermost(&["a", "a/b/c", "a/b/c/d", "a/e"], Some(("a/b/c", "a/b")));
        assert_eq!(nested, (names(&["a", "a/b/c"]), Some("a/b/c".to_owned())));
    }
}

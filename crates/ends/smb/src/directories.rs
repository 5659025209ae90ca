//! The entries of directories: one listing of a directory answers for all of its names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::staging::is_staging_name;
use haul_core::sync::Mutex;
use haul_core::{RelPath, Result};
use haul_ends::cache::Cache;
use haul_ends::folded_names::{FoldedNames, folded};

use super::attrs::Attrs;
use super::listing::DirectoryListing;
use super::reply::Fault;
use super::tree::Tree;

/// From this number of names on, the directory of a source is listed.
const LIST_FROM: usize = 4;
/// Names to remember, of all directories together. A directory with more is not listed, but asked for each name.
const REMEMBERED: usize = 256 * 1024;
/// Directories to remember as existing.
const KNOWN: usize = 64 * 1024;

/// The names of a directory.
#[derive(Default)]
struct ListedNames {
    /// `None`: this run has changed the entry since.
    exact: HashMap<Vec<u8>, Option<Attrs>>,
    /// The hashes of the names without their case.
    folded: HashSet<u64>,
}

impl ListedNames {
    /// Returns whether the name is new.
    fn put(&mut self, name: Vec<u8>, attrs: Option<Attrs>) -> bool {
        self.folded.insert(folded(&name));
        self.exact.insert(name, attrs).is_none()
    }
}

/// The known state of the directories of a destination.
#[derive(Default)]
pub(super) struct DestinationDirectories {
    /// The names of the source.
    names: FoldedNames,
    /// Whether the server took a name for an entry of another spelling. A share may tell case apart.
    folds: AtomicBool,
    /// Directories in which the server took a name for that of an entry which the source may not have.
    guarded: Mutex<HashSet<RelPath>>,
    known: KnownDirectories,
    listed: Mutex<ListedDirectories>,
}

#[derive(Default)]
struct ListedDirectories {
    /// `None`: the directory has too many names.
    directories: HashMap<RelPath, Option<ListedNames>>,
    names: usize,
}

impl ListedDirectories {
    fn put(&mut self, dir: RelPath, names: Option<ListedNames>) {
        let count = names.as_ref().map_or(0, |names| names.exact.len()) + 1;
        if self.names + count >= REMEMBERED {
            *self = Self::default();
        }
        self.names += count;
        self.directories.insert(dir, names);
    }
}

/// Directories that exist.
struct KnownDirectories(Mutex<Cache<RelPath, ()>>);

impl Default for KnownDirectories {
    fn default() -> Self {
        Self(Mutex::new(Cache::new(KNOWN)))
    }
}

impl DestinationDirectories {
    /// The directory exists.
    pub(super) fn know(&self, dir: &RelPath) {
        self.known.0.lock().put(dir.clone(), ());
    }

    fn knows(&self, dir: &RelPath) -> bool {
        self.known.0.lock().get(dir).is_some()
    }

    /// This run has created the directory: it is empty.
    pub(super) fn made(&self, dir: &RelPath) {
        self.know(dir);
        self.listed.lock().put(dir.clone(), Some(ListedNames::default()));
    }

    /// This run changes the entry at `path`, and with it the times of its directory.
    pub(super) fn touch(&self, path: &RelPath) {
        let Some(parent) = path.parent() else { return };
        self.doubt(path);
        self.doubt(&parent);
    }

    fn doubt(&self, path: &RelPath) {
        let Some(parent) = path.parent() else { return };
        let mut listed = self.listed.lock();
        if let Some(Some(names)) = listed.directories.get_mut(&parent) {
            let is_new = names.put(path.name().to_vec(), None);
            listed.names += usize::from(is_new);
        }
    }

    /// Forgets the directories at and below `path`, because it was replaced or removed.
    pub(super) fn forget(&self, path: &RelPath) {
        let gone = |dir: &RelPath| {
            let rest = dir.as_bytes().strip_prefix(path.as_bytes());
            path.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.known.0.lock().forget(gone);
        self.listed.lock().directories.retain(|dir, _| !gone(dir));
        self.touch(path);
    }

    /// The known state of an entry; `None` if haul has to ask the server.
    fn seen(&self, path: &RelPath) -> Option<SeenName> {
        let listed = self.listed.lock();
        let names = listed.directories.get(&path.parent()?)?.as_ref()?;
        match names.exact.get(path.name()) {
            Some(Some(attrs)) => Some(SeenName::Is(*attrs)),
            Some(None) => None,
            None if names.folded.contains(&folded(path.name())) => Some(SeenName::HasOther),
            None => Some(SeenName::Missing),
        }
    }

    /// Takes the name of an entry of the source. Returns whether the entry has it; not if the server takes another name
    /// of the source for the same one.
    pub(super) fn take(&self, path: &RelPath) -> bool {
        self.names.take(path) || !self.folds.load(Ordering::SeqCst)
    }

    /// Whether the server takes the name for that of another entry of the source.
    pub(super) fn is_taken(&self, path: &RelPath) -> bool {
        self.folds.load(Ordering::SeqCst) && self.names.is_other(path)
    }

    /// The server took the name of an entry for an unknown one of its directory: none of those is removed.
    pub(super) fn guard(&self, path: &RelPath) {
        self.folds.store(true, Ordering::SeqCst);
        self.guarded.lock().extend(path.parent());
    }

    /// Whether the entry may be one of the source under another name.
    pub(super) fn is_kept(&self, path: &RelPath) -> bool {
        if self.is_taken(path) {
            return true;
        }
        let guarded = self.guarded.lock();
        let mut at = path.parent().filter(|_| !guarded.is_empty());
        while let Some(dir) = at {
            if guarded.contains(&dir) {
                return true;
            }
            at = dir.parent();
        }
        false
    }

    /// The directories above these names that are not known to exist, outermost first.
    fn unknown_above(&self, paths: &[RelPath]) -> BTreeSet<RelPath> {
        let mut above = BTreeSet::new();
        for path in paths {
            let mut at = path.parent();
            while let Some(dir) = at.filter(|dir| !above.contains(dir) && !self.knows(dir)) {
                at = dir.parent();
                above.insert(dir);
            }
        }
        above
    }

    /// The directories above these names that do not exist; `true` if an entry of another kind has the name.
    fn lacking(&self, tree: &Tree, paths: &[RelPath]) -> Result<HashMap<RelPath, bool>> {
        let mut by_depth: BTreeMap<usize, Vec<RelPath>> = BTreeMap::new();
        for dir in self.unknown_above(paths) {
            by_depth.entry(dir.components().count()).or_default().push(dir);
        }
        let mut lacking = HashMap::new();
        for level in by_depth.into_values() {
            let is_lacking = |dir: &RelPath| dir.parent().is_some_and(|parent| lacking.contains_key(&parent));
            let (gone, level): (Vec<RelPath>, Vec<RelPath>) = level.into_iter().partition(is_lacking);
            lacking.extend(gone.into_iter().map(|dir| (dir, false)));
            self.list_dirs(tree, level.iter(), 1)?;
            let found = tree.smb.all(&level, |dir| self.find(tree, dir))?;
            for (dir, found) in level.into_iter().zip(found) {
                match found.map_err(|fault| tree.error("look at", &dir, fault))? {
                    Some(there) if there.is_dir() => self.know(&dir),
                    there => drop(lacking.insert(dir, there.is_some())),
                }
            }
        }
        Ok(lacking)
    }

    /// The entry that the server has or takes for this name.
    pub(super) async fn find(&self, tree: &Tree, path: &RelPath) -> Result<Option<Attrs>, Fault> {
        match self.seen(path) {
            Some(SeenName::Is(attrs)) => Ok(Some(attrs)),
            Some(SeenName::Missing) => Ok(None),
            Some(SeenName::HasOther) | None => self.ask(tree, path).await,
        }
    }

    /// The same, asked of the server.
    pub(super) async fn ask(&self, tree: &Tree, path: &RelPath) -> Result<Option<Attrs>, Fault> {
        let found = tree.find_any(path).await?;
        if found.is_some_and(|found| !found.is_exact) {
            self.folds.store(true, Ordering::SeqCst);
        }
        Ok(found.map(|found| found.attrs))
    }

    /// An entry, if it has exactly this name.
    async fn find_exact(&self, tree: &Tree, path: &RelPath) -> Result<Option<Attrs>, Fault> {
        match self.seen(path) {
            Some(SeenName::Is(attrs)) => Ok(Some(attrs)),
            Some(SeenName::Missing | SeenName::HasOther) => Ok(None),
            None => tree.find(path).await,
        }
    }

    /// Looks at the entries of these names. Their directories are listed.
    pub(super) fn look(&self, tree: &Tree, paths: &[RelPath]) -> Result<Looked> {
        let lacking = self.lacking(tree, paths)?;
        let reachable = |path: &RelPath| path.parent().is_none_or(|parent| !lacking.contains_key(&parent));
        self.list_dirs(tree, paths.iter().filter(|path| reachable(path)), 1)?;
        let found =
            tree.smb.all(
                paths,
                async |path: &RelPath| {
                    if reachable(path) { self.find(tree, path).await } else { Ok(None) }
                },
            )?;
        for (path, found) in paths.iter().zip(&found) {
            if matches!(found, Ok(Some(there)) if there.is_dir()) {
                self.know(path);
            }
        }
        Ok(Looked { found, lacking })
    }

    /// Lists the directories of which this many names are asked for.
    fn list_dirs<'a>(
        &self,
        tree: &Tree,
        paths: impl Iterator<Item = &'a RelPath>,
        least: usize,
    ) -> Result<()> {
        let mut asked: HashMap<RelPath, usize> = HashMap::new();
        for parent in paths.filter_map(RelPath::parent) {
            *asked.entry(parent).or_default() += 1;
        }
        let listed = |dir: &RelPath| self.listed.lock().directories.contains_key(dir);
        let several = asked.into_iter().filter(|(dir, count)| *count >= least && !listed(dir));
        let dirs: Vec<RelPath> = several.map(|(dir, _)| dir).collect();
        for (dir, names) in dirs.iter().zip(tree.smb.all(&dirs, |dir| names_in(tree, dir))?) {
            match names {
                Ok(names) => self.listed.lock().put(dir.clone(), names),
                // Its names cannot be listed: each is asked for.
                Err(Fault::Status(_)) => self.listed.lock().put(dir.clone(), None),
                Err(Fault::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the names of the staged files and journals that directories had when they were listed.
    pub(super) fn take_staged(&self, dirs: &BTreeSet<RelPath>) -> Vec<RelPath> {
        let mut listed = self.listed.lock();
        let mut all = Vec::new();
        for dir in dirs {
            if let Some(Some(names)) = listed.directories.get_mut(dir) {
                let staged = names.exact.extract_if(|name, _| is_staging_name(name));
                all.extend(staged.filter_map(|(name, _)| dir.join(&name).ok()));
            }
        }
        all
    }
}

/// The state of a name in a listing.
enum SeenName {
    Is(Attrs),
    Missing,
    /// Another name of the directory differs in case alone.
    HasOther,
}

/// The result of [`DestinationDirectories::look`].
pub(super) struct Looked {
    /// One result for each name.
    pub(super) found: Vec<Result<Option<Attrs>, Fault>>,
    /// Missing directories above the names; `true` if an entry of another kind has the name.
    pub(super) lacking: HashMap<RelPath, bool>,
}

/// The entries at paths as they are now. A directory of which several are asked for is listed.
pub(super) fn look_now(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<Option<Attrs>, Fault>>> {
    let directories = DestinationDirectories::default();
    directories.list_dirs(tree, paths.iter(), LIST_FROM)?;
    tree.smb.all(paths, |path| directories.find_exact(tree, path))
}

/// All names of a directory; `None` if they are too many.
async fn names_in(tree: &Tree, dir: &RelPath) -> Result<Option<ListedNames>, Fault> {
    let mut names = ListedNames::default();
    let mut listing = DirectoryListing::new(tree, dir);
    loop {
        match listing.next().await {
            Ok(Some(some)) => {
                for named in some.into_iter().filter(|named| named.is_text) {
                    names.put(tree.name_from(&named.name), Some(named.attrs));
                }
            }
            Ok(None) => return Ok(Some(names)),
            Err(fault) if fault.is_missing() => return Ok(Some(ListedNames::default())),
            Err(fault) => return Err(fault),
        }
        if names.exact.len() >= REMEMBERED {
            listing.close();
            return Ok(None);
        }
    }
}

/// Whether a directory has an entry for which `counts`.
pub(super) async fn has_entries(
    tree: &Tree,
    dir: &RelPath,
    counts: impl Fn(&[u8]) -> bool,
) -> Result<bool, Fault> {
    let mut listing = DirectoryListing::new(tree, dir);
    while let Some(names) = listing.next().await? {
        if names.iter().any(|named| counts(&tree.name_from(&named.name))) {
            listing.close();
            return Ok(true);
        }
    }
    Ok(false)
}

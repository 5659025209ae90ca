//! The state of a sink on a share: staged files, large files, and directories that it created.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::sync::Mutex;
use haul_core::{ClearedPaths, Entry, Error, ErrorKind, RelPath, Result, SinkOptions};
use haul_ends::dirs::Dirs;
use haul_ends::metadata_warnings::MetadataWarnings;
use haul_ends::offers::MadeDirs;
use haul_ends::staged_names::{StagedNames, stale};
use smb2::types::status::NtStatus;

use super::attrs::Attrs;
use super::directories::DestinationDirectories;
use super::large_file::LargeFiles;
use super::meta::{Wish, warn};
use super::remove::{clear_readonly, remove_at};
use super::reply::Fault;
use super::step::{ChainStep, DELETE, LIST, OpenedKind, SET, WRITE};
use super::tree::Tree;

/// A tree on a share, to be written.
pub(super) struct SmbSink {
    pub(super) tree: Tree,
    pub(super) options: SinkOptions,
    pub(super) dirs: Dirs,
    pub(super) notes: MetadataWarnings,
    pub(super) directories: DestinationDirectories,
    /// Whether the directories above the root exist.
    based: AtomicBool,
    pub(super) made: MadeDirs,
    pub(super) cleared: ClearedPaths,
    /// Files that are to be replaced.
    replaced: Mutex<HashSet<RelPath>>,
    pub(super) large_files: LargeFiles,
    /// The links that the server makes; `None` until it was tried.
    pub(super) makes_links: Mutex<Option<MadeLinks>>,
    names: StagedNames,
    /// Staged small files in use.
    active: Mutex<HashSet<String>>,
}

/// The links and other reparse points that a server makes for this user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeLinks {
    None,
    /// None that are directories, such as Samba.
    Files,
    All,
}

/// The staging name of a small file. It is given up when this is dropped.
pub(super) struct StagedName<'a> {
    sink: &'a SmbSink,
    pub(super) remote: String,
}

impl Drop for StagedName<'_> {
    fn drop(&mut self) {
        self.sink.active.lock().remove(&self.remote);
    }
}

impl SmbSink {
    pub(super) fn new(tree: Tree, options: SinkOptions) -> Self {
        Self {
            tree,
            options,
            dirs: Dirs::default(),
            notes: MetadataWarnings::default(),
            directories: DestinationDirectories::default(),
            based: AtomicBool::new(false),
            made: MadeDirs::default(),
            cleared: ClearedPaths::default(),
            replaced: Mutex::default(),
            large_files: LargeFiles::default(),
            makes_links: Mutex::default(),
            names: StagedNames::default(),
            active: Mutex::default(),
        }
    }

    /// Refuses entries that no file system could have, as the end of the source may send anything, and names that SMB
    /// cannot hold.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(super) fn check(&self, entry: &Entry) -> Result<()> {
        let refused = |why| self.tree.fault(ErrorKind::Unsupported, "make", &entry.path, why);
        entry.check_growing().map_err(refused)?;
        self.tree.remote(&entry.path).map(drop)
    }

    /// A new staging name for the entry at `path`.
    pub(super) fn stage(&self, path: &RelPath) -> Result<StagedName<'_>> {
        self.directories.touch(path);
        let remote = self.tree.beside(path, &self.names.next(self.tree.name_of(path)))?;
        self.active.lock().insert(remote.clone());
        Ok(StagedName { sink: self, remote })
    }

    /// Sets the metadata of the staged file at `from` and renames it to the entry. A file of exactly its name is
    /// replaced; one whose name differs in case alone is not.
    pub(super) async fn publish(&self, from: &str, entry: &Entry, replaces: bool) -> Result<(), Fault> {
        let to = self.tree.remote(&entry.path)?;
        self.directories.touch(&entry.path);
        if replaces {
            self.check_locked(&to).await?;
        }
        let _wrote = self.set_streams(from, entry, true).await?;
        let renamed = match self.rename(from, &to, entry, replaces).await {
            Err(fault) if fault.is_collision() && !replaces => {
                self.check_spelling(&entry.path).await?;
                self.rename(from, &to, entry, true).await
            }
            renamed => renamed,
        };
        match renamed {
            Err(fault) if fault.is_denied() && clear_readonly(&self.tree, &to).await? => {
                self.rename(from, &to, entry, true).await
            }
            renamed => renamed,
        }
    }

    /// An error if another program has the file open and lets nobody write to it. Samba renames over it all the same,
    /// and the bytes that the program writes after that would be lost.
    pub(super) async fn check_locked(&self, remote: &str) -> Result<(), Fault> {
        let opened = self
            .tree
            .run(&[ChainStep::open(remote, OpenedKind::File, WRITE | DELETE), ChainStep::close()])
            .await?;
        match opened.all_ok() {
            Err(fault) if fault.is(NtStatus::SHARING_VIOLATION) => Err(fault),
            // The rename meets any other error.
            _ => Ok(()),
        }
    }

    async fn rename(&self, from: &str, to: &str, entry: &Entry, replaces: bool) -> Result<(), Fault> {
        let (before, after) = self.wish(entry).around_rename();
        let set = before.step(None);
        let mut chain = vec![ChainStep::open(from, OpenedKind::File, SET | DELETE)];
        let is_set = set.is_some();
        chain.extend(set);
        chain.extend([ChainStep::rename(to, replaces), ChainStep::close()]);
        let replies = self.tree.run(&chain).await?;
        replies.opened()?;
        if is_set {
            self.accept(replies.ok(1), entry)?;
        }
        replies.ok(chain.len() - 2)?;
        self.warn(entry);
        if let Some(set) = after.and_then(|wish| wish.step(None)) {
            let chain = [ChainStep::open(to, OpenedKind::File, SET), set, ChainStep::close()];
            self.accept(self.tree.run(&chain).await?.all_ok(), entry)?;
        }
        // Not before the rename, which it may forbid.
        self.set_security(entry).await.map(drop)
    }

    /// The metadata that an entry is to have.
    pub(super) fn wish(&self, entry: &Entry) -> Wish {
        Wish::of(&self.options.preserve, &self.tree.smb.server.login.options, entry)
    }

    /// Adds warnings for metadata that the share does not keep.
    pub(super) fn warn(&self, entry: &Entry) {
        warn(&self.notes, entry, &self.options, &self.tree.smb.server.login.options);
    }

    /// Makes a refusal to set metadata a warning.
    pub(super) fn accept(&self, set: Result<(), Fault>, entry: &Entry) -> Result<bool, Fault> {
        match set {
            Ok(()) => Ok(true),
            Err(Fault::Status(status)) => {
                self.notes.note("times and attributes", &format!("the server says {status}"), &entry.path);
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// An error if the name is taken by an entry whose name is spelled in another way.
    pub(super) async fn check_spelling(&self, path: &RelPath) -> Result<(), Fault> {
        if path.is_root() {
            return Ok(());
        }
        let is_there = self.tree.find(path).await?.is_some();
        if self.directories.is_taken(path) {
            return Err(self.taken(path).into());
        }
        if is_there {
            return Ok(());
        }
        self.directories.guard(path);
        let cause = "the directory has another entry whose name the server takes for the same one";
        let error = self.tree.fault(ErrorKind::Unsupported, "make", path, cause);
        Err(error.with_hint("nothing is removed from this directory; rename one of the two").into())
    }

    /// The error of a name that the server takes for another one of the source.
    pub(super) fn taken(&self, path: &RelPath) -> Error {
        let cause = "the server takes another name of the source for the same one";
        let error = self.tree.fault(ErrorKind::Unsupported, "make", path, cause);
        error.with_hint("a share keeps one of names that differ in case alone: rename one at the source")
    }

    /// Sets the metadata of an existing entry. Returns whether it did; `None` if the entry is gone.
    pub(super) async fn set(&self, entry: &Entry, now: Option<&Attrs>) -> Result<Option<bool>> {
        self.warn(entry);
        let (wish, remote) = (self.wish(entry), self.tree.remote(&entry.path)?);
        let wrote = match self.set_streams(&remote, entry, false).await {
            Err(gone) if gone.is_missing() => return Ok(None),
            wrote => wrote.map_err(|fault| self.tree.error("write the streams of", &entry.path, fault))?,
        };
        let is_met = !wrote && now.is_some_and(|now| wish.is_met_by(now));
        let set = match wish.step(now).filter(|_| !is_met) {
            None => Ok(()),
            Some(set) => {
                self.directories.touch(&entry.path);
                let open = ChainStep::open(&remote, OpenedKind::Any, SET);
                self.tree.run(&[open, set, ChainStep::close()]).await?.all_ok()
            }
        };
        let set = match set {
            Err(gone) if gone.is_missing() => return Ok(None),
            set => self.accept(set, entry),
        };
        let secured = match set {
            Ok(set) => self.set_security(entry).await.map(|secured| set && secured),
            Err(fault) => Err(fault),
        };
        match secured {
            Err(gone) if gone.is_missing() => Ok(None),
            set => set.map(Some).map_err(|fault| self.tree.error("set the metadata of", &entry.path, fault)),
        }
    }

    /// Creates directories, outermost first. If the value is `true`, removes a file of that name first. Returns the
    /// errors.
    pub(super) fn make_dirs(&self, dirs: &BTreeMap<RelPath, bool>) -> Result<HashMap<RelPath, Error>> {
        let mut failed = HashMap::new();
        if dirs.is_empty() {
            return Ok(failed);
        }
        self.make_above()?;
        let mut by_depth: BTreeMap<usize, Vec<(&RelPath, bool)>> = BTreeMap::new();
        for (dir, in_the_way) in dirs {
            by_depth.entry(dir.components().count()).or_default().push((dir, *in_the_way));
        }
        for level in by_depth.into_values() {
            let made = self.tree.smb.all(&level, async |(dir, in_the_way): &(&RelPath, bool)| {
                self.make_dir(dir, *in_the_way).await
            })?;
            for ((dir, _), made) in level.into_iter().zip(made) {
                if let Err(fault) = made {
                    failed.insert(dir.clone(), self.tree.error("make", dir, fault));
                }
            }
        }
        Ok(failed)
    }

    async fn make_dir(&self, dir: &RelPath, in_the_way: bool) -> Result<(), Fault> {
        let remote = self.tree.remote(dir)?;
        if in_the_way {
            self.check_replaceable(dir, &self.tree.stat_at(&remote).await?).await?;
            remove_at(&self.tree, &remote).await?;
        }
        self.directories.forget(dir);
        match self
            .tree
            .run(&[ChainStep::make(&remote, OpenedKind::Dir, LIST), ChainStep::close()])
            .await?
            .opened()
        {
            Ok(_) => self.directories.made(dir),
            // Another thread or process may have created it meanwhile.
            Err(fault) if fault.is_collision() => {
                self.check_spelling(dir).await?;
                if !self.tree.stat(dir).await?.is_dir() {
                    return Err(fault);
                }
                self.directories.know(dir);
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Creates the directories above the root, if they are missing.
    pub(super) fn make_above(&self) -> Result<()> {
        if self.based.load(Ordering::Relaxed) {
            return Ok(());
        }
        let root = RelPath::root();
        let above = self.tree.above()?;
        let made = self.tree.smb.one(async {
            if let Some(innermost) = above.last()
                && !self.tree.stat_at(innermost).await.is_ok_and(|there| there.is_dir())
            {
                for dir in &above {
                    let chain = [ChainStep::make(dir, OpenedKind::Dir, LIST), ChainStep::close()];
                    match self.tree.run(&chain).await?.opened() {
                        Err(fault) if !fault.is_collision() => return Ok(Err(fault)),
                        _ => {}
                    }
                }
            }
            Ok(Ok(()))
        })?;
        made.map_err(|fault| self.tree.error("make the directories above", &root, fault))?;
        self.based.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Has to be called for a small file that is to be replaced.
    pub(super) fn will_replace(&self, path: &RelPath) {
        self.replaced.lock().insert(path.clone());
    }

    /// Whether a file is to be replaced. The answer is given once.
    pub(super) fn replaces(&self, path: &RelPath) -> bool {
        self.replaced.lock().remove(path)
    }

    /// Removes names, whether they exist or not. A refusal is no error.
    pub(super) fn remove_all(&self, remotes: &[String]) -> Result<()> {
        let removed = self.tree.smb.all(remotes, |remote| remove_at(&self.tree, remote))?;
        for fault in removed.into_iter().filter_map(Result::err) {
            if let Fault::Failed(error) = fault {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the files that interrupted runs left in directories and that no run can resume: staged files without a
    /// journal, and journals without a staged file.
    pub(super) fn clean(&self, dirs: &BTreeSet<RelPath>) -> Result<()> {
        let found = self.directories.take_staged(dirs);
        if found.is_empty() {
            return Ok(());
        }
        found.iter().for_each(|path| self.directories.touch(path));
        let found: HashSet<String> =
            found.iter().map(|path| self.tree.remote(path)).collect::<Result<_>>()?;
        let mut active = self.active.lock().clone();
        active.extend(self.large_files.staged());
        self.remove_all(&stale(&found, &active))
    }
}

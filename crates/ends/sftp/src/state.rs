//! The state of a sink at an SFTP server: staged files, large files, directories that it created, and how files are
//! renamed into place.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::staging::is_staging_name;
use haul_core::{ClearedPaths, Entry, Error, ErrorKind, Preserve, RelPath, Result, SLICE_LEN, SinkOptions};
use haul_ends::dirs::Dirs;
use haul_ends::full::{FullDisk, StagedBytes, is_part};
use haul_ends::metadata_warnings::MetadataWarnings;
use haul_ends::offers::MadeDirs;
use haul_ends::staged_names::{StagedNames, stale};

use super::conn::Conn;
use super::large_file::LargeFiles;
use super::listing::list;
use super::meta::{self, MetaChange, Wish};
use super::packet::{self, Attrs, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::{Fault, unless_lost};
use super::tree::{Tree, is_dir, read_only, shown};

/// A disk with less free space than this counts as full when a write fails.
const FULL: u64 = 1024 * 1024;
/// The mode of a staged file that only its owner may read.
pub(super) const PRIVATE: u32 = 0o600;
/// Entries whose metadata one pipeline sets at most.
const SET_AT_ONCE: usize = 1024;

/// A tree at an SFTP server, to be written.
pub(super) struct SftpSink {
    pub(super) tree: Tree,
    pub(super) options: SinkOptions,
    pub(super) dirs: Dirs,
    pub(super) notes: MetadataWarnings,
    pub(super) made: MadeDirs,
    pub(super) cleared: ClearedPaths,
    pub(super) large_files: LargeFiles,
    /// Whether the destination takes entries, and why not; examined when the first one is to be made in the root.
    pub(super) writability: Mutex<Option<Option<Error>>>,
    /// A write did not fit.
    pub(super) was_full: AtomicBool,
    names: StagedNames,
    staged: Mutex<Staging>,
}

/// Paths of files that were staged.
#[derive(Default)]
struct Staging {
    /// Staged files in use.
    active: HashSet<Vec<u8>>,
    /// Staged files to remove.
    left: Vec<Vec<u8>>,
}

/// The staging name of a small file or a link. Without [`StagedName::done`], the file is removed at the end.
pub(super) struct StagedName<'a> {
    sink: &'a SftpSink,
    remote: Vec<u8>,
    done: bool,
}

impl StagedName<'_> {
    /// The path at the server.
    pub(super) fn remote(&self) -> &[u8] {
        &self.remote
    }

    /// It was renamed into place.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for StagedName<'_> {
    fn drop(&mut self) {
        let mut staging = self.sink.staged.lock();
        staging.active.remove(&self.remote);
        if !self.done {
            staging.left.push(std::mem::take(&mut self.remote));
        }
    }
}

impl SftpSink {
    pub(super) fn new(tree: Tree, options: SinkOptions) -> Self {
        Self {
            tree,
            options,
            dirs: Dirs::default(),
            notes: MetadataWarnings::default(),
            made: MadeDirs::default(),
            cleared: ClearedPaths::default(),
            large_files: LargeFiles::default(),
            writability: Mutex::default(),
            was_full: AtomicBool::default(),
            names: StagedNames::default(),
            staged: Mutex::default(),
        }
    }

    /// Refuses entries that no file system could have: the end of the source may send anything.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(super) fn check(&self, entry: &Entry) -> Result<()> {
        let refused = |why| self.tree.fault(ErrorKind::Unsupported, "make", &entry.path, why);
        entry.check_growing().map_err(refused)
    }

    /// Takes the staged files that nobody needs any more, to remove them.
    pub(super) fn take_left(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.staged.lock().left)
    }

    /// A new staging name for the entry at `path`.
    pub(super) fn stage(&self, path: &RelPath) -> StagedName<'_> {
        let remote = self.tree.beside(path, &self.names.next(self.tree.name_of(path)));
        self.staged.lock().active.insert(remote.clone());
        StagedName { sink: self, remote, done: false }
    }

    /// Requests to rename the staged file at `from` to the entry at `to`.
    pub(super) fn ask_publish(&self, pipeline: &mut Pipeline<'_>, conn: &Conn, from: &[u8], to: &RelPath) {
        let to = &self.tree.remote(to);
        if conn.server.posix_rename {
            pipeline.ask(&SftpRequest::PosixRename { from, to });
        } else {
            pipeline.ask(&SftpRequest::Remove { path: to });
            pipeline.ask(&SftpRequest::Rename { from, to });
        }
    }

    /// Takes the answer to [`SftpSink::ask_publish`].
    pub(super) fn take_publish(&self, pipeline: &mut Pipeline<'_>, conn: &Conn) -> Result<(), Fault> {
        if !conn.server.posix_rename {
            // Usually the name did not exist.
            let _removed = pipeline.next_reply();
        }
        pipeline.next_reply().ok()
    }

    /// The mode with which a staged file is created. If permissions are not taken over, the umask of the server limits
    /// those of the source, unless the file `replaces` another one.
    pub(super) fn first_mode(&self, entry: &Entry, replaces: bool) -> u32 {
        if self.options.preserve.perms || replaces { PRIVATE } else { Preserve::new_mode(entry, !0) }
    }

    /// The mode with which a directory is created.
    pub(super) fn first_dir_mode(&self, mode: Option<u32>) -> u32 {
        if self.options.preserve.perms { 0o700 } else { mode.map_or(0o777, |mode| mode & 0o777 | 0o700) }
    }

    /// Remembers the metadata of a directory for the end. If permissions are not taken over, the mode is a limit for
    /// that which the directory has by then: that of the source for a new one, else the one that it had.
    pub(super) fn add_dir(&self, entry: &Entry, now: Option<&Attrs>) -> Result<()> {
        let limit = || now.and_then(|now| now.mode).unwrap_or(entry.mode | !0o777) & 0o7777;
        self.dirs.add(&self.options.preserve.with_mode(entry, limit))
    }

    /// The metadata of a directory at the end, whose present metadata is `now`.
    pub(super) fn wish_of_dir(&self, entry: &Entry, now: &Attrs) -> Wish {
        let wish = Wish::of(&self.options.preserve, entry);
        Wish { mode: wish.mode.or(now.mode.map(|mode| mode & entry.mode & 0o7777)), ..wish }
    }

    pub(super) fn set_all(&self, changes: &[MetaChange<'_>]) -> Result<Vec<Option<bool>>> {
        let mut changed = Vec::with_capacity(changes.len());
        for changes in changes.chunks(SET_AT_ONCE) {
            changed.extend(meta::set_all(&self.tree, &self.notes, &self.options, changes)?);
        }
        Ok(changed)
    }

    /// The error of a write. SFTP has no status for a full or a read-only disk, so this asks for the file system.
    pub(super) fn write_error(&self, conn: &Conn, operation: &str, entry: &Entry, fault: Fault) -> Error {
        let is_unclear = matches!(fault, Fault::Status(packet::FAILURE, _));
        let Some(room) = is_unclear.then(|| self.tree.room(conn)).flatten() else {
            return self.tree.error(operation, &entry.path, fault);
        };
        if room.read_only {
            return read_only(self.tree.side, operation, &self.tree.remote(&entry.path));
        }
        // Other processes may have freed some space meanwhile.
        if room.bytes < entry.len.clamp(FULL, SLICE_LEN) || room.files == 0 {
            let cause = "No space left on device";
            self.was_full.store(true, Ordering::Relaxed);
            let error = self.tree.fault(ErrorKind::NoSpace, operation, &entry.path, cause);
            let (dir, staged) = self.staged_around(conn, &entry.path);
            let disk = FullDisk { free: Some(room.bytes), has_no_inodes: room.files == 0, staged };
            return disk.explain(error, &dir);
        }
        self.tree.error(operation, &entry.path, fault)
    }

    /// The first directory with staged files of ended runs, and the lengths of staged files: that of an entry, the root, and
    /// that above.
    fn staged_around(&self, conn: &Conn, path: &RelPath) -> (Vec<u8>, StagedBytes) {
        let root = RelPath::root();
        let root = shown(&self.tree.remote(&root)).to_vec();
        let slash = root.iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0);
        let above = slash.map(|slash| root[..slash].to_vec());
        let of_entry = path.parent().map(|parent| shown(&self.tree.remote(&parent)).to_vec());
        let mut dirs: Vec<_> = [of_entry, Some(root), above].into_iter().flatten().collect();
        dirs.dedup();
        let mut running = 0;
        let mut all = dirs.iter().map(|dir| (dir.clone(), self.staged_in(conn, dir)));
        let is_told = |(_, staged): &(Vec<u8>, StagedBytes)| {
            running = running.max(staged.running);
            staged.ended > 0
        };
        let (dir, staged) = all.find(is_told).unwrap_or_default();
        (dir, StagedBytes { running, ..staged })
    }

    /// The lengths of the staged files in a directory.
    fn staged_in(&self, conn: &Conn, dir: &[u8]) -> StagedBytes {
        let last = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let mut own: HashSet<Vec<u8>> = self.large_files.staged().iter().map(|path| last(path)).collect();
        own.extend(self.staged.lock().active.iter().map(|path| last(path)));
        let mut staged = StagedBytes::default();
        let listed = list(conn, &[dir.to_vec()], &mut |_, names| {
            for (name, attrs) in names.iter().filter(|(name, _)| is_part(name)) {
                let of = if own.contains(name) { &mut staged.running } else { &mut staged.ended };
                *of = of.saturating_add(attrs.size.unwrap_or_default());
            }
            Ok(true)
        });
        if listed.is_ok() { staged } else { StagedBytes::default() }
    }

    /// Removes names, whether they exist or not.
    pub(super) fn remove_all(&self, paths: &[Vec<u8>]) -> Result<()> {
        self.tree.pool().on_one(|conn| {
            let mut pipeline = Pipeline::new(conn);
            paths.iter().for_each(|path| pipeline.ask(&SftpRequest::Remove { path }));
            while let Some(reply) = pipeline.next() {
                let _refused = unless_lost(reply.ok())?;
            }
            Ok(())
        })
    }

    /// Removes the files that interrupted runs left in directories and that no run can resume: staged files without a
    /// journal, and journals without a staged file. A refusal is no error.
    pub(super) fn clean(&self, dirs: &[Vec<u8>]) -> Result<()> {
        if dirs.is_empty() {
            return Ok(());
        }
        let found = self.tree.pool().on_one(|conn| {
            let mut found: HashSet<Vec<u8>> = HashSet::new();
            list(conn, dirs, &mut |at, names| {
                for (name, attrs) in names {
                    if is_staging_name(&name) && !is_dir(&attrs) {
                        found.insert([&dirs[at][..], b"/", &name].concat());
                    }
                }
                Ok(true)
            })?;
            Ok(found)
        })?;
        let mut active: HashSet<Vec<u8>> = self.large_files.staged().into_iter().collect();
        active.extend(self.staged.lock().active.iter().cloned());
        self.remove_all(&stale(&found, &active))
    }
}

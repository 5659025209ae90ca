//! The writing end.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::{
    Answer, BatchData, Entry, Error, ErrorKind, FinishReport, HardLink, Left, Offer, Outcome, RelPath,
    Result, SLICE_LEN, Sink, SinkOptions, WriteDone,
};

use super::compare::may_be_one_file;
use super::conn::{Conn, Fault};
use super::large::{self, LargeFile};
use super::meta::{self, Change};
use super::packet::{self, Request};
use super::small::{self, Small, is_small};
use super::tree::{Tree, is_dir};
use super::wave::Wave;
use super::{offer, walk};
use haul_core::staging::{JOURNAL, PART, is_staging_name, staging_name};
use haul_ends::dirs::Dirs;
use haul_ends::metadata_warnings::MetadataWarnings as Notes;

/// A disk with less room than this is full when a write fails.
const FULL: u64 = 1024 * 1024;
/// Entries whose metadata one wave sets.
const SET_AT_ONCE: usize = 1024;

/// A tree at an SFTP server, to be written.
pub(super) struct SftpSink {
    pub(super) tree: Tree,
    pub(super) options: SinkOptions,
    pub(super) dirs: Dirs,
    pub(super) notes: Notes,
    /// Folders that were made because something in them came first.
    made: Mutex<HashSet<RelPath>>,
    large_files: Mutex<HashMap<RelPath, Arc<LargeFile>>>,
    /// What makes staging names of this run unlike those of any other: the server may still be at work on those of a
    /// run that was killed.
    run: u64,
    count: AtomicU64,
    staged: Mutex<Staging>,
}

/// Paths of files that were staged.
#[derive(Default)]
struct Staging {
    /// Under way.
    active: HashSet<Vec<u8>>,
    /// Of no use any more, to be removed.
    left: Vec<Vec<u8>>,
}

/// A staging name of a small file or a link; unless it is [`Part::done`], what is there is removed at the end.
pub(super) struct Part<'a> {
    sink: &'a SftpSink,
    remote: Vec<u8>,
    done: bool,
}

impl Part<'_> {
    /// The path at the server.
    pub(super) fn remote(&self) -> &[u8] {
        &self.remote
    }

    /// It has its final name.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let mut staging = self.sink.staging();
        staging.active.remove(&self.remote);
        if !self.done {
            staging.left.push(std::mem::take(&mut self.remote));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl SftpSink {
    pub(super) fn new(tree: Tree, options: SinkOptions) -> Self {
        let mut run = [0; 8];
        // Without randomness the time will do.
        if rustix::rand::getrandom(&mut run, rustix::rand::GetRandomFlags::empty()).is_err() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            run = now.as_nanos().to_le_bytes()[..8].try_into().unwrap_or_default();
        }
        Self {
            tree,
            options,
            dirs: Dirs::default(),
            notes: Notes::default(),
            made: Mutex::default(),
            large_files: Mutex::default(),
            run: u64::from_le_bytes(run),
            count: AtomicU64::new(0),
            staged: Mutex::default(),
        }
    }

    fn staging(&self) -> MutexGuard<'_, Staging> {
        lock(&self.staged)
    }

    /// A new staging name for the entry at `path`.
    pub(super) fn stage(&self, path: &RelPath) -> Part<'_> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let unique = [self.tree.name_of(path), &self.run.to_le_bytes(), &count.to_le_bytes()].join(&b'/');
        let remote = self.tree.beside(path, &staging_name(&unique, PART));
        self.staging().active.insert(remote.clone());
        Part { sink: self, remote, done: false }
    }

    /// Asks for the staged file at `from` to get the name of the entry at `to`.
    pub(super) fn ask_publish(&self, wave: &mut Wave<'_>, conn: &Conn, from: &[u8], to: &RelPath) {
        let to = &self.tree.remote(to);
        if conn.server.posix_rename {
            wave.ask(&Request::PosixRename { from, to });
        } else {
            wave.ask(&Request::Remove { path: to });
            wave.ask(&Request::Rename { from, to });
        }
    }

    /// Takes the answer to [`SftpSink::ask_publish`].
    pub(super) fn take_publish(&self, wave: &mut Wave<'_>, conn: &Conn) -> Result<(), Fault> {
        if !conn.server.posix_rename {
            // Mostly there was nothing to be removed.
            let _removed = wave.expect();
        }
        wave.expect().ok()
    }

    /// The folder was made because something in it came first.
    pub(super) fn has_made(&self, dir: &RelPath) {
        lock(&self.made).insert(dir.clone());
    }

    /// Whether it was; forgets it.
    pub(super) fn was_made(&self, dir: &RelPath) -> bool {
        lock(&self.made).remove(dir)
    }

    pub(super) fn large(&self, path: &RelPath) -> Option<Arc<LargeFile>> {
        lock(&self.large_files).get(path).cloned()
    }

    pub(super) fn put_large(&self, path: &RelPath, large: LargeFile) {
        lock(&self.large_files).insert(path.clone(), Arc::new(large));
    }

    pub(super) fn drop_large(&self, path: &RelPath) -> Option<Arc<LargeFile>> {
        lock(&self.large_files).remove(path)
    }

    pub(super) fn set_all(&self, changes: &[Change<'_>]) -> Result<Vec<Option<bool>>> {
        let mut changed = Vec::with_capacity(changes.len());
        for changes in changes.chunks(SET_AT_ONCE) {
            changed.extend(meta::set_all(&self.tree, &self.notes, self.options.owner_by_name, changes)?);
        }
        Ok(changed)
    }

    /// An error of writing. A server has no word for a full disk, so it is asked what room there is.
    pub(super) fn write_error(&self, conn: &Conn, operation: &str, entry: &Entry, fault: Fault) -> Error {
        // Others may have given some room back meanwhile.
        let wanted = entry.len.clamp(FULL, SLICE_LEN);
        let full = matches!(fault, Fault::Status(packet::FAILURE, _))
            && self.tree.room(conn).is_some_and(|(bytes, files)| bytes < wanted || files == 0);
        if full {
            let cause = "No space left on device";
            return self.tree.fault(ErrorKind::NoSpace, operation, &entry.path, cause);
        }
        self.tree.error(operation, &entry.path, fault)
    }

    /// Removes names, whether they are there or not.
    pub(super) fn remove_all(&self, paths: &[Vec<u8>]) -> Result<()> {
        self.tree.pool().on_one(|conn| {
            let mut wave = Wave::new(conn);
            paths.iter().for_each(|path| wave.ask(&Request::Remove { path }));
            while let Some(reply) = wave.next() {
                if let Err(Fault::Lost(error)) = reply.ok() {
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    /// Removes from folders what interrupted runs left and no run can go on with: staged files without a journal, and
    /// journals without a staged file. It does no harm where it is, so failing is no error.
    pub(super) fn clean(&self, dirs: &[Vec<u8>]) -> Result<()> {
        if dirs.is_empty() {
            return Ok(());
        }
        let found = self.tree.pool().on_one(|conn| {
            let mut found: HashSet<Vec<u8>> = HashSet::new();
            walk::list(conn, dirs, &mut |at, names| {
                for (name, attrs) in names {
                    if is_staging_name(&name) && !is_dir(&attrs) {
                        found.insert([&dirs[at][..], b"/", &name].concat());
                    }
                }
                Ok(true)
            })?;
            Ok(found)
        })?;
        let other = |path: &[u8]| {
            let (end, other) = if path.ends_with(PART) { (PART, JOURNAL) } else { (JOURNAL, PART) };
            [&path[..path.len() - end.len()], other].concat()
        };
        let mut stale: Vec<Vec<u8>> =
            found.iter().filter(|path| !found.contains(&other(path))).cloned().collect();
        let active: HashSet<Vec<u8>> = lock(&self.large_files)
            .values()
            .flat_map(|large| [large.part().to_vec(), large.journal().to_vec()])
            .chain(self.staging().active.iter().cloned())
            .collect();
        stale.retain(|path| !active.contains(path));
        self.remove_all(&stale)
    }

    fn write_all(&self, data: &BatchData) -> Vec<Result<Outcome>> {
        let conn = match self.tree.pool().pick() {
            Ok(conn) => conn,
            Err(error) => return vec![Err(error); data.slices.len()],
        };
        let mut outcomes: Vec<Option<Result<Outcome>>> = Vec::with_capacity(data.slices.len());
        let mut small: Vec<Small<'_>> = Vec::new();
        let mut places = Vec::new();
        let mut used = 0;
        for (at, ((entry, slice), read)) in data.batch.iter().zip(&data.slices).enumerate() {
            outcomes.push(None);
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    outcomes[at] = Some(Err(error.clone()));
                    continue;
                }
            };
            let len = read.data_len() as usize;
            let content = data.content.bytes().get(used..used + len).unwrap_or_default();
            used += len;
            if !data.at_hand && !read.proves(entry, slice, content) {
                let cause = format!("slice {} did not arrive as it was sent", slice.index);
                let error = self.tree.fault(ErrorKind::Corrupt, "verify", &entry.path, &cause);
                outcomes[at] = Some(Err(error));
            } else if is_small(entry) {
                small.push(Small { entry, data: read, content });
                places.push(at);
            } else {
                outcomes[at] = Some(match self.large(&entry.path) {
                    Some(large) => large::write(self, &conn, &large, slice, read, content),
                    None => {
                        let cause = "nothing of it is under way any more";
                        Err(self.tree.fault(ErrorKind::Busy, "write", &entry.path, cause))
                    }
                });
            }
        }
        for (at, outcome) in places.into_iter().zip(small::write(self, &conn, &small)) {
            outcomes[at] = Some(outcome);
        }
        let lost = || Err(super::conn::lost(&self.tree.pool().name(), "an answer is missing"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
    }

    /// What there is to be done about a further name of a file. `None`: it is to be made.
    fn compare_link(&self, link: &HardLink, found: &Found, target: &Found) -> Option<Result<Answer>> {
        let entry = &*link.entry;
        let found = match found {
            Ok(found) => found,
            Err(fault) => return Some(Err(self.tree.error("look at", &entry.path, fault.clone()))),
        };
        let no_first_name =
            || Some(Err(Error::no_first_name(self.tree.side).on(self.tree.remote(&entry.path))));
        let Ok(Some(target)) = target else {
            if self.options.dry_run {
                return Some(Ok(Answer::Made));
            }
            return no_first_name();
        };
        if is_dir(target) && !self.options.dry_run {
            return no_first_name();
        }
        match found {
            Some(now) if may_be_one_file(now, target) => Some(Ok(Answer::Same)),
            Some(_) if self.options.ignore_existing => Some(Ok(Answer::Left(Left::Exists))),
            None if self.options.existing => Some(Ok(Answer::Left(Left::Missing))),
            _ if self.options.dry_run => Some(Ok(Answer::Made)),
            _ => None,
        }
    }
}

type Found = Result<Option<packet::Attrs>, Fault>;

impl Sink for SftpSink {
    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        offer::answer(self, offers)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.tree.pool().want();
        let outcomes = self.write_all(&data);
        drop(data);
        done(outcomes);
    }

    fn flush(&self) {
        // A write returns when what it brought is durable.
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let mut gone = Vec::new();
        for large in paths.iter().filter_map(|path| self.drop_large(path)) {
            gone.extend([large.part().to_vec(), large.journal().to_vec()]);
        }
        self.remove_all(&gone)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let names: Vec<RelPath> = links.iter().map(|link| link.entry.path.clone()).collect();
        let targets: Vec<RelPath> = links.iter().map(|link| link.to.clone()).collect();
        let looked = self.tree.look(&names)?;
        let found = self.tree.look(&targets)?.found;
        let mut answers: Vec<Option<Result<Answer>>> = links
            .iter()
            .zip(looked.found.iter().zip(&found))
            .map(|(link, (there, target))| self.compare_link(link, there, target))
            .collect();
        let open: Vec<usize> = (0..links.len()).filter(|at| answers[*at].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        self.tree.make_dirs(&looked.lacking.into_iter().collect())?;
        let made = self.tree.pool().on_one(|conn| {
            if !conn.server.hardlink {
                let cause = "the server makes no hard links";
                let refuse = |at: &usize| {
                    Err(self.tree.fault(ErrorKind::Unsupported, "link", &links[*at].entry.path, cause))
                };
                return Ok(open.iter().map(refuse).collect::<Vec<_>>());
            }
            let mut wave = Wave::new(conn);
            let mut parts = Vec::new();
            for at in &open {
                let path = &links[*at].entry.path;
                let part = self.stage(path);
                if matches!(&looked.found[*at], Ok(Some(now)) if is_dir(now)) {
                    wave.ask(&Request::Rmdir { path: &self.tree.remote(path) });
                }
                wave.ask(&Request::Hardlink { of: &self.tree.remote(&links[*at].to), path: part.remote() });
                self.ask_publish(&mut wave, conn, part.remote(), path);
                // Renaming one name of a file to another of the same file leaves both.
                wave.ask(&Request::Remove { path: part.remote() });
                parts.push(part);
            }
            let mut made = Vec::new();
            for (at, part) in open.iter().zip(parts) {
                if matches!(&looked.found[*at], Ok(Some(now)) if is_dir(now)) {
                    let _removed = wave.expect();
                }
                let linked = wave.expect().ok();
                let published = self.take_publish(&mut wave, conn);
                let _removed = wave.expect();
                match linked.and(published) {
                    Err(Fault::Lost(error)) => return Err(error),
                    Ok(()) => {
                        part.done();
                        made.push(Ok(Answer::Made));
                    }
                    Err(_) if matches!(&looked.found[*at], Ok(Some(now)) if is_dir(now)) => {
                        made.push(Err(self.tree.not_empty(&links[*at].entry.path)));
                    }
                    Err(fault) => {
                        made.push(Err(self.tree.error("link", &links[*at].entry.path, fault)));
                    }
                }
            }
            Ok(made)
        })?;
        for (at, answer) in open.into_iter().zip(made) {
            answers[at] = Some(answer);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn stages(&self) -> bool {
        // A server says no more than Failure of a name that it cannot give.
        false
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        if self.options.dry_run {
            return Ok(paths.iter().map(|_| Ok(())).collect());
        }
        let found = self.tree.look(paths)?.found;
        let folder = |found: &Found| matches!(found, Ok(Some(now)) if is_dir(now));
        paths
            .iter()
            .zip(&found)
            .filter(|(_, found)| folder(found))
            .for_each(|(path, _)| self.tree.forget(path));
        self.tree.pool().on_one(|conn| {
            let mut wave = Wave::new(conn);
            for (path, found) in paths.iter().zip(&found) {
                let remote = &self.tree.remote(path);
                match found {
                    Ok(None) => {}
                    found if folder(found) => wave.ask(&Request::Rmdir { path: remote }),
                    _ => wave.ask(&Request::Remove { path: remote }),
                }
            }
            let mut removed = Vec::with_capacity(paths.len());
            for (path, found) in paths.iter().zip(&found) {
                if matches!(found, Ok(None)) {
                    removed.push(Ok(()));
                    continue;
                }
                removed.push(match wave.expect().ok() {
                    Err(Fault::Lost(error)) => return Err(error),
                    Err(fault) if !fault.is_missing() => Err(self.tree.error("remove", path, fault)),
                    _ => Ok(()),
                });
            }
            Ok(removed)
        })
    }

    fn finish(&self) -> Result<FinishReport> {
        if !self.options.dry_run {
            let left = std::mem::take(&mut self.staging().left);
            self.remove_all(&left)?;
            self.dirs.finish(&|entries| {
                let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
                let found = self.tree.look(&paths)?.found;
                let changes: Vec<Change<'_>> = entries
                    .iter()
                    .zip(found)
                    .filter_map(|(entry, found)| Some(Change { entry, now: Some(found.ok()??) }))
                    .filter(|change| !change.now.as_ref().is_some_and(|now| meta::is_same(now, change.entry)))
                    .collect();
                self.set_all(&changes).map(drop)
            })?;
        }
        Ok(FinishReport { notes: self.notes.all() })
    }

    fn streams(&self) -> u32 {
        self.tree.pool().streams()
    }

    fn writers(&self) -> u32 {
        // While one waits for a handle or for the last answers, another one fills the connection.
        self.tree.pool().streams() * 2
    }
}

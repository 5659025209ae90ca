//! The reading end.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::filter::RulesAbove;
use haul_core::source::{ScanVisit, TakeArriving, removes_no_targets};
use haul_core::{
    Batch, BatchData, BufferPool, Digest, Entry, HungOperation, PageChecks, PageHashes, PageReport, RelPath,
    Result, ScanOptions, Sha256, Source, SourceCaps,
};
use haul_index::Index;
use rustix::io::Errno;

use crate::meta::entry::entry;
use crate::network_fs::dir_prefetch::DirPrefetch;
use crate::path::descriptors;
use crate::path::root::Root;
use crate::read::digest;
use crate::read::reader::Reader;
use crate::remove_source::{RemovedNames, check_writable};
use crate::tree::local_tree::LocalTree;
use crate::walk::{list, rules};
use haul_ends::hashed::HashedBytes;
use haul_ends::thread_pool::ThreadPool;

/// Threads that look up names on local disks: enough to hide the latency of a disk, few enough for one core.
const LOOKUP_THREADS: usize = 4;
/// Threads that look up names or read at first on a network file system.
const FIRST_THREADS: usize = 8;
/// The most threads on a network file system.
const MAX_THREADS: usize = 256;
/// The most threads that hash files for one call.
const HASH_THREADS: usize = 8;

/// A tree of the local file system that is read.
pub(crate) struct LocalSource {
    tree: LocalTree,
    reader: Reader,
    /// The threads that look up names.
    threads: ThreadPool,
    prefetch: DirPrefetch,
    /// The entries of an earlier run.
    index: Option<Arc<Index>>,
    removals: RemovedNames,
    /// A symbolic link to a directory is the directory.
    shows_dirlinks: bool,
    /// The bytes of content that were hashed for digests.
    hashed: HashedBytes,
}

impl LocalSource {
    pub(crate) fn new(root: Root, pool: BufferPool, index: Option<Arc<Index>>) -> Self {
        let tree = LocalTree::new(root);
        let (threads, readers) = if tree.is_network_fs() {
            (ThreadPool::growing(FIRST_THREADS, MAX_THREADS), ThreadPool::growing(FIRST_THREADS, MAX_THREADS))
        } else {
            (ThreadPool::growing(LOOKUP_THREADS, LOOKUP_THREADS), ThreadPool::fixed(1))
        };
        let reader = Reader::new(pool, readers);
        Self {
            tree,
            reader,
            threads,
            prefetch: DirPrefetch::default(),
            index,
            removals: RemovedNames::default(),
            shows_dirlinks: false,
            hashed: HashedBytes::default(),
        }
    }

    /// The same, checking pages of database files.
    pub(crate) fn checking(mut self, pages: Option<PageChecks>) -> Self {
        self.reader.check_pages(pages);
        self
    }

    /// The same; with `shows`, a symbolic link to a directory is the directory if the root keeps such links.
    pub(crate) fn showing_dirlinks(self, shows: bool) -> Self {
        Self { shows_dirlinks: shows, ..self }
    }

    fn look(&self, path: &RelPath) -> Result<Option<Entry>> {
        let _doing = self.tree.doing("look at", path);
        let root = &self.tree.root;
        let at = if self.shows_dirlinks { root.at_dir(path) } else { root.at(path) };
        match at.and_then(|at| entry(&self.tree, &at, path.clone(), None)) {
            Ok(entry) => Ok(Some(entry)),
            // If an ancestor is a link or a file, the entry does not exist below the root.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::LOOP) if !root.follows_links() => Ok(None),
            Err(errno) => Err(root.error("look at", path, errno)),
        }
    }
}

impl Source for LocalSource {
    fn caps(&self) -> SourceCaps {
        let removes = !self.tree.root.follows_links();
        SourceCaps {
            parts: true,
            delta: true,
            prehash: true,
            // A clone is not read, so its pages would not be checked.
            local_files: self.reader.pages().is_none(),
            removes,
            ..SourceCaps::default()
        }
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.look(&RelPath::root())
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        list::walk(&self.tree, &self.threads, self.index.as_deref(), options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        if self.tree.is_network_fs() {
            self.prefetch.prefetch(&self.tree, &self.threads, paths.iter(), false);
            return Ok(self.threads.each(paths, |path| self.look(path)));
        }
        Ok(paths.iter().map(|path| self.look(path)).collect())
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        rules::above(&self.tree, names)
    }

    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        // On local disks a lookup is cheaper than the index.
        let known = match &self.index {
            Some(index) if self.tree.is_network_fs() => index.holds(paths),
            _ => vec![false; paths.len()],
        };
        let unknown = paths.iter().zip(&known).filter(|(_, known)| !**known).map(|(path, _)| path.clone());
        let mut found = self.lookup(&unknown.collect::<Vec<_>>())?.into_iter().fuse();
        let mut asked = || found.next().map_or(Ok(true), |found| found.map(|entry| entry.is_some()));
        Ok(known.into_iter().map(|known| if known { Ok(true) } else { asked() }).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        Ok(self.reader.read(&self.tree, batch))
    }

    fn read_arriving(&self, batch: &Arc<Batch>, take: &mut TakeArriving<'_>) -> Result<Option<BatchData>> {
        self.reader.read_arriving(&self.tree, batch, take)
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        Ok(self.reader.read_changed(&self.tree, batch, pages))
    }

    fn prehash(&self, options: &ScanOptions, stop: &AtomicBool) {
        self.reader.prehash(&self.tree, &self.threads, options, stop);
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        Ok(ThreadPool::fixed(HASH_THREADS)
            .each(paths, |path| digest::of_path(&self.tree.root, path, self.reader.pages(), &self.hashed)))
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        Ok(ThreadPool::fixed(HASH_THREADS).each(paths, |path| {
            digest::sha256_of_path(&self.tree.root, path, self.reader.pages(), &self.hashed)
        }))
    }

    fn hashed(&self) -> Option<u64> {
        Some(self.hashed.sum())
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        if self.tree.root.follows_links() {
            return Err(removes_no_targets());
        }
        check_writable(&self.tree.root)?;
        if self.tree.is_network_fs() {
            return Ok(self.threads.each(entries, |entry| self.removals.remove(&self.tree, entry)));
        }
        Ok(entries.iter().map(|entry| self.removals.remove(&self.tree, entry)).collect())
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        Ok(self.reader.pages().map(|pages| pages.report()))
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.tree.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.tree.root.ops.is_waited_for()
    }

    fn local_file(&self, entry: &Entry) -> Option<Result<File>> {
        let _doing = self.tree.doing("read", &entry.path);
        Some(self.reader.file(&self.tree.root, entry).and_then(|file| {
            let twin = descriptors::wait_for(|| rustix::io::fcntl_dupfd_cloexec(&file.file, 0));
            twin.map(File::from).map_err(|errno| self.tree.root.error("open", &entry.path, errno))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_core::sync::Mutex;
    use haul_core::{Buffer, ErrorKind, ScanBatch, Side};
    use std::ops::ControlFlow;

    use super::*;
    use crate::path::place::RootEntry;
    use crate::scene::{batch, path, pool};

    fn source(dir: &std::path::Path, index: Option<Arc<Index>>) -> LocalSource {
        LocalSource::new(Root::new(RootEntry::new(dir, b"."), Side::Source, Arc::default()), pool(), index)
    }

    #[test]
    fn names_are_looked_up_and_files_are_hashed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "abc").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let source = source(dir.path(), None);
        assert!(source.root().unwrap().unwrap().is_dir());
        let paths = ["f", "missing", "f/below", "d"].map(path);
        let found = source.lookup(&paths).unwrap();
        let found: Vec<_> = found.into_iter().map(|one| one.unwrap().map(|entry| entry.len)).collect();
        assert_eq!(found, [Some(3), None, None, Some(0)]);
        let holds: Vec<_> = source.holds(&paths).unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(holds, [true, false, false, true]);
        let digests = source.digest(&paths).unwrap();
        assert_eq!(digests[0], Ok(Digest::of(b"abc")));
        assert_eq!(digests[1].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(digests[3].as_ref().unwrap_err().kind(), ErrorKind::SourceChanged, "a directory");
        assert_eq!(source.hashed(), Some(3));
        source.sha256(&paths[..1]).unwrap().remove(0).unwrap();
        assert_eq!(source.hashed(), Some(6));
        let entry = source.lookup(&paths[..1]).unwrap().remove(0).unwrap().unwrap();
        let file = source.local_file(&entry).unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3);
        assert!(source.caps().parts && source.hung(Duration::ZERO).is_empty());
    }

    #[test]
    fn links_are_followed_alike_by_scans_lookups_reads_and_digests() {
        use std::os::unix::fs::symlink;

        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("tree");
        fs::create_dir_all(dir.join("d")).unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        fs::write(scratch.path().join("out/f"), "abc").unwrap();
        for (name, target) in
            [("d/up", ".."), ("file", "../out/f"), ("dir", "../out"), ("gone", "no"), ("d/loop", "loop")]
        {
            symlink(target, dir.join(name)).unwrap();
        }
        let root = Root::new(RootEntry::new(&dir, b"."), Side::Source, Arc::default());
        let source = LocalSource::new(root.following(crate::path::links::Follow::Anywhere), pool(), None);
        let found = Mutex::new((Vec::new(), Vec::new()));
        let visit = |batch: ScanBatch| {
            let mut found = found.lock();
            found.0.extend(batch.entries);
            found.1.extend(batch.errors.into_iter().map(|failure| failure.path));
            ControlFlow::Continue(())
        };
        source.scan(&ScanOptions::default(), &visit).unwrap();
        let (mut entries, mut errors) = found.into_inner();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        errors.sort();
        let names: Vec<_> = entries.iter().map(|entry| entry.path.as_bytes()).collect();
        assert_eq!(names, [&b""[..], b"d", b"dir", b"dir/f", b"file"]);
        assert_eq!(errors, ["d/loop", "d/up", "gone"].map(path));
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.clone()).collect();
        let looked = source.lookup(&paths).unwrap();
        // The scan has read the directories.
        let looked: Vec<_> = looked
            .into_iter()
            .zip(&entries)
            .map(|(one, scanned)| Entry { atime: scanned.atime, ..one.unwrap().unwrap() })
            .collect();
        assert_eq!(looked, entries);
        assert_eq!((looked[3].ino, looked[3].len), (looked[4].ino, 3));
        for name in ["gone", "d/loop"] {
            assert!(source.lookup(&[path(name)]).unwrap()[0].is_err(), "{name}");
        }
        let digests = source.digest(&["file", "dir/f"].map(path)).unwrap();
        assert_eq!(digests, [Ok(Digest::of(b"abc")), Ok(Digest::of(b"abc"))]);
        let file = Arc::new(looked[4].clone());
        assert_eq!(source.read(&batch(&file, 0)).unwrap().content.bytes(), b"abc");
        // Another target of the same length and time is another file.
        fs::write(scratch.path().join("out/g"), "xyz").unwrap();
        let time = fs::metadata(scratch.path().join("out/f")).unwrap().modified().unwrap();
        fs::File::options()
            .write(true)
            .open(scratch.path().join("out/g"))
            .unwrap()
            .set_modified(time)
            .unwrap();
        for target in ["../out/g", "nowhere"] {
            fs::remove_file(dir.join("file")).unwrap();
            symlink(target, dir.join("file")).unwrap();
            let read = source.read(&batch(&file, 0)).unwrap();
            assert_eq!(read.slices[0].as_ref().unwrap_err().kind(), ErrorKind::SourceChanged, "{target}");
        }
        assert!(!source.caps().removes && source.remove_unchanged(&[]).is_err());
    }

    #[test]
    fn a_file_that_changed_since_the_scan_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "abc").unwrap();
        let source = source(dir.path(), None);
        let entry = Arc::new(source.lookup(&[path("f")]).unwrap().remove(0).unwrap().unwrap());
        let read = |source: &LocalSource| source.read(&batch(&entry, 0)).unwrap();
        assert_eq!(read(&source).content.bytes(), b"abc");
        fs::write(dir.path().join("f"), "abcd").unwrap();
        let data = read(&source);
        assert_eq!(data.slices[0].as_ref().unwrap_err().kind(), ErrorKind::SourceChanged);
        assert_eq!(data.content.bytes(), Buffer::default().bytes(), "a failed slice takes no space");
    }

    #[test]
    fn unchanged_directories_come_from_the_index() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, file) = (dir.path().join("tree"), dir.path().join("index"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        for name in ["f", "a/f", "a/b/f"] {
            fs::write(tree.join(name), name).unwrap();
        }
        // The index trusts a directory once its last change is old enough.
        std::thread::sleep(Duration::from_millis(2100));
        let dev = std::os::unix::fs::MetadataExt::dev(&fs::metadata(&tree).unwrap());
        let scan = || {
            let (index, refused) = Index::open(&file, b"tree", dev, Duration::from_secs(3600));
            assert_eq!(refused, None);
            let index = Arc::new(index);
            let found = Mutex::new((Vec::new(), 0));
            let visit = |batch: ScanBatch| {
                assert!(batch.errors.is_empty(), "{:?}", batch.errors);
                let mut found = found.lock();
                found.1 += if batch.told { batch.entries.len() } else { 0 };
                found.0.extend(
                    batch.entries.into_iter().map(|entry| (entry.path.as_bytes().to_vec(), entry.len)),
                );
                ControlFlow::Continue(())
            };
            let source = source(&tree, Some(Arc::clone(&index)));
            source.scan(&ScanOptions::default(), &visit).unwrap();
            index.save().unwrap();
            let (mut entries, from_index) = found.into_inner();
            entries.sort();
            (entries, from_index)
        };
        let first = scan();
        assert_eq!((first.0.len(), first.1), (6, 0));
        let second = scan();
        assert_eq!((&second.0, second.1), (&first.0, 3), "the files come from the index");
        fs::write(tree.join("a/new"), "").unwrap();
        let third = scan();
        assert_eq!((third.0.len(), third.1), (7, 2), "one directory has changed");
    }
}

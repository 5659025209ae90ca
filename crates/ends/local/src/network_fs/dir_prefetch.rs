//! Listing a directory before many of its names are looked up.
//!
//! NFS, SMB and others send the attributes of entries along with a listing, and the kernel caches them for some
//! seconds. So a few requests answer for hundreds of names, each of which would cost one otherwise.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use haul_core::RelPath;
use haul_core::staging::is_staging_name;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags};

use crate::path::at::Dir;
use crate::path::descriptors;
use crate::tree::local_tree::LocalTree;
use haul_ends::thread_pool::ThreadPool;

/// Names of one directory in one call that make a listing worthwhile: a listing costs about four requests.
const WORTHWHILE: usize = 8;
/// The most names that are listed. The kernel would evict the attributes of more before they are asked for.
const MAX_NAMES: usize = 16 * 1024;
/// Names that are looked up while a directory is listed. Kernels request attributes with the rest of a listing if those
/// of its beginning were asked for (the NFS client of Linux: if more than eight were).
const PROBES: usize = 9;
/// A lookup that the kernel answers from its cache takes less time, one that a server answers more.
const CACHED: Duration = Duration::from_micros(50);
/// Lookups that are timed: of two, one is seldom delayed by something else.
const TIMED: usize = 2;
/// Directories after which it is certain that listings bring no attributes.
const ENOUGH: i32 = 3;

/// The prefetching of directories for one end.
#[derive(Default)]
pub(crate) struct DirPrefetch {
    /// Directories whose listing brought attributes, less those whose listing did not.
    votes: AtomicI32,
}

impl DirPrefetch {
    /// Lists the directories that hold many of `paths`, each once, several at a time. With `make`, missing directories
    /// are made.
    pub(crate) fn prefetch<'a>(
        &self,
        tree: &LocalTree,
        threads: &ThreadPool,
        paths: impl Iterator<Item = &'a RelPath>,
        make: bool,
    ) {
        if !tree.is_network_fs() || self.is_useless() {
            return;
        }
        let mut names: HashMap<RelPath, usize> = HashMap::new();
        for directory in paths.filter_map(RelPath::parent) {
            *names.entry(directory).or_default() += 1;
        }
        let directories: Vec<RelPath> =
            names.into_iter().filter(|(_, names)| *names >= WORTHWHILE).map(|(path, _)| path).collect();
        threads.each(&directories, |path| {
            let _doing = tree.doing("list the directory", path);
            if let Ok(dir) = tree.root.dir(path, make)
                && !self.is_useless()
            {
                self.list_once(&dir);
            }
        });
    }

    fn is_useless(&self) -> bool {
        self.votes.load(Ordering::Relaxed) <= -ENOUGH
    }

    /// Lists a directory, unless that was done or this run has made the directory. Other threads wait for the listing.
    fn list_once(&self, dir: &Dir) {
        if !dir.fresh {
            // A directory that cannot be listed may still allow lookups.
            dir.facts.prefetched.get_or_init(|| self.list(dir).unwrap_or_default());
        }
    }

    /// The staging names in `dir`. `None` if the directory has too many names, or the listing brings no attributes.
    fn list(&self, dir: &Dir) -> rustix::io::Result<Option<HashSet<Vec<u8>>>> {
        let listed = open(dir)?;
        let mut space = Vec::with_capacity(64 * 1024);
        let mut names = RawDir::new(&listed, space.spare_capacity_mut());
        let (mut staged, mut probes, mut count) = (HashSet::new(), Vec::new(), 0);
        while let Some(name) = names.next() {
            let name = name?;
            let name = name.file_name();
            count += 1;
            if is_staging_name(name.to_bytes()) {
                staged.insert(name.to_bytes().to_vec());
            } else if probes.len() < PROBES && !matches!(name.to_bytes(), b"." | b"..") {
                probes.push(name.to_owned());
            }
            if names.is_buffer_empty() {
                dir.ops.some(1 + probes.len() as u32);
                if !self.probe(&listed, &mut probes) || count > MAX_NAMES {
                    return Ok(None);
                }
            }
        }
        Ok(Some(staged))
    }

    /// Looks up some names of a listing, and counts whether their attributes were cached. `false` if they were not.
    fn probe(&self, listed: &OwnedFd, names: &mut Vec<std::ffi::CString>) -> bool {
        let mut cached = false;
        for (number, name) in names.drain(..).enumerate() {
            let since = Instant::now();
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            // The later lookup notices names that are gone.
            let _ = rustix::fs::statx(listed, &name, flags, StatxFlags::TYPE | StatxFlags::MTIME);
            cached |= since.elapsed() < CACHED;
            if number + 1 == TIMED {
                self.votes.fetch_add(if cached { 1 } else { -1 }, Ordering::Relaxed);
                if !cached {
                    return false;
                }
            }
        }
        true
    }
}

/// Whether an earlier run may have left a staged file of this name in the directory. Lists the directory if it was not.
pub(crate) fn has_staged(dir: &Dir, name: &[u8]) -> bool {
    if dir.fresh {
        return false;
    }
    if let Some(Some(staged)) = dir.facts.prefetched.get() {
        return staged.contains(name);
    }
    if let Some(staged) = dir.facts.staged.get() {
        return staged.contains(name);
    }
    staged_in(dir).is_ok_and(|found| dir.facts.staged.get_or_init(|| found).contains(name))
}

/// The staging names in a directory of any size.
fn staged_in(dir: &Dir) -> rustix::io::Result<HashSet<Vec<u8>>> {
    let listed = open(dir)?;
    let mut space = Vec::with_capacity(64 * 1024);
    let mut names = RawDir::new(&listed, space.spare_capacity_mut());
    let mut found = HashSet::new();
    while let Some(name) = names.next() {
        let name = name?;
        let name = name.file_name().to_bytes();
        if is_staging_name(name) {
            found.insert(name.to_vec());
        }
        if names.is_buffer_empty() {
            dir.ops.one();
        }
    }
    Ok(found)
}

fn open(dir: &Dir) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Opening it, and the first part of the listing.
    dir.ops.some(2);
    descriptors::wait_for(|| rustix::fs::openat(dir, c".", flags, Mode::empty()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haul_core::Side;
    use haul_core::staging::{PART, staging_name};

    use super::*;
    use crate::path::place::RootEntry;
    use crate::path::root::Root;

    #[test]
    fn directories_with_many_of_the_names_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let staged = staging_name(b"f1", PART);
        for name in ["many", "few"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join(std::str::from_utf8(&staged).unwrap()), "").unwrap();
        }
        let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Destination, Arc::default());
        let tree = LocalTree::on(root, true);
        let path = |name: String| RelPath::new(name.as_bytes()).unwrap();
        let names = (0..WORTHWHILE).map(|n| path(format!("many/f{n}")));
        let paths: Vec<_> = names.chain([path("few/f1".to_owned())]).collect();
        let prefetch = DirPrefetch::default();
        prefetch.prefetch(&tree, &ThreadPool::fixed(2), paths.iter(), false);
        let held = |name: &str| tree.root.dir(&path(name.to_owned()), false).unwrap();
        assert!(held("many").facts.prefetched.get().is_some());
        assert!(held("few").facts.prefetched.get().is_none());
        for name in ["many", "few"] {
            assert!(has_staged(&held(name), &staged));
            assert!(!has_staged(&held(name), &staging_name(b"f2", PART)));
        }
    }

    #[test]
    fn useless_listings_are_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(RootEntry::new(dir.path(), b"."), Side::Source, Arc::default());
        let tree = LocalTree::on(root, true);
        let prefetch = DirPrefetch { votes: AtomicI32::new(-ENOUGH) };
        let paths: Vec<_> =
            (0..WORTHWHILE).map(|n| RelPath::new(format!("f{n}").as_bytes()).unwrap()).collect();
        prefetch.prefetch(&tree, &ThreadPool::fixed(1), paths.iter(), false);
        let listed = |tree: &LocalTree| {
            tree.root.dir(&RelPath::root(), false).unwrap().facts.prefetched.get().is_some()
        };
        assert!(!listed(&tree));
        DirPrefetch::default().prefetch(&tree, &ThreadPool::fixed(1), paths.iter(), false);
        assert!(listed(&tree));
    }
}

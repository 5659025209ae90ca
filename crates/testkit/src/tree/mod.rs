//! Makers of trees. The content of a file is a function of the seed of the tree, the name and the offset.

mod hard;

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

use crate::content::{self, Random};
use crate::scratch::Scratch;

/// A tree that is being made. The tree stays when this is dropped.
#[derive(Debug)]
pub struct TestTree {
    root: PathBuf,
    seed: u64,
}

impl TestTree {
    /// An empty directory at `root`; its parents are made.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, seed: u64) -> Self {
        let root = root.into();
        fs::create_dir_all(&root).unwrap_or_else(|error| panic!("cannot make {root:?}: {error}"));
        Self { root, seed }
    }

    /// A tree that keeps a copy busy for a while: a few big files and `small` small ones.
    #[must_use]
    pub fn mixed(root: impl Into<PathBuf>, seed: u64, big: &[u64], small: u32) -> Self {
        let tree = Self::new(root, seed);
        for (number, len) in big.iter().enumerate() {
            tree.file(format!("big/{number}.ibd"), *len);
        }
        tree.many("small", small, 0..6000);
        tree
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// A directory, with its parents.
    pub fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {path:?}: {error}"));
        path
    }

    fn with_parents(&self, name: &Path) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).unwrap_or_else(|error| panic!("cannot make {parent:?}: {error}"));
        path
    }

    /// A file of `len` bytes; its directories are made.
    pub fn file(&self, name: impl AsRef<Path>, len: u64) -> PathBuf {
        let name = name.as_ref();
        let path = self.with_parents(name);
        content::write_file(&path, content::key(self.seed, name.as_os_str().as_bytes()), len);
        path
    }

    /// A file that holds `text`.
    pub fn text(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.with_parents(name.as_ref());
        fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {path:?}: {error}"));
        path
    }

    /// A file of `len` bytes that holds data in the given ranges and holes elsewhere.
    pub fn sparse(&self, name: impl AsRef<Path>, len: u64, data: &[Range<u64>]) -> PathBuf {
        let name = name.as_ref();
        let path = self.with_parents(name);
        let file = File::create(&path).unwrap();
        file.set_len(len).unwrap();
        let key = content::key(self.seed, name.as_os_str().as_bytes());
        for range in data {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
            content::fill(key, range.start, &mut bytes);
            file.write_all_at(&bytes, range.start).unwrap();
        }
        path
    }

    /// `count` files with lengths from `sizes`, a hundred in a directory, below `dir`.
    pub fn many(&self, dir: impl AsRef<Path>, count: u32, sizes: Range<u64>) {
        let dir = dir.as_ref();
        let mut random = Random::new(content::key(self.seed, dir.as_os_str().as_bytes()));
        let mut buffer = Vec::new();
        for number in 0..count {
            let name = dir.join(format!("{:04}/{number:07}.txt", number / 100));
            if number % 100 == 0 {
                self.dir(name.parent().unwrap());
            }
            buffer.resize(random.between(sizes.start, sizes.end) as usize, 0);
            content::fill(content::key(self.seed, name.as_os_str().as_bytes()), 0, &mut buffer);
            File::create(self.join(&name)).and_then(|mut file| file.write_all(&buffer)).unwrap();
        }
    }

    /// A symbolic link.
    pub fn link(&self, name: impl AsRef<Path>, target: impl AsRef<Path>) -> PathBuf {
        let path = self.with_parents(name.as_ref());
        std::os::unix::fs::symlink(target, &path).unwrap();
        path
    }

    /// Sets the modification time, of a link its own.
    pub fn time(&self, name: impl AsRef<Path>, seconds: i64, nanoseconds: u32) {
        set_time(&self.join(name), seconds, nanoseconds);
    }
}

/// Sets the modification time, of a symbolic link its own.
pub fn set_time(path: &Path, seconds: i64, nanoseconds: u32) {
    let time = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .unwrap_or_else(|error| panic!("cannot set the time of {path:?}: {error}"));
}

/// A name that begins with `stem`, and that file systems list before `others` in a directory of `parent`, if there is
/// one.
///
/// haul takes the hard link that it finds first for the file, as rsync the first by name. ext4 lists names in an order that
/// depends on a random number of the file system.
#[must_use]
pub fn listed_before(parent: &Path, stem: &str, others: &[&str]) -> String {
    let mut candidates =
        (0..100).map(|number| if number == 0 { stem.to_owned() } else { format!("{stem}{number}") });
    let is_first = |name: &String| {
        let directory = Scratch::inside(parent);
        for name in [name.as_str()].iter().chain(others) {
            fs::write(directory.join(name), "").unwrap();
        }
        let listed = fs::read_dir(directory.path()).unwrap().next();
        listed.is_some_and(|entry| entry.unwrap().file_name() == *name.as_str())
    };
    candidates.find(is_first).unwrap_or_else(|| stem.to_owned())
}

/// Every path below `root`, relative to it, sorted; each directory before its entries. It does not follow symbolic
/// links.
#[must_use]
pub fn list(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        // A directory may go away while a copy is at work in it.
        let Ok(entries) = fs::read_dir(root.join(&directory)) else { continue };
        for entry in entries.flatten() {
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Bytes that the files below `root` have allocated.
#[must_use]
pub fn allocated(root: &Path) -> u64 {
    let blocks = |path: &PathBuf| fs::symlink_metadata(root.join(path)).map_or(0, |meta| meta.blocks());
    list(root).iter().map(blocks).sum::<u64>() * 512
}

/// Bytes of content in the files below `root`.
#[must_use]
pub fn content_len(root: &Path) -> u64 {
    let len = |path: &PathBuf| {
        fs::symlink_metadata(root.join(path)).map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 })
    };
    list(root).iter().map(len).sum()
}

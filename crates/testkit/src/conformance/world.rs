//! The tree behind an end, which a case prepares and inspects without the end.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use haul_core::{
    BufferPool, Entry, EntryKind, HardLink, Offer, Place, PlaceRoot, RelPath, ScanOptions, Sink, SinkOptions,
    Source, Timestamp,
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use crate::ends::MemTree;
use crate::scratch::Scratch;

use super::content;

/// The tree behind an end.
pub trait World: Send + Sync {
    /// Creates or replaces an entry, with its parents.
    fn put(&self, entry: &Entry, content: &[u8]);

    /// Makes `path` a further name of `to`.
    fn link(&self, path: &RelPath, to: &RelPath);

    /// Removes an entry and everything below it.
    fn remove(&self, path: &RelPath);

    /// The entry at `path` with the content of a file; `None` if there is none.
    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)>;

    /// All names below the root, sorted.
    fn names(&self) -> Vec<RelPath>;
}

impl World for Arc<MemTree> {
    fn put(&self, entry: &Entry, content: &[u8]) {
        MemTree::put(self, entry, content);
    }

    fn link(&self, path: &RelPath, to: &RelPath) {
        MemTree::link(self, path, to);
    }

    fn remove(&self, path: &RelPath) {
        MemTree::remove(self, path);
    }

    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        MemTree::look(self, path)
    }

    fn names(&self) -> Vec<RelPath> {
        MemTree::names(self).into_iter().filter(|name| !name.is_root()).collect()
    }
}

/// A tree of the local file system.
pub struct OnDisk {
    scratch: Scratch,
}

impl Default for OnDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl OnDisk {
    /// A place in which there is no root yet.
    #[must_use]
    pub fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    /// The path of the root.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.scratch.join("root")
    }

    /// The root as a location.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { path: self.root().as_os_str().as_bytes().to_vec(), root: PlaceRoot::Exactly }
    }

    /// A path for other things of the case, beside the root.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    fn at(&self, path: &RelPath) -> PathBuf {
        if path.is_root() {
            return self.root();
        }
        self.root().join(std::ffi::OsStr::from_bytes(path.as_bytes()))
    }
}

/// Writes only the blocks that hold data, so that blocks of zeros are holes.
fn write_sparse(file: &File, content: &[u8]) {
    file.set_len(content.len() as u64).unwrap();
    for (at, block) in content.chunks(4096).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, at as u64 * 4096).unwrap();
        }
    }
}

impl World for OnDisk {
    fn put(&self, entry: &Entry, content: &[u8]) {
        let at = self.at(&entry.path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let there = fs::symlink_metadata(&at);
        if there.is_ok_and(|there| !(there.is_dir() && entry.is_dir())) {
            self.remove(&entry.path);
        }
        let node = |kind| rustix::fs::mknodat(CWD, &at, kind, Mode::from_raw_mode(0o600), 0).unwrap();
        match &entry.kind {
            EntryKind::File if entry.is_sparse() => write_sparse(&File::create(&at).unwrap(), content),
            EntryKind::File => fs::write(&at, content).unwrap(),
            EntryKind::Dir => fs::create_dir_all(&at).unwrap(),
            EntryKind::Symlink(to) => symlink(std::ffi::OsStr::from_bytes(to), &at).unwrap(),
            EntryKind::Fifo => node(FileType::Fifo),
            EntryKind::Socket => node(FileType::Socket),
            other => panic!("not made by tests: {other:?}"),
        }
        for (name, value) in &entry.xattrs {
            rustix::fs::lsetxattr(&at, &name[..], value, XattrFlags::empty()).unwrap();
        }
        if !matches!(entry.kind, EntryKind::Symlink(_)) {
            fs::set_permissions(&at, fs::Permissions::from_mode(entry.mode)).unwrap();
        }
        let time = |time: Timestamp| Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: time(entry.atime), last_modification: time(entry.mtime) };
        rustix::fs::utimensat(CWD, &at, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    fn link(&self, path: &RelPath, to: &RelPath) {
        fs::hard_link(self.at(to), self.at(path)).unwrap();
    }

    fn remove(&self, path: &RelPath) {
        let at = self.at(path);
        let removed = if fs::symlink_metadata(&at).is_ok_and(|there| there.is_dir()) {
            fs::remove_dir_all(&at)
        } else {
            fs::remove_file(&at)
        };
        assert!(removed.as_ref().is_ok_and(|()| true) || !at.exists(), "{removed:?}");
    }

    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        let at = self.at(path);
        let there = match fs::symlink_metadata(&at) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return None;
            }
            there => there.unwrap(),
        };
        let kind = there.file_type();
        let kind = if kind.is_dir() {
            EntryKind::Dir
        } else if kind.is_symlink() {
            EntryKind::Symlink(fs::read_link(&at).unwrap().as_os_str().as_bytes().to_vec())
        } else if kind.is_fifo() {
            EntryKind::Fifo
        } else if kind.is_socket() {
            EntryKind::Socket
        } else {
            EntryKind::File
        };
        let content = if kind == EntryKind::File { fs::read(&at).unwrap() } else { Vec::new() };
        let mut xattrs = Vec::new();
        let mut value = [0; 64];
        if let Ok(len) = rustix::fs::lgetxattr(&at, content::XATTR, &mut value) {
            let name = serde_bytes::ByteBuf::from(content::XATTR.as_bytes().to_vec());
            xattrs.push((name, serde_bytes::ByteBuf::from(value[..len].to_vec())));
        }
        let entry = Entry {
            mtime: Timestamp { sec: there.mtime(), nsec: there.mtime_nsec() as u32 },
            mode: there.mode() & 0o7777,
            uid: there.uid(),
            gid: there.gid(),
            dev: there.dev(),
            ino: there.ino(),
            nlink: there.nlink() as u32,
            allocated: there.blocks() * 512,
            xattrs,
            ..Entry::new(path.clone(), kind, content.len() as u64)
        };
        Some((entry, content))
    }

    fn names(&self) -> Vec<RelPath> {
        let mut names = Vec::new();
        let mut dirs = vec![RelPath::root()];
        while let Some(dir) = dirs.pop() {
            let Ok(list) = fs::read_dir(self.at(&dir)) else { continue };
            for found in list {
                let found = found.unwrap();
                let path = dir.join(found.file_name().as_bytes()).unwrap();
                if found.file_type().unwrap().is_dir() {
                    dirs.push(path.clone());
                }
                names.push(path);
            }
        }
        names.sort();
        names
    }
}

/// How a case opens a source.
pub type SourceOpener = Box<dyn Fn() -> Arc<dyn Source> + Send + Sync>;
/// How a case opens a sink.
pub type OpenSink = Box<dyn Fn(&SinkOptions) -> Arc<dyn Sink> + Send + Sync>;

/// A tree that can be reached through its ends alone: each call opens one of its own, so that the ends under test have
/// no part in it.
pub struct ThroughEnds {
    /// Opens a source.
    pub source: SourceOpener,
    /// Opens a sink.
    pub sink: OpenSink,
}

impl World for ThroughEnds {
    fn put(&self, entry: &Entry, content: &[u8]) {
        let sink = (self.sink)(&SinkOptions::default());
        let mut above = Vec::new();
        let mut parent = entry.path.parent();
        while let Some(dir) = parent.filter(|dir| !dir.is_root()) {
            parent = dir.parent();
            above.push(dir);
        }
        let root = self.look(&RelPath::root());
        if root.is_none() && !entry.path.is_root() {
            above.push(RelPath::root());
        }
        for dir in above.into_iter().rev().filter(|dir| self.look(dir).is_none()) {
            let dir = Entry { mode: 0o755, ..Entry::new(dir, EntryKind::Dir, 0) };
            offer(&*sink, &dir);
        }
        if !entry.is_dir() && self.look(&entry.path).is_some_and(|(there, _)| there.is_dir()) {
            self.remove(&entry.path);
        }
        if let haul_core::Answer::Need { .. } = offer(&*sink, entry) {
            let pool = BufferPool::new(16 << 20);
            let entry = Arc::new(entry.clone());
            for data in content::slices(&pool, &entry, content) {
                let (sender, receiver) = channel();
                sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
                sink.flush();
                for outcome in receiver.recv().unwrap() {
                    outcome.unwrap();
                }
            }
        }
        sink.finish().unwrap();
    }

    fn link(&self, path: &RelPath, to: &RelPath) {
        let (there, _) = self.look(to).unwrap();
        let link = HardLink { entry: Arc::new(Entry { path: path.clone(), ..there }), to: to.clone() };
        (self.sink)(&SinkOptions::default()).link(&[link]).unwrap().remove(0).unwrap();
    }

    fn remove(&self, path: &RelPath) {
        let below =
            |name: &RelPath| path.is_root() || name.as_bytes().starts_with(&[path.as_bytes(), b"/"].concat());
        let mut names: Vec<_> = self.names().into_iter().filter(|name| below(name)).collect();
        names.push(path.clone());
        // The entries of a directory sort after it.
        names.sort();
        names.reverse();
        for gone in (self.sink)(&SinkOptions::default()).remove(&names).unwrap() {
            gone.unwrap();
        }
    }

    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        let source = (self.source)();
        let entry = source.lookup(std::slice::from_ref(path)).unwrap().remove(0).unwrap()?;
        let content = if entry.is_file() { content::read_all(&*source, &entry) } else { Vec::new() };
        Some((entry, content))
    }

    fn names(&self) -> Vec<RelPath> {
        let mut names = content::scan(&*(self.source)(), &ScanOptions::default()).paths();
        names.retain(|name| !name.is_root());
        names.sort();
        names
    }
}

fn offer(sink: &dyn Sink, entry: &Entry) -> haul_core::Answer {
    let offer = Offer { entry: Arc::new(entry.clone()), digest: None };
    sink.offer(&[offer]).unwrap().remove(0).unwrap()
}

//! Listing a folder far away before many of its names are looked at.
//!
//! NFS, SMB and others send the attributes of what is in a folder along with its listing, and the kernel takes them for
//! true for some seconds. So a few requests answer for hundreds of names, which else cost one each.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use haul_core::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags};

use super::root::{Dir, Root};
use super::stage;
use haul_ends::thread_pool::ThreadPool;

/// Names of one folder in one question that make a listing worth while: it costs about four requests.
const WORTH: usize = 8;
/// Names that are listed for it at most. What comes after so many would be forgotten again before it is asked for.
const MOST: usize = 16 * 1024;
/// Names that are looked at while a folder is listed: kernels ask for attributes with the rest of a listing if they
/// see that those of its beginning were wanted (Linux's NFS client: of more than eight names).
const TASTED: usize = 9;
/// A look at a name that this machine answers by itself takes less, one that a server answers more.
const QUICK: Duration = Duration::from_micros(50);
/// Names by which that is told: of two, one is seldom held up by something else.
const TRIED: usize = 2;
/// Folders by which it is found out that listings bring none here.
const ENOUGH: i32 = 3;

/// Whether listings bring attributes.
#[derive(Default)]
pub(super) struct Ahead {
    /// Folders that showed it, less those that showed that they do not.
    votes: AtomicI32,
}

impl Ahead {
    /// Lists the folders in which many of `paths` are, each once, side by side; `make` makes those that are missing.
    pub(super) fn look<'a>(
        &self,
        root: &Root,
        threads: &ThreadPool,
        paths: impl Iterator<Item = &'a RelPath>,
        make: bool,
    ) {
        if !root.is_network_fs() || self.is_vain() {
            return;
        }
        let mut folders: HashMap<RelPath, usize> = HashMap::new();
        for folder in paths.filter_map(RelPath::parent) {
            *folders.entry(folder).or_default() += 1;
        }
        let folders: Vec<RelPath> =
            folders.into_iter().filter(|(_, names)| *names >= WORTH).map(|(folder, _)| folder).collect();
        threads.each(&folders, |folder| {
            let _doing = root.doing("list the folder", folder);
            if let Ok(dir) = root.dir(folder, make)
                && !self.is_vain()
            {
                dir.list_once(self);
            }
        });
    }

    fn is_vain(&self) -> bool {
        self.votes.load(Ordering::Relaxed) <= -ENOUGH
    }

    /// The staging names in `dir`; `None` if it has too many names to list it for their attributes, or listing brings
    /// none.
    pub(super) fn list(&self, dir: &Dir) -> rustix::io::Result<Option<HashSet<Vec<u8>>>> {
        let listed = open(dir)?;
        let mut space = Vec::with_capacity(64 * 1024);
        let mut names = RawDir::new(&listed, space.spare_capacity_mut());
        let (mut staged, mut tasted, mut count) = (HashSet::new(), Vec::new(), 0);
        while let Some(name) = names.next() {
            let name = name?;
            let name = name.file_name();
            count += 1;
            if stage::is_staging_name(name.to_bytes()) {
                staged.insert(name.to_bytes().to_vec());
            } else if tasted.len() < TASTED && !matches!(name.to_bytes(), b"." | b"..") {
                tasted.push(name.to_owned());
            }
            if names.is_buffer_empty() {
                dir.ops.some(1 + tasted.len() as u32);
                let mut quick = false;
                for (number, name) in tasted.drain(..).enumerate() {
                    let since = Instant::now();
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    // Gone since: that is found out again by who wants it.
                    let _ = rustix::fs::statx(&listed, &name, flags, StatxFlags::TYPE | StatxFlags::MTIME);
                    quick |= since.elapsed() < QUICK;
                    if number + 1 == TRIED {
                        self.votes.fetch_add(if quick { 1 } else { -1 }, Ordering::Relaxed);
                        if !quick {
                            return Ok(None);
                        }
                    }
                }
                if count > MOST {
                    return Ok(None);
                }
            }
        }
        Ok(Some(staged))
    }
}

/// The staging names in `dir`, be it as large as it may.
pub(super) fn staged_in(dir: &Dir) -> rustix::io::Result<HashSet<Vec<u8>>> {
    let listed = open(dir)?;
    let mut space = Vec::with_capacity(64 * 1024);
    let mut names = RawDir::new(&listed, space.spare_capacity_mut());
    let mut found = HashSet::new();
    while let Some(name) = names.next() {
        let name = name?;
        let name = name.file_name().to_bytes();
        if stage::is_staging_name(name) {
            found.insert(name.to_vec());
        }
        if names.is_buffer_empty() {
            dir.ops.one();
        }
    }
    Ok(found)
}

fn open(dir: &Dir) -> rustix::io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Opening it, and the first part of the listing.
    dir.ops.some(2);
    super::descriptors::wait_for(|| rustix::fs::openat(dir, c".", flags, Mode::empty()))
}

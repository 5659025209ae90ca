//! A parallel walk: several threads, one stack of directories, directory handles all the way down.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use haul_core::source::ScanVisit;
use haul_core::{ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions, filter};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::root::{At, Root};
use super::stage;
use super::stat::{self, Names};

/// Entries handed over at a time.
const BATCH: usize = 512;
/// Threads of one walk: enough to hide a disk's or a server's latency, few enough for one core.
const THREADS: usize = 4;

struct Walk<'a> {
    root: &'a Root,
    options: &'a ScanOptions,
    names: Option<Names>,
    visit: ScanVisit<'a>,
    /// Directories to be listed. Last in, first out: handles that are held stay few.
    stack: Mutex<Stack>,
    more: Condvar,
    stopped: AtomicBool,
    /// The file system to stay on, with `one_file_system`.
    dev: Option<u64>,
}

#[derive(Default)]
struct Stack {
    dirs: Vec<(RelPath, At)>,
    /// Threads that are listing a directory and may add more.
    busy: usize,
}

/// Walks below `root`.
pub(super) fn walk(root: &Root, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    let mut walk = Walk {
        root,
        options,
        names: options.owner_names.then(Names::default),
        visit,
        stack: Mutex::default(),
        more: Condvar::new(),
        stopped: AtomicBool::new(false),
        dev: None,
    };
    let mut first = ScanBatch::default();
    let starts = if options.starts.is_empty() { vec![RelPath::root()] } else { options.starts.clone() };
    let mut above = Vec::new();
    for start in starts {
        walk.start(&start, &mut above, &mut first);
    }
    if (walk.visit)(first).is_break() {
        return Ok(());
    }
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| walk.run());
        }
    });
    Ok(())
}

impl Walk<'_> {
    /// Lists the start itself and, once, the directories above it.
    fn start(&mut self, start: &RelPath, above: &mut Vec<RelPath>, batch: &mut ScanBatch) {
        let mut chain: Vec<RelPath> = Vec::new();
        let mut at = start.parent();
        while let Some(path) = at {
            at = path.parent();
            chain.push(path);
        }
        for path in chain.into_iter().rev() {
            if self.options.starts.contains(&path) || above.contains(&path) {
                continue;
            }
            if let Ok(at) = self.root.at(&path)
                && let Ok(entry) = stat::entry(&at, path.clone(), self.names.as_ref())
            {
                if above.len() > 64 {
                    above.clear();
                }
                above.push(path);
                batch.entries.push(entry);
            }
        }
        let found = self.root.at(start).and_then(|at| {
            let entry = stat::entry(&at, start.clone(), self.names.as_ref())?;
            Ok((at, entry))
        });
        match found {
            Err(errno) => batch.errors.push(self.failure("look at", start, errno)),
            Ok((at, entry)) => {
                if self.dev.is_none() && self.options.one_file_system {
                    self.dev = Some(entry.dev);
                }
                if filter::excludes(&self.options.rules, start, entry.is_dir()) && !start.is_root() {
                    batch.excluded += 1;
                    return;
                }
                if entry.is_dir() {
                    self.lock().dirs.push((start.clone(), at));
                }
                batch.entries.push(entry);
            }
        }
    }

    fn failure(&self, operation: &str, path: &RelPath, errno: Errno) -> Failure {
        Failure { path: path.clone(), error: self.root.error(operation, path, errno) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut batch = ScanBatch::default();
        let mut space = Vec::with_capacity(64 * 1024);
        loop {
            let mut stack = self.lock();
            let (path, at) = loop {
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(next) = stack.dirs.pop() {
                    stack.busy += 1;
                    break next;
                }
                if stack.busy == 0 {
                    self.more.notify_all();
                    drop(stack);
                    self.hand_over(&mut batch, 0);
                    return;
                }
                if !batch.entries.is_empty() || !batch.errors.is_empty() {
                    drop(stack);
                    self.hand_over(&mut batch, 0);
                    stack = self.lock();
                    continue;
                }
                stack = self.more.wait(stack).unwrap_or_else(PoisonError::into_inner);
            };
            drop(stack);
            if let Err(errno) = self.list(&path, &at, &mut batch, &mut space)
                // A directory that vanished since it was listed has nothing to tell.
                && errno != Errno::NOENT
            {
                batch.errors.push(self.failure("list the folder", &path, errno));
            }
            let mut stack = self.lock();
            stack.busy -= 1;
            if stack.busy == 0 && stack.dirs.is_empty() {
                self.more.notify_all();
            }
            drop(stack);
            self.hand_over(&mut batch, BATCH);
        }
    }

    fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        if batch.entries.len() + batch.errors.len() < at_least
            || batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0
        {
            return;
        }
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.stopped.store(true, Ordering::Relaxed);
            self.more.notify_all();
        }
    }

    fn list(
        &self,
        path: &RelPath,
        at: &At,
        batch: &mut ScanBatch,
        space: &mut Vec<u8>,
    ) -> rustix::io::Result<()> {
        let dir = Arc::new(at.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?);
        // Listing moves the position of the handle, so it gets one of its own beside the one that names refer to.
        let mut listing = RawDir::new(&*dir, space.spare_capacity_mut());
        while let Some(found) = listing.next() {
            let found = found?;
            let name = found.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                self.name(path, &dir, name, batch);
                self.hand_over(batch, BATCH);
                if self.stopped.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn name(&self, parent: &RelPath, dir: &Arc<OwnedFd>, name: &[u8], batch: &mut ScanBatch) {
        if stage::is_staging_name(name) {
            batch.excluded += 1;
            return;
        }
        let path = match parent.join(name) {
            Ok(path) => path,
            Err(bad) => {
                let error =
                    self.root.fault(ErrorKind::Unsupported, "take the path below", parent, &bad.to_string());
                batch.errors.push(Failure { path: parent.clone(), error });
                return;
            }
        };
        let at = At { dir: dir.clone(), name: name.to_vec() };
        let entry = match stat::entry(&at, path.clone(), self.names.as_ref()) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return,
            Err(errno) => {
                batch.errors.push(self.failure("look at", &path, errno));
                return;
            }
        };
        let options = self.options;
        let wrong_size = entry.is_file()
            && (options.min_size.is_some_and(|min| entry.len < min)
                || options.max_size.is_some_and(|max| entry.len > max));
        if wrong_size || filter::excludes(&options.rules, &path, entry.is_dir()) {
            batch.excluded += 1;
            return;
        }
        if entry.is_dir() && self.dev.is_none_or(|dev| dev == entry.dev) {
            self.lock().dirs.push((path, at));
            self.more.notify_one();
        }
        batch.entries.push(entry);
    }
}

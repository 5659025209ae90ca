//! A parallel walk: several threads, one stack of what is to be looked at, directory handles all the way down.

mod stack;
mod told;

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

use haul_core::source::ScanVisit;
use haul_core::{Entry, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions, filter};
use haul_index::Index;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

use self::stack::{Folder, Part, Stack, Step};
use super::root::{At, Dir, Root};
use super::stat::{self, Names};
use super::{descriptors, stage};
use haul_ends::thread_pool::{Seat, ThreadPool};

/// Entries handed over at a time.
const BATCH: usize = 512;
/// Bytes of paths handed over at a time.
const BATCH_BYTES: usize = 1024 * 1024;
/// The same where entries come slowly.
const SLOW_BATCH: usize = 32;
/// Names of one folder that are looked at by one thread, where each is a question to a server.
const NAMES: usize = 32;
/// Such names that wait at most, in parts; more are looked at by who lists them.
const MAX_PARTS: usize = 1024;

struct Walk<'a> {
    root: &'a Root,
    threads: &'a ThreadPool,
    options: &'a ScanOptions,
    names: Option<Names>,
    /// What is known from an earlier run, and where this one is remembered.
    index: Option<&'a Index>,
    visit: ScanVisit<'a>,
    stack: Mutex<Stack<'a>>,
    stopped: AtomicBool,
    /// Folders on the stack that may hold a descriptor.
    most_held: usize,
    /// The file system to stay on, with `one_file_system`.
    dev: Option<u64>,
}

/// Walks below `root`. What `index` knows is not looked at again.
pub(super) fn walk(
    root: &Root,
    threads: &ThreadPool,
    index: Option<&Index>,
    options: &ScanOptions,
    visit: ScanVisit<'_>,
) -> Result<()> {
    let mut walk = Walk {
        root,
        threads,
        options,
        names: options.owner_names.then(Names::default),
        index,
        visit,
        stack: Mutex::default(),
        stopped: AtomicBool::new(false),
        most_held: descriptors::share(8).min(MAX_PARTS),
        dev: None,
    };
    let mut first = ScanBatch::default();
    let starts = if options.starts.is_empty() { vec![RelPath::root()] } else { options.starts.clone() };
    for path in options.above_starts() {
        if let Ok(at) = root.at(&path)
            && let Ok(entry) = stat::entry(root, &at, path, walk.names.as_ref())
        {
            first.entries.push(entry);
        }
    }
    for start in starts {
        walk.start(&start, &mut first);
    }
    if (walk.visit)(first).is_break() {
        return Ok(());
    }
    let walk = &walk;
    thread::scope(|scope| walk.run(scope, threads.own_seat()));
    if let Some(index) = index.filter(|_| !walk.stopped.load(Ordering::Relaxed)) {
        index.scanned();
    }
    Ok(())
}

impl<'a> Walk<'a> {
    /// Lists a start itself.
    fn start(&mut self, start: &RelPath, batch: &mut ScanBatch) {
        let found = self.root.at(start).and_then(|at| {
            let found = stat::entry_and_stamp(self.root, &at, start.clone(), self.names.as_ref())?;
            Ok((at, found))
        });
        match found {
            Err(errno) => batch.errors.push(self.failure("look at", start, errno)),
            Ok((at, (entry, stamp))) => {
                if self.dev.is_none() && self.options.one_file_system {
                    self.dev = Some(entry.dev);
                }
                if filter::excludes(&self.options.rules, start, entry.is_dir()) && !start.is_root() {
                    batch.leaves_out(self.options, start);
                    return;
                }
                if entry.is_dir() {
                    let most = self.most_held;
                    self.lock().put(start.clone(), at, stamp, most);
                }
                batch.entries.push(entry);
            }
        }
    }

    fn failure(&self, operation: &str, path: &RelPath, errno: Errno) -> Failure {
        Failure { path: path.clone(), error: self.root.error(operation, path, errno) }
    }

    fn lock(&self) -> haul_core::sync::MutexGuard<'_, Stack<'a>> {
        self.stack.lock()
    }

    /// The next step, and whether there are more. Names go first: they hold memory, and handles.
    fn next(&self) -> Option<(Step<'a>, bool)> {
        let mut stack = self.lock();
        let step = match stack.names.pop() {
            Some(part) => Step::Look(part),
            None => stack.dirs.pop().map(Step::List)?,
        };
        Some((step, !stack.names.is_empty() || !stack.dirs.is_empty()))
    }

    /// One thread: looks at what is on the stack until it is empty. Who adds to it calls others.
    fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, seat: Seat<'scope>) {
        let mut batch = ScanBatch::default();
        let mut space = Vec::with_capacity(64 * 1024);
        let enough = if self.root.is_network_fs() { SLOW_BATCH } else { BATCH };
        let call = || {
            if let Some(seat) = self.threads.seat() {
                // Where no thread can be had, those that are there do it all.
                let _ = thread::Builder::new().spawn_scoped(scope, move || self.run(scope, seat));
            }
        };
        while !self.stopped.load(Ordering::Relaxed)
            && let Some((step, more)) = self.next()
        {
            if more {
                call();
            }
            match step {
                Step::List(folder) => {
                    if let Err(errno) = self.list(&folder, &mut batch, &mut space, &call)
                        // A directory that vanished since it was listed has nothing to tell.
                        && errno != Errno::NOENT
                    {
                        batch.errors.push(self.failure("list the folder", &folder.path, errno));
                    }
                    self.threads.done();
                }
                Step::Look(part) => {
                    for name in &part.names {
                        self.name(&part, name, &mut batch, &call);
                        self.threads.done();
                        self.hand_over(&mut batch, BATCH);
                    }
                }
            }
            self.hand_over(&mut batch, enough);
        }
        self.hand_over(&mut batch, 0);
        drop(seat);
    }

    fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        // Names of one folder are about of one length.
        let longest = batch.entries.last().map_or(0, |entry| entry.path.as_bytes().len());
        let is_light = longest.saturating_mul(batch.entries.len()) < BATCH_BYTES;
        if batch.entries.len() + batch.errors.len() < at_least && is_light
            || batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0
        {
            return;
        }
        self.visit(std::mem::take(batch));
    }

    fn visit(&self, batch: ScanBatch) {
        if let ControlFlow::Break(()) = (self.visit)(batch) {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Where a folder is.
    fn at(&self, folder: &Folder) -> rustix::io::Result<At> {
        folder.at.clone().map_or_else(|| self.root.at(&folder.path), Ok)
    }

    fn list(
        &self,
        folder: &Folder,
        batch: &mut ScanBatch,
        space: &mut Vec<u8>,
        call: &dyn Fn(),
    ) -> rustix::io::Result<()> {
        let path = &folder.path;
        if let Some(known) = self.index.and_then(|index| index.folder(path, &folder.stamp)) {
            return self.tell(folder, &known, batch, call);
        }
        let record = self.index.and_then(|index| index.record(path, folder.stamp)).map(Arc::new);
        let _doing = self.root.doing("list the folder", path);
        let dir = Arc::new(Dir::new(
            self.at(folder)?.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?,
            false,
            &self.root.ops,
        ));
        let mut names = 0;
        let mut part = Part::new(path, dir.clone(), NAMES, record);
        let mut listing = RawDir::new(&*dir, space.spare_capacity_mut());
        while let Some(found) = {
            if listing.is_buffer_empty() {
                self.root.ops.one();
            }
            listing.next()
        } {
            let found = found?;
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            if stage::is_staging_name(name) {
                batch.excluded += 1;
                part.record.iter().for_each(|record| record.hid());
                continue;
            }
            names += 1;
            self.meet(&mut part, name, batch, call);
        }
        part.record.iter().for_each(|record| record.listed(names));
        self.put_off(part);
        Ok(())
    }

    /// A name is to be looked at: later, where that is a question to a server and not too many wait already.
    fn meet(&self, part: &mut Part<'a>, name: &[u8], batch: &mut ScanBatch, call: &dyn Fn()) {
        if self.root.is_network_fs() && self.lock().names.len() < MAX_PARTS {
            part.names.push(name.to_vec());
            if part.names.len() == part.most {
                let full = part.take();
                self.lock().names.push(full);
                call();
            }
        } else {
            self.name(part, name, batch, call);
            self.hand_over(batch, BATCH);
        }
    }

    /// The last names of a folder are looked at later.
    fn put_off(&self, part: Part<'a>) {
        if !part.names.is_empty() {
            self.lock().names.push(part);
        }
    }

    fn name(&self, part: &Part<'a>, name: &[u8], batch: &mut ScanBatch, call: &dyn Fn()) {
        let path = match part.path.join(name) {
            Ok(path) => path,
            Err(bad) => {
                let (root, parent) = (self.root, &part.path);
                let error =
                    root.fault(ErrorKind::Unsupported, "take the path below", parent, &bad.to_string());
                batch.errors.push(Failure { path: parent.clone(), error });
                return;
            }
        };
        let at = At { dir: part.dir.clone(), name: name.to_vec() };
        let _doing = self.root.doing("look at", &path);
        let (entry, stamp) = match stat::entry_and_stamp(self.root, &at, path.clone(), self.names.as_ref()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return,
            Err(errno) => {
                batch.errors.push(self.failure("look at", &path, errno));
                return;
            }
        };
        part.record.iter().for_each(|record| record.saw(&entry));
        if self.leaves_out(&entry, batch) {
            return;
        }
        if entry.is_dir() && self.dev.is_none_or(|dev| dev == entry.dev) {
            self.lock().put(path, at, stamp, self.most_held);
            call();
        }
        batch.entries.push(entry);
    }

    /// Whether the rules leave it out; then it is counted.
    fn leaves_out(&self, entry: &Entry, batch: &mut ScanBatch) -> bool {
        let options = self.options;
        let out =
            options.is_wrong_size(entry) || filter::excludes(&options.rules, &entry.path, entry.is_dir());
        if out {
            batch.leaves_out(options, &entry.path);
        }
        out
    }
}

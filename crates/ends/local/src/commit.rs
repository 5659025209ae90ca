//! From staged to committed: sync a group of files together, then give them their names.
//!
//! One thread does this for a sink. While it syncs, the next group is being written, so many small files share one
//! sync, and a large file's slices are recorded as durable a few times a second.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use haul_core::{
    Digest, Entry, Error, ErrorKind, Outcome, RelPath, Result, Retry, SLICE_LEN, SinkOptions, WriteDone,
};
use rustix::fs::Advice;

use super::commit_large::LargeWork;
use super::delta::Bases;
use super::large::LargeFile;
use super::meta::{Metadata, On};
use super::pagecache::{self, Opened};
use super::recheck::Rechecks;
use super::root::Root;
use super::stage::{self, Staged};
use super::sync::{Disk, Synced, Syncer};
use super::unsynced::Unsynced;
use super::{descriptors, digest, direct};
use haul_ends::thread_pool::ThreadPool;

/// How long a group is collected before it is synced.
const COLLECT: Duration = Duration::from_millis(300);
/// A group of this many bytes is synced at once.
const GROUP_BYTES: u64 = 128 * 1024 * 1024;
/// A group of this many items is synced at once.
const GROUP_ITEMS: usize = 2048;
/// Items that wait at most; each small file is an open, locked file.
const MAX_WAITING: usize = 6000;
/// As many again are being committed, and each may hold its directory open: a sixth of the descriptors in all, or two
/// thirds of those beyond [`FEW_DESCRIPTORS`].
const WAITING_SHARE: usize = 24;
const FEW_DESCRIPTORS: usize = 4096;

/// The outcomes of one write, handed to its `done` when all are known.
pub(super) struct Ticket {
    state: Mutex<TicketState>,
}

struct TicketState {
    outcomes: Vec<Option<Result<Outcome>>>,
    left: usize,
    done: Option<WriteDone>,
}

impl Ticket {
    pub(super) fn new(slices: usize, done: WriteDone) -> Arc<Self> {
        let state = TicketState { outcomes: vec![None; slices], left: slices, done: Some(done) };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Settles slice `at`.
    pub(super) fn settle(&self, at: usize, outcome: Result<Outcome>) {
        let mut state = self.state.lock();
        if let Some(slot) = state.outcomes.get_mut(at)
            && slot.replace(outcome).is_none()
        {
            state.left -= 1;
        }
        if state.left == 0
            && let Some(done) = state.done.take()
        {
            let outcomes = std::mem::take(&mut state.outcomes).into_iter().flatten().collect();
            drop(state);
            done(outcomes);
        }
    }
}

/// Something written that waits to be durable.
pub(super) struct Item {
    /// Whom to tell.
    pub(super) ticket: Arc<Ticket>,
    /// Which of its slices.
    pub(super) at: usize,
    /// How many bytes were written.
    pub(super) bytes: u64,
    /// What was written.
    pub(super) what: What,
}

/// A whole small file, or a slice of a large file one.
pub(super) enum What {
    /// A staged file with all of its content and metadata.
    Small(Box<Staged>, Arc<Entry>, Digest),
    /// Some slice of a large file, written.
    Slice(Arc<LargeFile>),
}

/// Files that were just committed: a slice that arrives again finds its file here.
pub(super) type Committed = Mutex<haul_ends::cache::Cache<RelPath, (haul_core::entry::Identity, Digest)>>;

/// The place of a large file in the table: opening it holds up only those who want the same one.
type LargeSlot = Arc<Mutex<Option<Arc<LargeFile>>>>;

/// What the committing thread and the writers share.
pub(super) struct Committer {
    queue: Mutex<Queue>,
    changed: Condvar,
    pub(super) root: Root,
    pub(super) metadata: Metadata,
    pub(super) large_files: Mutex<HashMap<RelPath, LargeSlot>>,
    pub(super) committed: Committed,
    /// The files that are to be replaced, as far as they are compared.
    pub(super) bases: Bases,
    /// Those who write and commit.
    pub(super) threads: ThreadPool,
    pub(super) syncer: Syncer,
    /// What interrupted runs have left, as far as it is to be read back.
    pub(super) rechecks: Rechecks,
    pub(super) durable: bool,
    /// What runs without syncs may have left here.
    pub(super) unsynced: Unsynced,
    pub(super) verify_disk: bool,
    /// Items that wait at most.
    most: usize,
}

#[derive(Default)]
struct Queue {
    items: Vec<Item>,
    bytes: u64,
    /// When the oldest item came.
    since: Option<Instant>,
    /// Items that are being committed.
    busy: usize,
    /// Items that wait for what an interrupted run has left to be read back.
    held: usize,
    flush: bool,
    closed: bool,
}

impl Committer {
    pub(super) fn new(
        root: Root,
        metadata: Metadata,
        threads: ThreadPool,
        options: &SinkOptions,
        disk: Box<dyn Disk>,
        unsynced: Unsynced,
    ) -> Self {
        Self {
            syncer: Syncer::new(disk, Arc::clone(&root.ops)),
            rechecks: Rechecks::default(),
            threads,
            queue: Mutex::default(),
            changed: Condvar::new(),
            root,
            metadata,
            large_files: Mutex::default(),
            committed: Mutex::new(haul_ends::cache::Cache::new(4096)),
            bases: Bases::new(),
            durable: options.durable,
            unsynced,
            verify_disk: options.verify_disk,
            most: descriptors::share(WAITING_SHARE)
                .max(descriptors::beyond(FEW_DESCRIPTORS) / 6)
                .min(MAX_WAITING),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue)
    }

    /// Hands over what was written; waits while too much is waiting.
    pub(super) fn push(&self, item: Item) {
        let mut queue = self.lock();
        let is_over =
            |queue: &Queue| (queue.items.len() >= self.most || queue.busy >= self.most) && !queue.closed;
        if is_over(&queue) {
            // Those who commit need the seats of those who wait for them.
            let _lent = self.threads.lend();
            while is_over(&queue) {
                queue = self.wait(queue);
            }
        }
        let first = queue.items.is_empty();
        queue.bytes += item.bytes;
        queue.since.get_or_insert_with(Instant::now);
        queue.items.push(item);
        let due = first || self.is_full(&queue);
        drop(queue);
        if due {
            self.changed.notify_all();
        }
    }

    /// Keeps an item until its file was read back.
    pub(super) fn hold(&self, large: &LargeFile, item: Item) {
        self.lock().held += 1;
        if let Some(item) = large.recheck.hold(item) {
            self.take_back(vec![item]);
        }
    }

    /// Files were read back: what waited for that is committed.
    pub(super) fn take_back(&self, items: Vec<Item>) {
        if items.is_empty() {
            return;
        }
        let mut queue = self.lock();
        queue.held -= items.len();
        queue.since.get_or_insert_with(Instant::now);
        queue.items.extend(items);
        queue.flush = true;
        drop(queue);
        self.changed.notify_all();
    }

    /// Whether what waits is enough for a group.
    fn is_full(&self, queue: &Queue) -> bool {
        queue.items.len() >= GROUP_ITEMS.min(self.most) || queue.bytes >= GROUP_BYTES
    }

    /// Commits what is waiting without collecting more.
    pub(super) fn flush(&self) {
        self.lock().flush = true;
        self.changed.notify_all();
    }

    /// Flushes and waits until nothing is left.
    pub(super) fn drain(&self) {
        let mut queue = self.lock();
        while !queue.items.is_empty() || queue.busy + queue.held > 0 {
            queue.flush = true;
            self.changed.notify_all();
            queue = self.wait(queue);
        }
    }

    /// Ends the thread once nothing is left.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The committing thread.
    pub(super) fn run(&self) {
        thread::scope(|scope| self.run_in(scope));
    }

    fn run_in<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        loop {
            let mut queue = self.lock();
            loop {
                let Some(since) = queue.since else {
                    queue.flush = false;
                    if queue.closed {
                        return;
                    }
                    queue = self.wait(queue);
                    continue;
                };
                let waited = since.elapsed();
                if self.is_full(&queue) || queue.flush || queue.closed || !self.durable || waited >= COLLECT {
                    break;
                }
                queue = self.changed.wait_timeout(queue, COLLECT - waited).0;
            }
            let items = std::mem::take(&mut queue.items);
            queue.bytes = 0;
            queue.since = None;
            queue.busy += items.len();
            drop(queue);
            self.changed.notify_all();
            self.commit(items, scope);
        }
    }

    /// So many items are committed, or could not be.
    fn settled(&self, count: usize) {
        self.lock().busy -= count;
        self.changed.notify_all();
    }

    /// Commits a group.
    fn commit<'scope>(&'scope self, items: Vec<Item>, scope: &'scope Scope<'scope, '_>) {
        let all = items.len();
        let mut large_files: Vec<(Arc<LargeFile>, Vec<Item>)> = Vec::new();
        let mut known: HashMap<*const LargeFile, usize> = HashMap::new();
        let mut small = Vec::new();
        for item in items {
            match &item.what {
                What::Small(..) => small.push(item),
                What::Slice(large) => {
                    let at = *known.entry(Arc::as_ptr(large)).or_insert_with(|| {
                        large_files.push((large.clone(), Vec::new()));
                        large_files.len() - 1
                    });
                    large_files[at].1.push(item);
                }
            }
        }
        // What is dirty now is what the sync below makes durable; a complete file's metadata goes with it.
        let mut work: Vec<LargeWork> = Vec::with_capacity(large_files.len());
        for (large, items) in large_files {
            if let Some(end) = large.ended().cloned() {
                // Slices that were sent again, of a file that has come to its end meanwhile.
                for item in items {
                    item.ticket.settle(item.at, end.clone().map(|digest| Outcome::Committed(Some(digest))));
                }
                continue;
            }
            let dirty = large.take_dirty();
            let digest = large.seal();
            let on = On::File(&large.staged);
            // Of a file that is changed in place, the times are what says that it is complete: they come last.
            let metadata = digest.filter(|_| !large.in_place).map(|_| self.metadata.set(&on, &large.entry));
            let failure = match metadata {
                Some(Err(errno)) => Some(self.root.error("set the metadata of", &large.entry.path, errno)),
                _ => large.recheck.failure().map(|error| error.on(self.root.shown(&large.entry.path))),
            };
            work.push(LargeWork { large, items, dirty, digest, failure, is_lost: false });
        }
        let synced = Arc::new(self.sync(&small, &mut work));
        let count = small.len();
        let small: Vec<_> = small.into_iter().map(|item| Mutex::new(Some(item))).collect();
        let publish = {
            let synced = synced.clone();
            Arc::new(move || {
                self.threads.each(&small, |item| {
                    if let Some(item) = item.lock().take() {
                        self.commit_small(item, &synced);
                    }
                });
                self.settled(count);
            })
        };
        let alone = self.threads.is_single() || count == 0 || {
            // A name that a server is stuck at must not hold up the next group.
            let publish = publish.clone();
            thread::Builder::new().name("publish".into()).spawn_scoped(scope, move || publish()).is_err()
        };
        if alone {
            publish();
        }
        for one in work {
            self.commit_large(one);
        }
        self.settled(all - count);
    }

    fn commit_small(&self, item: Item, synced: &Synced) {
        let What::Small(staged, entry, digest) = item.what else { return };
        let _doing = self.root.doing("finish", &entry.path);
        let certified = if self.durable {
            self.syncer.certify(synced, &staged.file, staged.dev)
        } else if entry.is_sparse() {
            // Its length was set, as with large files.
            self.syncer.file(&staged.file, staged.dev)
        } else {
            Ok(())
        };
        let outcome = match certified {
            Err(error) => {
                staged.abandon();
                Err(self.sync_error(&error, &entry))
            }
            Ok(()) if staged.direct => self.complete(*staged, &entry, digest),
            Ok(()) => self.publish(&staged, &entry, digest).inspect_err(|_| staged.abandon()),
        };
        item.ticket.settle(item.at, outcome);
    }

    /// Marks a file that has its final name as complete: its times come last.
    fn complete(&self, staged: Staged, entry: &Entry, digest: Digest) -> Result<Outcome> {
        let finished = self.metadata.finish(&staged.file, entry);
        let Staged { file, at, now, .. } = staged;
        finished.and(direct::close(file)).map_err(|errno| {
            stage::remove_if(&at, &now);
            self.root.error("write", &entry.path, errno)
        })?;
        Ok(Outcome::Committed(Some(digest)))
    }

    /// Makes the group durable. Whether that is so of a small file is still to be asked; large files are told here.
    fn sync(&self, small: &[Item], large_files: &mut [LargeWork]) -> Synced {
        if !self.durable {
            // A large file has its length from its beginning: after a power cut it could be all zeros, and look complete.
            for one in large_files.iter_mut().filter(|one| one.digest.is_some()) {
                if let Err(error) = self.syncer.file(&one.large.staged.file, one.large.staged.dev) {
                    one.fail(self.sync_error(&error, &one.large.entry));
                }
            }
            return Synced::default();
        }
        let of_small = small.iter().filter_map(|item| match &item.what {
            What::Small(staged, ..) => Some((&staged.file, staged.dev)),
            What::Slice(_) => None,
        });
        let of_large_files = large_files.iter().map(|one| (&one.large.staged.file, one.large.staged.dev));
        let synced = self.syncer.group(of_small.chain(of_large_files));
        for one in large_files {
            // Few in a group, and what their journals say is trusted by later runs.
            if let Err(error) = self.syncer.file(&one.large.staged.file, one.large.staged.dev) {
                one.fail(self.sync_error(&error, &one.large.entry));
            }
        }
        synced
    }

    /// What was written may be lost, and what is in memory is not what is on the disk: all of it has to come again.
    fn sync_error(&self, error: &std::io::Error, entry: &Entry) -> Error {
        let error = Error::io(self.root.side(), "sync", error).on(self.root.shown(&entry.path));
        error.with_retry(Retry::Anew)
    }

    pub(super) fn publish(&self, staged: &Staged, entry: &Entry, digest: Digest) -> Result<Outcome> {
        if !self.durable
            && entry.len <= SLICE_LEN
            && !self.root.is_network_fs()
            && let Err(cause) = self.unsynced.begin(staged.dev)
        {
            self.metadata.note_cause("record of --no-fsync", cause, &entry.path);
        }
        if self.verify_disk {
            self.read_back(&staged.file, entry, digest)?;
        }
        staged.publish(&self.root, &entry.path)?;
        if self.durable {
            pagecache::release(&staged.file, 0, entry.len);
        }
        Ok(Outcome::Committed(Some(digest)))
    }

    /// Reads the file from the disk, past the page cache, and compares.
    pub(super) fn read_back(&self, file: &File, entry: &Entry, digest: Digest) -> Result<()> {
        let failed =
            |e: &std::io::Error| Error::io(self.root.side(), "read back", e).on(self.root.shown(&entry.path));
        // Only clean pages can be dropped.
        self.root.ops.one();
        file.sync_data().map_err(|e| failed(&e))?;
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).map_err(|e| failed(&e.into()))?;
        let twin = descriptors::wait_for(|| rustix::io::fcntl_dupfd_cloexec(file, 0));
        let opened = Opened::new(twin.map_err(|e| failed(&e.into()))?.into(), entry.len);
        let read = digest::of_opened(&self.root.ops, &opened, entry.len).map_err(|e| failed(&e))?;
        if read == digest {
            return Ok(());
        }
        let cause = format!("the disk gave back other content: {read} instead of {digest}");
        Err(self.root.fault(ErrorKind::Corrupt, "verify", &entry.path, &cause))
    }
}

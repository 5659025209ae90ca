//! The committing thread: it syncs a group of files together, then renames them into place.
//!
//! While it syncs, the next group is being written. So many small files share one sync, and the slices of a large file
//! are recorded as durable a few times a second.

use haul_core::sync::Mutex;
use haul_core::sync::thread::{self, Scope};
use std::collections::HashMap;
use std::sync::Arc;

use haul_core::{Digest, Entry, Outcome, Result, Retry};

use super::committer::Committer;
use super::large::LargeWork;
use super::queue::{CommitQueue, QueueItem, WrittenItem, places_of};
use super::sync::Synced;
use crate::network_fs::direct;
use crate::stage::large::LargeFile;
use crate::stage::names::remove_if;
use crate::stage::staged::Staged;
use crate::ticket::PendingSlice;

/// A small file of a group.
struct SmallWork {
    pending: PendingSlice,
    staged: Box<Staged>,
    entry: Arc<Entry>,
    digest: Digest,
}

/// The slices of a group, by their large files.
type GroupSlices = Vec<(Arc<LargeFile>, Vec<PendingSlice>)>;

impl Committer {
    /// The committing thread.
    pub(crate) fn run(&self) {
        let _ended = EndOfThread(&self.queue);
        thread::scope(|scope| {
            while let Some(items) = self.queue.next_group() {
                self.commit(items, scope);
            }
        });
    }

    /// Commits a group.
    fn commit<'scope>(&'scope self, items: Vec<QueueItem>, scope: &'scope Scope<'scope, '_>) {
        let all: usize = items.iter().map(QueueItem::places).sum();
        let (small, slices) = by_file(items);
        // The sync below makes durable the slices that are dirty now and the metadata of complete files.
        let mut large: Vec<LargeWork> =
            slices.into_iter().filter_map(|(large, pending)| self.large_work(large, pending)).collect();
        let synced = self.sync(&small, &mut large);
        let published = places(&small);
        self.publish_all(small, synced, scope);
        for work in large {
            self.commit_large(work);
        }
        self.queue.settled(all - published);
    }

    /// Prepares one large file. `None` if it has ended meanwhile: then its slices were sent again, and are settled.
    fn large_work(&self, large: Arc<LargeFile>, pending: Vec<PendingSlice>) -> Option<LargeWork> {
        if let Some(end) = large.ended().cloned() {
            for pending in pending {
                pending.settle(end.clone().map(|digest| Outcome::Committed(Some(digest))));
            }
            return None;
        }
        let root = &self.tree.root;
        let dirty = large.take_dirty();
        let digest = large.seal();
        // The times of a file that is updated in place mark it as complete: they are set last.
        let metadata = digest
            .filter(|_| !large.in_place)
            .map(|_| self.metadata.set_written(&large.staged.written(), large.entry()));
        let failure = match metadata {
            Some(Err(errno)) => Some(root.error("set the metadata of", &large.entry().path, errno)),
            _ => large.recheck.failure().map(|error| error.on(root.shown(&large.entry().path))),
        };
        Some(LargeWork { large, pending, dirty, digest, failure, is_lost: false })
    }

    /// Makes the group durable. Large files learn of failures here; small ones ask with [`Synced`].
    fn sync(&self, small: &[SmallWork], large: &mut [LargeWork]) -> Synced {
        if !self.durable {
            // A large file has its full length from the beginning: after a power cut it could be all zeros, and look
            // complete.
            self.sync_large(large.iter_mut().filter(|work| work.digest.is_some()));
            return Synced::default();
        }
        let of_small = small.iter().map(|work| (&work.staged.file, work.staged.dev));
        let of_large = large.iter().map(|work| (&work.large.staged.file, work.large.staged.dev));
        let synced = self.syncer.group(of_small.chain(of_large));
        // A group holds few of them, and later runs trust their journals.
        self.sync_large(large.iter_mut());
        synced
    }

    fn sync_large<'a>(&self, large: impl Iterator<Item = &'a mut LargeWork>) {
        for work in large {
            let staged = &work.large.staged;
            if let Err(error) = self.syncer.file(&staged.file, staged.dev) {
                work.fail(self.sync_error(&error, work.large.entry()));
            }
        }
    }

    /// Commits the small files of a group, several at a time on a network file system. A thread of its own does it: it
    /// renames them while the next group is synced, and a rename that hangs at a server holds up no other group.
    fn publish_all<'scope>(
        &'scope self,
        small: Vec<SmallWork>,
        synced: Synced,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let places = places(&small);
        let small: Vec<_> = small.into_iter().map(|work| Mutex::new(Some(work))).collect();
        let publish = Arc::new(move || {
            let _settled = Settled { queue: &self.queue, places };
            self.threads.each(&small, |work| {
                if let Some(work) = work.lock().take() {
                    self.commit_small(work, &synced);
                }
            });
        });
        let is_worth_it = self.durable || !self.threads.is_single();
        if places == 0 || !is_worth_it {
            return publish();
        }
        let work = Arc::clone(&publish);
        if thread::Builder::new().name("publish".into()).spawn_scoped(scope, move || work()).is_err() {
            publish();
        }
    }

    fn commit_small(&self, work: SmallWork, synced: &Synced) {
        let SmallWork { pending, staged, entry, digest } = work;
        let _doing = self.tree.doing("finish", &entry.path);
        let certified = if self.durable {
            self.syncer.certify(synced, &staged.file, staged.dev)
        } else if entry.is_sparse() {
            // Its length was set before its content, as for large files.
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
        pending.settle(outcome.map_err(|error| error.or_retry(Retry::of_write)));
    }

    /// Marks a file that has its final name as complete, by setting its times.
    fn complete(&self, staged: Staged, entry: &Entry, digest: Digest) -> Result<Outcome> {
        let finished = self.superseded.publish(entry, || self.metadata.finish(&staged.file, entry));
        let Staged { file, at, now, .. } = staged;
        let Some(finished) = finished else {
            remove_if(&at, &now);
            return Err(self.outdated(entry));
        };
        finished.and(direct::close(file)).map_err(|errno| {
            remove_if(&at, &now);
            self.tree.root.error("write", &entry.path, errno)
        })?;
        Ok(Outcome::Committed(Some(digest)))
    }
}

/// Settles places when it is dropped, also after a panic: nobody waits for them forever.
struct Settled<'a> {
    queue: &'a CommitQueue,
    places: usize,
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.queue.settled(self.places);
    }
}

/// Reports the end of the committing thread, also after a panic.
struct EndOfThread<'a>(&'a CommitQueue);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The places that the files take in the queue.
fn places(small: &[SmallWork]) -> usize {
    small.iter().map(|work| places_of(&work.entry)).sum()
}

fn by_file(items: Vec<QueueItem>) -> (Vec<SmallWork>, GroupSlices) {
    let mut slices: GroupSlices = Vec::new();
    let mut known: HashMap<*const LargeFile, usize> = HashMap::new();
    let mut small = Vec::new();
    for QueueItem { pending, what, .. } in items {
        match what {
            WrittenItem::Small(staged, entry, digest) => {
                small.push(SmallWork { pending, staged, entry, digest });
            }
            WrittenItem::Slice(large) => {
                let at = *known.entry(Arc::as_ptr(&large)).or_insert_with(|| {
                    slices.push((large, Vec::new()));
                    slices.len() - 1
                });
                slices[at].1.push(pending);
            }
        }
    }
    (small, slices)
}

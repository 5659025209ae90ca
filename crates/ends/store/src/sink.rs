//! The writing end.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_core::{
    Answer, Batch, BatchData, BufferPool, Digest, Entry, Error, ErrorKind, FinishReport, HardLink, Offer,
    Outcome, RelPath, Result, SLICE_LEN, Sink, SinkOptions, Traffic, WriteDone,
};
use haul_object::PutOptions;
use haul_object::sidecar::{self, Beside};

use super::large::{LargeFile, Uploads};
use super::pages::Pages;
use super::part::Room;
use super::source::ObjectSource;
use super::tree::Tree;
use super::within::Copies;
use super::{Detail, notes, offer, small, threads, within};
use haul_ends::metadata_warnings::MetadataWarnings as Notes;
use haul_ends::thread_pool::ThreadPool;

/// Batches that are written at once with profit: each sends a part, or hundreds of small objects.
const WRITERS: u32 = 20;

/// A tree in a bucket, to be written.
pub(super) struct ObjectSink {
    pub(super) tree: Tree,
    pub(super) options: SinkOptions,
    /// What is copied, where the store copies that by itself.
    pub(super) from: Option<Tree>,
    /// What objects are written with.
    pub(super) stored: PutOptions,
    /// Whether the store keeps notes with the objects of folders, once that was seen.
    pub(super) keeps_folders: OnceLock<bool>,
    pub(super) pages: Pages,
    pub(super) notes: Notes,
    pub(super) uploads: Uploads,
    pub(super) room: Arc<Room>,
    pub(super) copies: Copies,
    /// Bytes of content that have gone.
    pub(super) went: AtomicU64,
    /// Of the content of large files, what an interrupted run had sent.
    pub(super) held: AtomicU64,
    /// For questions about objects, and for those without content.
    pub(super) look: ThreadPool,
    /// For content.
    pub(super) send: ThreadPool,
    buffers: BufferPool,
    large_files: Mutex<HashMap<RelPath, Arc<LargeFile>>>,
}

impl ObjectSink {
    pub(super) fn new(
        tree: Tree,
        options: SinkOptions,
        from: Option<Tree>,
        stored: PutOptions,
        buffers: BufferPool,
    ) -> Self {
        Self {
            tree,
            options,
            from,
            stored,
            keeps_folders: OnceLock::new(),
            pages: Pages::default(),
            notes: Notes::default(),
            uploads: Uploads::default(),
            room: Room::new(buffers.count() / 4),
            copies: Copies::default(),
            went: AtomicU64::new(0),
            held: AtomicU64::new(0),
            look: threads(),
            send: threads(),
            buffers,
            large_files: Mutex::default(),
        }
    }

    fn large_files(&self) -> MutexGuard<'_, HashMap<RelPath, Arc<LargeFile>>> {
        self.large_files.lock()
    }

    /// The upload of a large file in this state, begun or not.
    fn large(&self, entry: &Arc<Entry>) -> Arc<LargeFile> {
        let mut large_files = self.large_files();
        let new = || Arc::new(LargeFile::new(entry, self.tree.client.max_parts()));
        let large = large_files.entry(entry.path.clone()).or_insert_with(new);
        if !large.is_of(entry) {
            *large = new();
        }
        Arc::clone(large)
    }

    /// Writes something with the notes of `entry`. Where the store does not take all of them, without attributes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn noted<T>(
        &self,
        entry: &Entry,
        digest: Option<&Digest>,
        write: impl Fn(&PutOptions) -> Result<T>,
    ) -> Result<T> {
        let options = |attributes| PutOptions {
            metadata: notes::write(self.tree.client.kind(), entry, digest, attributes),
            ..self.stored.clone()
        };
        match write(&options(true)) {
            Err(error) if !entry.xattrs.is_empty() && is_too_much(&error) => {
                self.notes.note("attributes and ACLs", "the store takes no more notes", &entry.path);
                write(&options(false))
            }
            other => other.map_err(|error| self.not_written(error)),
        }
    }

    /// Where nothing can be written at all, the run is to end.
    pub(super) fn not_written(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let all = Error::new(ErrorKind::Unreachable, self.tree.side, error.operation(), error.cause());
        all.on(error.subject()).with_hint("is there a bucket of this name? haul makes none")
    }

    /// The digest of what is there, by reading it.
    pub(super) fn read_digest(&self, path: &RelPath) -> Result<Digest> {
        let tree = self.tree.again(self.tree.side);
        let there = ObjectSource::new(tree, Detail::Full, self.buffers.clone());
        let digest = super::read::digest(&there, std::slice::from_ref(path))?.pop();
        digest.unwrap_or_else(|| Err(self.tree.error(ErrorKind::Io, "hash", path, "there is no answer")))
    }

    fn write_all(&self, data: BatchData) -> Vec<Result<Outcome>> {
        let BatchData { batch, slices, content, at_hand } = data;
        let content = haul_object::share(content);
        let mut used = 0;
        let mut jobs = Vec::with_capacity(slices.len());
        for ((entry, slice), read) in batch.iter().zip(slices) {
            let len = read.as_ref().map_or(0, |read| read.data_len() as usize);
            let end = (used + len).min(content.len());
            jobs.push((entry, slice, read, content.slice(used.min(end)..end)));
            used = end;
        }
        drop(content);
        self.send.each(&jobs, |(entry, slice, read, content)| {
            let read = read.as_ref().map_err(Clone::clone)?;
            if !at_hand && !read.proves(entry, *slice, content) {
                let cause = format!("slice {} did not arrive as it was sent", slice.index);
                return Err(self.tree.error(ErrorKind::Corrupt, "verify", &entry.path, &cause));
            }
            self.went.fetch_add(read.data_len(), Ordering::Relaxed);
            if entry.len <= SLICE_LEN {
                small::write(self, entry, read, content)
            } else {
                self.large(entry).write(self, *slice, read, content)
            }
        })
    }
}

/// Whether a refusal is for the length of the notes.
fn is_too_much(error: &Error) -> bool {
    ["MetadataTooLarge", "HeaderSectionTooLarge", "HTTP 431"].iter().any(|code| error.cause().contains(code))
}

impl Sink for ObjectSink {
    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        Ok(self.look.each(offers, |one| offer::offer(self, one)))
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        done(self.write_all(data));
    }

    fn fetch(&self, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        match &self.from {
            Some(from) => {
                within::fetch(self, from, batch, done);
                None
            }
            None => Some(done),
        }
    }

    fn flush(&self) {}

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        for path in paths {
            let large = self.large_files().remove(path);
            large.map_or(Ok(()), |large| large.abort(self))?;
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(self.look.each(links, |link| within::link(self, link)))
    }

    fn stages(&self) -> bool {
        false
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        if self.options.dry_run {
            return Ok(paths.iter().map(|_| Ok(())).collect());
        }
        let client = &self.tree.client;
        let keys = self.look.each(paths, |path| -> Result<Vec<String>> {
            let (key, folder) = (self.tree.key(path), self.tree.folder(path));
            let Some(parent) = path.parent() else {
                return Ok(vec![sidecar::key_of(&folder), folder, key]);
            };
            let page = self.pages.of(&self.tree, &parent)?;
            let seen = page.seen(&self.tree, path);
            let mut keys = Vec::new();
            if seen.folder != Ok(false) {
                keys.extend([sidecar::key_of(&folder), folder]);
            }
            if seen.object != Ok(None) {
                keys.push(key.clone());
            }
            let name = RelPath::new(&[path.as_bytes(), b".haul"].concat());
            let beside = name.is_ok_and(|name| page.seen(&self.tree, &name).object != Ok(None));
            if beside && sidecar::beside(client, &key)? == Beside::Sidecar {
                keys.push(sidecar::key_of(&key));
            }
            Ok(keys)
        });
        let all: Vec<String> = keys.iter().flatten().flatten().cloned().collect();
        let mut left: HashMap<String, Error> = client.remove(&all)?.into_iter().collect();
        let mut stays = |keys: Vec<String>| keys.iter().find_map(|key| left.remove(key)).map_or(Ok(()), Err);
        let removed = keys.into_iter().map(|keys| keys.and_then(&mut stays)).collect();
        Ok(removed)
    }

    fn finish(&self) -> Result<FinishReport> {
        self.large_files().clear();
        Ok(FinishReport { notes: self.notes.all() })
    }

    fn streams(&self) -> u32 {
        WRITERS
    }

    fn traffic(&self) -> Traffic {
        let (went, held) = (self.went.load(Ordering::Relaxed), self.held.load(Ordering::Relaxed));
        Traffic { wire_bytes: went.saturating_sub(held), resumed_bytes: held, ..Traffic::default() }
    }
}

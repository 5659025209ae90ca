//! The bench of a case: an end with an empty place, and entries to put there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use haul_core::{
    Answer, BufferPool, Changes, Entry, EntryKind, Offer, RelPath, Result, Sink, SinkOptions, Source,
    Timestamp,
};
use serde_bytes::ByteBuf;

use super::content::{XATTR, bytes, path};
use super::keeps::Keeps;
use super::world::{OpenSink, SourceOpener, World};

/// An end with an empty place: there is no root yet.
pub struct Subject {
    /// The tree behind the end.
    pub world: Box<dyn World>,
    /// Opens the source under test.
    pub source: SourceOpener,
    /// Opens the sink under test.
    pub sink: OpenSink,
}

/// The end of a case, with its properties and with buffers.
pub(super) struct TestBench {
    pub(super) subject: Subject,
    pub(super) keeps: Keeps,
    pub(super) pool: BufferPool,
}

impl TestBench {
    pub(super) fn new(subject: Subject, keeps: Keeps) -> Self {
        Self { subject, keeps, pool: BufferPool::new(64 << 20) }
    }

    pub(super) fn source(&self) -> Arc<dyn Source> {
        (self.subject.source)()
    }

    pub(super) fn sink(&self) -> Arc<dyn Sink> {
        self.sink_with(&SinkOptions::default())
    }

    pub(super) fn sink_with(&self, options: &SinkOptions) -> Arc<dyn Sink> {
        (self.subject.sink)(options)
    }

    pub(super) fn world(&self) -> &dyn World {
        &*self.subject.world
    }

    /// A modification time. Times of different numbers differ by more than any end takes for the same.
    pub(super) fn time(&self, number: i64) -> Timestamp {
        let nsec = if self.keeps.nanoseconds { 123_456_789 } else { 0 };
        Timestamp { sec: 1_700_000_000 + 100 * self.keeps.coarsest * number, nsec }
    }

    pub(super) fn entry(&self, name: impl AsRef<[u8]>, kind: EntryKind, len: usize) -> Entry {
        // The owner is the user who runs the tests, as nobody else may set another one.
        let me = fs::metadata("/proc/self").unwrap();
        let (mode, time) = (if kind == EntryKind::Dir { 0o755 } else { 0o644 }, self.time(0));
        Entry {
            mtime: time,
            atime: time,
            mode,
            uid: me.uid(),
            gid: me.gid(),
            ino: 7,
            ..Entry::new(path(name), kind, len as u64)
        }
    }

    pub(super) fn file(&self, name: impl AsRef<[u8]>, len: usize) -> Arc<Entry> {
        Arc::new(self.entry(name, EntryKind::File, len))
    }

    pub(super) fn dir(&self, name: impl AsRef<[u8]>) -> Arc<Entry> {
        Arc::new(self.entry(name, EntryKind::Dir, 0))
    }

    pub(super) fn symlink(&self, name: impl AsRef<[u8]>, to: &str) -> Arc<Entry> {
        Arc::new(self.entry(name, EntryKind::Symlink(to.into()), 0))
    }

    pub(super) fn with_xattr(&self, entry: &Entry) -> Arc<Entry> {
        let xattr = (ByteBuf::from(XATTR.as_bytes().to_vec()), ByteBuf::from(b"value".to_vec()));
        Arc::new(Entry { xattrs: vec![xattr], ..entry.clone() })
    }

    /// Puts the root and these files there, each with its own content.
    pub(super) fn put_files(&self, files: &[(&str, usize)]) {
        self.put_root();
        for (name, len) in files {
            self.world().put(&self.file(name, *len), &bytes(name, *len));
        }
    }

    pub(super) fn put_root(&self) {
        self.world().put(&self.dir(""), &[]);
    }

    pub(super) fn put(&self, entry: &Entry) {
        let content =
            if entry.is_file() { bytes(entry.path.as_bytes(), entry.len as usize) } else { Vec::new() };
        self.world().put(entry, &content);
    }

    /// The entry as the source reports it.
    pub(super) fn seen(&self, source: &dyn Source, name: impl AsRef<[u8]>) -> Arc<Entry> {
        let wanted = path(name);
        let found = source.lookup(std::slice::from_ref(&wanted)).unwrap().remove(0).unwrap();
        Arc::new(found.unwrap_or_else(|| panic!("the source has no {wanted}")))
    }

    /// The entry behind the end.
    pub(super) fn there(&self, name: impl AsRef<[u8]>) -> Entry {
        let wanted = path(name);
        self.world().look(&wanted).unwrap_or_else(|| panic!("there is no {wanted}")).0
    }

    pub(super) fn content(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        let wanted = path(name);
        self.world().look(&wanted).unwrap_or_else(|| panic!("there is no {wanted}")).1
    }

    pub(super) fn is_missing(&self, name: impl AsRef<[u8]>) -> bool {
        self.world().look(&path(name)).is_none()
    }

    pub(super) fn names(&self) -> Vec<RelPath> {
        self.world().names()
    }
}

/// Offers one entry.
pub(super) fn offer(sink: &dyn Sink, entry: &Arc<Entry>) -> Result<Answer> {
    let mut answers = sink.offer(&[Offer { entry: Arc::clone(entry), digest: None }]).unwrap();
    assert_eq!(answers.len(), 1, "one answer for each offer");
    answers.remove(0)
}

/// The answer of a sink that has nothing of a file yet.
pub(super) fn need(new: bool) -> Result<Answer> {
    Ok(Answer::Need { changes: Changes::NEW.when(new), have: Vec::new() })
}

//! Compares an offered entry with the entry at its place.

use haul_core::policy::{self, Existing, ExistingKind, Verdict};
use haul_core::{Changes, Entry, EntryKind, Offer, Result, SLICE_LEN, Timestamp};
use haul_ends::hashed::HashedBytes;
use rustix::fs::{FileType, Statx};

use super::state::LocalSink;
use crate::meta::entry::device_number;
use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;
use crate::read::digest;

/// The entry at the place of an offered one.
pub(super) struct LocalEntry<'a> {
    pub(super) sink: &'a LocalSink,
    pub(super) offered: &'a Entry,
    pub(super) at: &'a At,
    pub(super) now: &'a Statx,
}

impl Existing for LocalEntry<'_> {
    fn kind(&self) -> Option<ExistingKind> {
        stat::policy_kind(stat::kind(self.now))
    }

    fn size(&self) -> Option<u64> {
        Some(self.now.stx_size)
    }

    fn has_time(&self, time: Timestamp) -> bool {
        self.sink.metadata().times.is_same(time, self.at, self.now)
    }

    fn is_newer_than(&self, time: Timestamp) -> bool {
        self.sink.metadata().times.is_newer(self.at, self.now, time)
    }

    fn device(&self) -> Option<u64> {
        Some(device_number(self.now))
    }

    fn is_suspect(&self) -> bool {
        self.offered.len <= SLICE_LEN && self.sink.is_suspect(self.now)
    }
}

/// Compares an offered entry with `now`, the entry at its place.
///
/// # Errors
/// If the file at its place cannot be hashed.
pub(super) fn compare(sink: &LocalSink, offer: &Offer, now: Option<(&At, &Statx)>) -> Result<Verdict> {
    let entry = &*offer.entry;
    let existing = now.map(|(at, now)| LocalEntry { sink, offered: entry, at, now });
    Ok(match sink.cleared.decide(&sink.options, offer, existing.as_ref()) {
        Verdict::CompareTarget => Verdict::of_comparison(
            sink.root().at(&entry.path).is_ok_and(|at| has_target(sink.root(), &at, entry)),
        ),
        Verdict::CompareDigest(digest) => Verdict::of_comparison(
            digest::of_path(sink.root(), &entry.path, None, &HashedBytes::default())? == digest,
        ),
        verdict => verdict,
    })
}

/// How `now`, the entry at the place of `entry`, differs from it.
pub(super) fn changes(
    sink: &LocalSink,
    entry: &Entry,
    now: Option<(&At, &Statx)>,
    verdict: &Verdict,
) -> Changes {
    let existing = now.map(|(at, now)| LocalEntry { sink, offered: entry, at, now });
    policy::changes(&sink.options, entry, existing.as_ref(), verdict, || {
        // It is replaced whether its metadata can be read or not.
        let metadata = |(at, now)| sink.metadata().changes(sink.tree(), at, now, entry).unwrap_or_default();
        now.map_or(Changes::NONE, metadata)
    })
}

/// Whether `--update` excludes `entry` because of `now`, the entry at its place.
pub(super) fn is_newer(sink: &LocalSink, entry: &Entry, (at, now): (&At, &Statx)) -> bool {
    policy::is_newer(&sink.options, entry, &LocalEntry { sink, offered: entry, at, now })
}

/// Whether the symbolic link at `at` has the same target as `entry`.
pub(super) fn has_target(root: &Root, at: &At, entry: &Entry) -> bool {
    let EntryKind::Symlink(target) = &entry.kind else { return false };
    root.ops.one();
    let there = rustix::fs::readlinkat(&at.dir, &at.name[..], Vec::new());
    there.is_ok_and(|there| there.as_bytes() == &target[..])
}

/// The file type of an entry.
pub(super) fn file_type(kind: &EntryKind) -> FileType {
    match kind {
        EntryKind::File => FileType::RegularFile,
        EntryKind::Dir => FileType::Directory,
        EntryKind::Symlink(_) => FileType::Symlink,
        EntryKind::Fifo => FileType::Fifo,
        EntryKind::Socket => FileType::Socket,
        EntryKind::CharDevice(_) => FileType::CharacterDevice,
        EntryKind::BlockDevice(_) => FileType::BlockDevice,
    }
}

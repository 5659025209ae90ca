//! Comparing an offered entry with the destination.

use haul_core::{Compare, Entry, EntryKind, Left, Offer, Result, SLICE_LEN};
use rustix::fs::{FileType, Statx};

use super::state::LocalSink;
use crate::meta::entry::device_number;
use crate::path::at::At;
use crate::path::stat;
use crate::read::digest;

/// What the comparison of the content found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The name is free.
    Missing,
    /// The same content.
    Same,
    /// Other content, or another type of file.
    Differs,
    /// An option skips the entry.
    Left(Left),
}

/// Compares an offered entry with the file of its name and its plain metadata.
pub(super) fn compare(sink: &LocalSink, offer: &Offer, now: Option<(&At, &Statx)>) -> Result<Verdict> {
    let entry = &*offer.entry;
    let options = &sink.options;
    let Some((at, now)) = now else {
        return Ok(if options.existing { Verdict::Left(Left::Missing) } else { Verdict::Missing });
    };
    if entry.is_dir() && stat::is_dir(now) {
        return Ok(Verdict::Same);
    }
    if options.ignore_existing {
        return Ok(Verdict::Left(Left::Exists));
    }
    if stat::kind(now) != file_type(&entry.kind) {
        return Ok(Verdict::Differs);
    }
    let same = match &entry.kind {
        EntryKind::File => {
            if options.update && sink.metadata().times.is_newer(at, now, entry.mtime) {
                return Ok(Verdict::Left(Left::Newer));
            }
            is_same_file(sink, offer, at, now)?
        }
        EntryKind::Symlink(target) => {
            let at = sink.root().at(&entry.path);
            sink.root().ops.one();
            let found = at.and_then(|at| rustix::fs::readlinkat(&at.dir, &at.name[..], Vec::new()));
            found.is_ok_and(|found| found.as_bytes() == &target[..])
        }
        EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => device_number(now) == *number,
        EntryKind::Dir | EntryKind::Fifo | EntryKind::Socket => true,
    };
    Ok(if same { Verdict::Same } else { Verdict::Differs })
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

fn is_same_file(sink: &LocalSink, offer: &Offer, at: &At, now: &Statx) -> Result<bool> {
    let entry: &Entry = &offer.entry;
    if now.stx_size != entry.len {
        return Ok(false);
    }
    let is_suspect = || entry.len <= SLICE_LEN && !entry.is_sparse() && sink.is_suspect(now);
    Ok(match sink.options.compare {
        Compare::SizeOnly | Compare::SizeAndTime if is_suspect() => false,
        Compare::SizeOnly => true,
        Compare::SizeAndTime => sink.metadata().times.is_same(entry.mtime, at, now),
        Compare::Checksum => match offer.digest {
            Some(wanted) => digest::of_path(sink.root(), &entry.path)? == wanted,
            None => false,
        },
    })
}

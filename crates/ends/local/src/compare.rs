//! Is it there already?

use haul_core::{Compare, Entry, EntryKind, Left, Offer, Result, SLICE_LEN};
use rustix::fs::{FileType, Statx};

use super::root::At;
use super::sink::LocalSink;
use super::{digest, stat};

/// What there is to be done about an entry, seen from its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing of that name.
    Missing,
    /// The same content.
    Same,
    /// Something else: other content, or another kind of thing.
    Differs,
    /// An option says to leave it.
    Left(Left),
}

/// Compares an offered entry with `now`, what is at its place.
pub(super) fn compare(sink: &LocalSink, offer: &Offer, now: Option<(&At, &Statx)>) -> Result<Verdict> {
    let entry = &*offer.entry;
    let options = sink.options();
    let Some((at, now)) = now else {
        return Ok(if options.existing { Verdict::Left(Left::Missing) } else { Verdict::Missing });
    };
    let there = stat::kind(now);
    if entry.is_dir() && there == FileType::Directory {
        return Ok(Verdict::Same);
    }
    if options.ignore_existing {
        return Ok(Verdict::Left(Left::Exists));
    }
    let same_kind = match &entry.kind {
        EntryKind::File => there == FileType::RegularFile,
        EntryKind::Symlink(_) => there == FileType::Symlink,
        EntryKind::Dir => there == FileType::Directory,
        EntryKind::Fifo => there == FileType::Fifo,
        EntryKind::Socket => there == FileType::Socket,
        EntryKind::CharDevice(_) => there == FileType::CharacterDevice,
        EntryKind::BlockDevice(_) => there == FileType::BlockDevice,
    };
    if !same_kind {
        return Ok(Verdict::Differs);
    }
    let same = match &entry.kind {
        EntryKind::File => {
            if options.update && sink.metadata().times.is_newer(at, now, entry.mtime) {
                return Ok(Verdict::Left(Left::Newer));
            }
            same_file(sink, offer, at, now)?
        }
        EntryKind::Symlink(target) => {
            let at = sink.root().at(&entry.path);
            sink.root().ops.one();
            let there = at.and_then(|at| rustix::fs::readlinkat(&at.dir, &at.name[..], Vec::new()));
            there.is_ok_and(|there| there.as_bytes() == &target[..])
        }
        EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => {
            rustix::fs::makedev(now.stx_rdev_major, now.stx_rdev_minor) == *number
        }
        EntryKind::Dir | EntryKind::Fifo | EntryKind::Socket => true,
    };
    Ok(if same { Verdict::Same } else { Verdict::Differs })
}

fn same_file(sink: &LocalSink, offer: &Offer, at: &At, now: &Statx) -> Result<bool> {
    let entry: &Entry = &offer.entry;
    if now.stx_size != entry.len {
        return Ok(false);
    }
    let is_suspect = || entry.len <= SLICE_LEN && !entry.is_sparse() && sink.is_suspect(now);
    Ok(match sink.options().compare {
        Compare::SizeOnly | Compare::SizeAndTime if is_suspect() => false,
        Compare::SizeOnly => true,
        Compare::SizeAndTime => sink.metadata().times.is_same(entry.mtime, at, now),
        Compare::Checksum => match offer.digest {
            Some(wanted) => digest::of_path(sink.root(), &entry.path)? == wanted,
            None => false,
        },
    })
}

//! Answers to offers: entries without content are made at once, files are requested.

use std::ops::Range;

use haul_core::policy::{ExistingKind, Verdict};
use haul_core::{Answer, Changes, Compare, Entry, Offer, RelPath, Result, SLICE_LEN, SkipReason};
use rustix::fs::{AtFlags, FileType, Statx};
use rustix::io::Errno;

use super::compare::{changes, compare};
use super::directory::clear_dir;
use super::kept;
use super::look::{behind_link, look};
use super::make::make;
use super::references::by_reference;
use super::state::LocalSink;
use crate::meta::metadata::ExpectedFile;
use crate::path::at::At;
use crate::path::stat;
use crate::stage::clean::{clean, resumable};

/// Compares one entry, and makes it if it has no content.
pub(super) fn answer(sink: &LocalSink, offer: &Offer) -> Result<Answer> {
    let entry = &*offer.entry;
    let failed = |errno| sink.root().error("look at", &entry.path, errno);
    let _doing = sink.tree().doing("compare", &entry.path);
    sink.check(entry)?;
    sink.root().note_link(entry);
    let named = if is_new(sink, &entry.path) { None } else { look(sink, &entry.path).map_err(failed)? };
    let behind = behind_link(sink.root(), entry, named.as_ref()).map_err(failed)?;
    let now = behind.as_ref().or(named.as_ref());
    if let Some((at, now)) = now
        && let Some(refusal) = kind_at_root(sink, entry, at, now).and_then(|kind| kind.refusal(entry))
    {
        return Err(refusal.with_side(sink.root().side()).on(sink.root().shown(&entry.path)));
    }
    if now.is_none() && sink.options.ignore_existing && is_below_file(sink, &entry.path) {
        return Ok(Answer::Left(SkipReason::Exists));
    }
    let mut verdict = compare(sink, offer, now.map(|(at, now)| (at, now)))?;
    if sink.options.compare == Compare::Metadata
        && let (Verdict::Same, Some((at, now))) = (&verdict, now)
    {
        return kept::entry(sink, entry, at, now);
    }
    if let (Some((at, itself)), Some((_, now))) = (&named, now)
        && (sink.options.dry_run || keeps_inode(sink, entry, &verdict, now))
    {
        sink.tree().reserve_name(at, itself, &entry.path)?;
        if !entry.is_dir() && verdict == Verdict::Same && !sink.claims.take(now, &entry.path) {
            // It is one file with another entry here, and a file of its own at the source.
            verdict = Verdict::Differs;
        }
    }
    if let Some(answer) = by_reference(sink, offer, now.map(|(_, now)| now), &verdict)? {
        return Ok(answer);
    }
    match (&verdict, behind.or(named)) {
        (Verdict::Left(why), _) => Ok(Answer::Left(*why)),
        (Verdict::Same, Some((at, now))) => up_to_date(sink, entry, &at, &now),
        (verdict, now) => {
            let changes = changes(sink, entry, now.as_ref().map(|(at, now)| (at, now)), verdict);
            if entry.is_file() {
                return Ok(Answer::Need { changes, have: completed_slices(sink, entry, now)? });
            }
            make(sink, entry, now.map(|(_, now)| now))?;
            Ok(Answer::Made(changes))
        }
    }
}

/// The kind of the destination itself, or of the target of a link there; `None` for an entry below it. A login that is
/// confined to a directory learns nothing of a target, which may be outside.
fn kind_at_root(sink: &LocalSink, entry: &Entry, at: &At, now: &Statx) -> Option<ExistingKind> {
    if !entry.path.is_root() {
        return None;
    }
    let kind = match stat::kind(now) {
        FileType::Symlink if !sink.root().is_confined() => {
            at.dir.ops.one();
            let target = rustix::fs::statat(&at.dir, &at.name[..], AtFlags::empty()).ok()?;
            FileType::from_raw_mode(target.st_mode)
        }
        kind => kind,
    };
    stat::policy_kind(kind)
}

/// The slices of a needed file that an interrupted run has completed. Removes an empty directory in its place.
fn completed_slices(sink: &LocalSink, entry: &Entry, now: Option<(At, Statx)>) -> Result<Vec<Range<u32>>> {
    if let Some((_, now)) = &now
        && stat::is_dir(now)
    {
        clear_dir(sink, entry)?;
    }
    // A file that is updated in place has no staged file.
    let in_place = now.as_ref().is_some_and(|(_, now)| sink.writes_into(entry, now));
    if entry.len <= SLICE_LEN || in_place {
        return Ok(Vec::new());
    }
    let at = now.map(|(at, _)| at).or_else(|| sink.root().at(&entry.path).ok());
    Ok(at.map(|at| resumable(&at, entry, sink.options.dry_run)).unwrap_or_default())
}

/// Whether the existing file is not replaced, but kept or updated in place.
fn keeps_inode(sink: &LocalSink, entry: &Entry, verdict: &Verdict, now: &Statx) -> bool {
    match verdict {
        Verdict::Same | Verdict::Left(_) => true,
        Verdict::Differs => entry.len > SLICE_LEN && sink.writes_into(entry, now),
        Verdict::Missing | Verdict::CompareTarget | Verdict::CompareDigest(_) => false,
    }
}

/// Whether an ancestor of `path` is not a directory.
fn is_below_file(sink: &LocalSink, path: &RelPath) -> bool {
    path.parent()
        .is_some_and(|parent| matches!(sink.root().dir(&parent, false), Err(Errno::NOTDIR | Errno::LOOP)))
}

/// Whether `path` is certainly free, because this run made its directory: then no server need be asked.
fn is_new(sink: &LocalSink, path: &RelPath) -> bool {
    if !sink.tree().is_network_fs() {
        return false;
    }
    let Some(parent) = path.parent() else { return false };
    // A missing directory will be made for the entry anyway, unless the options forbid that.
    let make = !sink.options.dry_run && !sink.options.existing;
    sink.root().dir(&parent, make).is_ok_and(|dir| dir.fresh)
}

/// Updates the metadata of an entry whose content is up to date.
fn up_to_date(sink: &LocalSink, entry: &Entry, at: &At, now: &Statx) -> Result<Answer> {
    let failed = |errno| sink.root().error("set the metadata of", &entry.path, errno);
    let (dev, ino) = stat::inode(now);
    let is_made = entry.is_dir() && sink.root().take_made(&entry.path);
    let entry = if entry.is_dir() {
        sink.metadata().of_dir(at, now, entry, is_made)
    } else {
        sink.metadata().preserve.with_mode(entry, || stat::mode(now))
    };
    let entry = &*entry;
    if entry.is_dir() {
        sink.dirs.add(&Entry { dev, ino, ..entry.clone() })?;
        if !sink.options.dry_run && !rustix::process::geteuid().is_root() {
            // Its entries have to be listed, compared and written.
            sink.tree().unlocked.unlock_dir(&entry.path, at);
        }
        if is_made {
            return Ok(Answer::Made(Changes::NEW));
        }
    }
    if entry.len > SLICE_LEN && !sink.options.dry_run {
        sink.close_large(&entry.path);
        if !clean(at) {
            sink.clean_later(entry);
        }
    }
    let mut changes = sink.metadata().changes(sink.tree(), at, now, entry).map_err(failed)?;
    if !changes.is_empty() && (entry.is_dir() || sink.options.dry_run) {
        changes = sink.metadata().permitted_changes(changes, now, entry);
    }
    if changes.is_empty() {
        return Ok(Answer::Same);
    }
    if !entry.is_dir()
        && !sink.options.dry_run
        && !sink.metadata().set_named(at, ExpectedFile::Inode(dev, ino), entry).map_err(failed)?
    {
        // It differs in metadata that cannot be set here; a warning says so.
        return Ok(Answer::Same);
    }
    Ok(Answer::Updated(changes.when(sink.options.itemize)))
}

//! Making further names of files.

use haul_core::policy::Verdict;
use haul_core::{Answer, Compare, Entry, Error, HardLink, Result, SkipReason};
use rustix::fs::{AtFlags, Statx};
use rustix::io::Errno;

use super::compare::{changes, is_newer};
use super::directory::clear_dir;
use super::kept;
use super::look::look;
use super::state::LocalSink;
use crate::path::at::{At, REPLACED};
use crate::path::stat;
use crate::stage::names::part_of;

/// Makes `link` a further name of a file at the destination.
pub(super) fn link(sink: &LocalSink, link: &HardLink) -> Result<Answer> {
    let entry = &*link.entry;
    let failed = |errno| sink.root().error("link", &entry.path, errno);
    sink.check(entry)?;
    sink.root().note_link(entry);
    let now = look(sink, &entry.path).map_err(failed)?;
    let seen = now.as_ref().map(|(at, now)| (at, now));
    let made = || Answer::Made(changes(sink, entry, seen, &Verdict::Differs));
    let target = look(sink, &link.to).map_err(failed)?;
    if sink.options.compare == Compare::Metadata
        && let Some((at, now)) = &now
    {
        return kept::link(sink, entry, (at, now), target.as_ref().map(|(_, target)| target));
    }
    let Some((to, target)) = target else {
        if sink.options.dry_run {
            return Ok(made());
        }
        return Err(no_first_name(sink, entry));
    };
    if stat::is_dir(&target) && !sink.options.dry_run {
        return Err(no_first_name(sink, entry));
    }
    match &now {
        Some((_, now)) if stat::inode(now) == stat::inode(&target) => return Ok(Answer::Same),
        Some(_) if sink.options.ignore_existing => return Ok(Answer::Left(SkipReason::Exists)),
        Some((at, now)) if is_newer(sink, entry, (at, now)) => return Ok(Answer::Left(SkipReason::Newer)),
        None if sink.options.existing && !sink.cleared.has(&entry.path) => {
            return Ok(Answer::Left(SkipReason::Missing));
        }
        _ => {}
    }
    let made = made();
    if seen.is_some_and(|(_, now)| stat::is_dir(now)) {
        clear_dir(sink, entry)?;
    }
    if sink.options.dry_run {
        return Ok(made);
    }
    make_name(sink, entry, &to, None).map_err(|(_, error)| error)?;
    Ok(made)
}

/// Makes the entry's path another name of the file at `to`, and replaces an entry with that path. With `expected`,
/// only if that is still the file at `to`.
///
/// # Errors
/// Also the number of the system if no link could be made at all; then nothing has changed.
pub(super) fn make_name(
    sink: &LocalSink,
    entry: &Entry,
    to: &At,
    expected: Option<&Statx>,
) -> std::result::Result<(), (Option<Errno>, Error)> {
    let failed = |errno| sink.root().error("link", &entry.path, errno);
    let at = sink.root().at_made(&entry.path).map_err(|errno| (None, failed(errno)))?;
    let part = part_of(&at);
    part.remove().map_err(|errno| (None, failed(errno)))?;
    let link_to = || {
        part.dir.ops.one();
        rustix::fs::linkat(&to.dir, &to.name[..], &part.dir, &part.name[..], AtFlags::empty())
    };
    match link_to() {
        Err(Errno::ACCESS) if sink.tree().unlocked.unlock_parent(&entry.path, &at) => link_to(),
        other => other,
    }
    .map_err(|errno| (Some(errno), failed(errno)))?;
    let publish = || {
        let now = stat::statx(&part).map_err(failed)?;
        if expected.is_some_and(|expected| stat::inode(expected) != stat::inode(&now)) {
            return Err(failed(REPLACED));
        }
        sink.tree().reserve_name(&part, &now, &entry.path)?;
        sink.root().back_up(&at, &entry.path)?;
        part.rename(&at).map_err(failed)
    };
    publish().map_err(|error| {
        let _ = part.remove();
        (None, error)
    })
}

fn no_first_name(sink: &LocalSink, entry: &Entry) -> Error {
    Error::no_first_name(sink.root().side()).on(sink.root().shown(&entry.path))
}

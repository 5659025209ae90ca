//! Making directories and special files.

use haul_core::{Entry, EntryKind, Result};
use rustix::fs::{FileType, Mode, Statx};
use rustix::io::Errno;

use super::compare::file_type;
use super::directory::clear_dir;
use super::state::LocalSink;
use crate::meta::metadata::ExpectedFile;
use crate::meta::new_mode::new_mode;
use crate::path::at::At;
use crate::path::stat;
use crate::stage::names::part_of;

/// Makes an entry without content, in place of the file whose metadata is `now`.
pub(super) fn make(sink: &LocalSink, entry: &Entry, now: Option<Statx>) -> Result<()> {
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    if now.as_ref().is_some_and(stat::is_dir) {
        clear_dir(sink, entry)?;
    }
    if sink.options.dry_run {
        return Ok(());
    }
    let at = sink.root().at_made(&entry.path).map_err(failed)?;
    if entry.is_dir() {
        return make_dir(sink, entry, &at);
    }
    let entry = &*sink.metadata().preserve.with_mode(entry, || new_mode(&at, entry));
    let part = part_of(&at);
    stage_special(sink, entry, &at, &part)?;
    let expected = ExpectedFile::Made(file_type(&entry.kind));
    publish(sink, entry, &part, &at, || {
        sink.metadata().set_named(&part, expected, entry).map(|_| ()).map_err(failed)
    })
}

fn make_dir(sink: &LocalSink, entry: &Entry, at: &At) -> Result<()> {
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    let make = || sink.root().dir(&entry.path, true);
    let dir = match make() {
        Err(Errno::ACCESS) if sink.tree().unlocked.unlock_parent(&entry.path, at) => make(),
        other => other,
    }
    .map_err(failed)?;
    if let Ok(now) = stat::statx(at) {
        sink.tree().reserve_name(at, &now, &entry.path)?;
    }
    sink.root().take_made(&entry.path);
    let now = stat::statx_file(&dir).map_err(failed)?;
    let (dev, ino) = stat::inode(&now);
    let entry = sink.metadata().of_dir(at, &now, entry, true).into_owned();
    sink.dirs.add(&Entry { dev, ino, ..entry })?;
    Ok(())
}

/// Makes a special file under its staging name.
fn stage_special(sink: &LocalSink, entry: &Entry, at: &At, part: &At) -> Result<()> {
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    part.remove().map_err(failed)?;
    match make_special(part, &entry.kind) {
        Err(Errno::ACCESS) if sink.tree().unlocked.unlock_parent(&entry.path, at) => {
            make_special(part, &entry.kind)
        }
        other => other,
    }
    .map_err(failed)
}

/// Reserves the name, calls `set`, and renames into place. Removes the staging name if any of that fails.
fn publish(
    sink: &LocalSink,
    entry: &Entry,
    part: &At,
    at: &At,
    set: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    let reserve = || {
        let now = stat::statx(part).map_err(failed)?;
        sink.tree().reserve_name(part, &now, &entry.path)
    };
    let rename = || {
        sink.root().back_up(at, &entry.path)?;
        part.rename(at).map_err(failed)
    };
    let published = reserve().and_then(|()| set()).and_then(|()| rename());
    if published.is_err() {
        let _ = part.remove();
    }
    published
}

fn make_special(part: &At, kind: &EntryKind) -> rustix::io::Result<()> {
    part.dir.ops.one();
    let node =
        |kind, number| rustix::fs::mknodat(&part.dir, &part.name[..], kind, Mode::RUSR | Mode::WUSR, number);
    match kind {
        EntryKind::Symlink(target) => rustix::fs::symlinkat(&target[..], &part.dir, &part.name[..]),
        EntryKind::Fifo => node(FileType::Fifo, 0),
        EntryKind::Socket => node(FileType::Socket, 0),
        EntryKind::CharDevice(number) => node(FileType::CharacterDevice, *number),
        EntryKind::BlockDevice(number) => node(FileType::BlockDevice, *number),
        EntryKind::File | EntryKind::Dir => Err(Errno::INVAL),
    }
}

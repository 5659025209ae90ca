//! Answers to offers: what is made at once, and what content is needed.

use haul_core::{Answer, Entry, EntryKind, ErrorKind, HardLink, Offer, RelPath, Result, SLICE_LEN};
use rustix::fs::{AtFlags, FileType, Mode, Statx};
use rustix::io::Errno;

use super::compare::{Verdict, compare};
use super::meta::{Expected, On};
use super::root::At;
use super::sink::LocalSink;
use super::{stage, stat};

/// Compares one entry and makes it, if it has no content.
pub(super) fn answer(sink: &LocalSink, offer: &Offer) -> Result<Answer> {
    let entry = &*offer.entry;
    let failed = |errno| sink.root().error("look at", &entry.path, errno);
    let _doing = sink.root().doing("compare", &entry.path);
    check(sink, entry)?;
    let now = if is_new(sink, &entry.path) { None } else { look(sink, &entry.path).map_err(failed)? };
    let verdict = compare(sink, offer, now.as_ref().map(|(_, now)| now))?;
    match (verdict, now) {
        (Verdict::Left(why), _) => Ok(Answer::Left(why)),
        (Verdict::Same, Some((at, now))) => same(sink, entry, &at, &now),
        (verdict, now) if entry.is_file() => {
            let at = now.as_ref().map(|(at, _)| at.clone());
            if let Some((_, now)) = &now
                && FileType::from_raw_mode(now.stx_mode.into()) == FileType::Directory
            {
                clear_dir(sink, entry)?;
            }
            let is_regular = |(_, now): &(At, Statx)| {
                FileType::from_raw_mode(now.stx_mode.into()) == FileType::RegularFile
            };
            // What is changed in place needs nothing that is staged.
            let in_place = sink.options().in_place && now.as_ref().is_some_and(is_regular);
            let giant = entry.len > SLICE_LEN && !in_place;
            let at =
                at.filter(|_| giant).or_else(|| giant.then(|| sink.root().at(&entry.path).ok()).flatten());
            let have = at.map(|at| stage::resumable(&at, entry, sink.options().dry_run)).unwrap_or_default();
            Ok(Answer::Need { new: verdict == Verdict::Missing, have })
        }
        (_, now) => make(sink, entry, now.map(|(_, now)| now)),
    }
}

/// What no file system can have told is not made.
pub(super) fn check(sink: &LocalSink, entry: &Entry) -> Result<()> {
    let refused = |why| sink.root().fault(ErrorKind::Unsupported, "make", &entry.path, why);
    entry.check().map_err(refused)
}

/// Whether nothing can be at `path`, as this run made the folder that it is in: then a server need not be asked.
fn is_new(sink: &LocalSink, path: &RelPath) -> bool {
    let root = sink.root();
    if !root.is_distant() {
        return false;
    }
    let Some(parent) = path.parent() else { return false };
    // A folder that is missing has to be made for what is in it, unless nothing is.
    let make = !sink.options().dry_run && !sink.options().existing;
    root.dir(&parent, make).is_ok_and(|dir| dir.fresh)
}

/// What is at `path`; `None` also if a folder on the way is missing or no folder.
fn look(sink: &LocalSink, path: &RelPath) -> rustix::io::Result<Option<(At, Statx)>> {
    let find = || sink.root().at(path).and_then(|at| stat::statx_compared(&at).map(|now| (at, now)));
    let found = match find() {
        Err(Errno::ACCESS) if !sink.options().dry_run && sink.root().unlock_way(path) => find(),
        found => found,
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn same(sink: &LocalSink, entry: &Entry, at: &At, now: &Statx) -> Result<Answer> {
    let failed = |errno| sink.root().error("set the metadata of", &entry.path, errno);
    let (dev, ino) = stat::inode(now);
    if entry.is_dir() {
        sink.dirs().add(&Entry { dev, ino, ..entry.clone() })?;
        if !sink.options().dry_run && !rustix::process::geteuid().is_root() {
            // What is in it has to be listed, compared and written.
            sink.root().unlock_dir(&entry.path, at);
        }
        if sink.root().was_made(&entry.path) {
            return Ok(Answer::Made);
        }
    }
    if entry.len > SLICE_LEN && !sink.options().dry_run {
        sink.let_go(&entry.path);
        if !stage::clean(at) {
            sink.clean_later(entry);
        }
    }
    if sink.metadata().is_same(sink.root(), at, now, entry).map_err(failed)? {
        return Ok(Answer::Same);
    }
    if !entry.is_dir()
        && !sink.options().dry_run
        && !sink.metadata().set(&On::Name(at, Expected::Inode(dev, ino)), entry).map_err(failed)?
    {
        // It differs in what cannot be set here, which has been noted.
        return Ok(Answer::Same);
    }
    Ok(Answer::Updated)
}

/// An empty folder in the way of something else gives way; one with something in it does not.
fn clear_dir(sink: &LocalSink, entry: &Entry) -> Result<()> {
    if sink.options().dry_run {
        return Ok(());
    }
    let removed = sink.root().at(&entry.path).and_then(|at| at.unlink(AtFlags::REMOVEDIR));
    sink.root().forget(&entry.path);
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            let cause = "a folder that is not empty is in its place";
            let error = sink.root().fault(ErrorKind::Io, "replace", &entry.path, cause);
            Err(error.with_hint("move the folder away, or give another destination"))
        }
        Err(errno) => Err(sink.root().error("replace", &entry.path, errno)),
    }
}

fn make(sink: &LocalSink, entry: &Entry, now: Option<Statx>) -> Result<Answer> {
    if sink.options().dry_run {
        return Ok(Answer::Made);
    }
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    let was_dir = now.is_some_and(|now| FileType::from_raw_mode(now.stx_mode.into()) == FileType::Directory);
    if was_dir {
        clear_dir(sink, entry)?;
    }
    let at = sink.root().at_made(&entry.path).map_err(failed)?;
    if entry.is_dir() {
        let make = || sink.root().dir(&entry.path, true);
        let dir = match make() {
            Err(Errno::ACCESS) if sink.root().unlock_parent(&entry.path, &at) => make(),
            other => other,
        }
        .map_err(failed)?;
        sink.root().was_made(&entry.path);
        let (dev, ino) = stat::inode(&stat::statx_file(&dir).map_err(failed)?);
        sink.dirs().add(&Entry { dev, ino, ..entry.clone() })?;
        return Ok(Answer::Made);
    }
    let part = stage::part_of(&at);
    stage::remove(&part).map_err(failed)?;
    let made = match make_special(&part, &entry.kind) {
        Err(Errno::ACCESS) if sink.root().unlock_parent(&entry.path, &at) => make_special(&part, &entry.kind),
        other => other,
    };
    made.map_err(failed)?;
    let expected = Expected::Made(file_type(&entry.kind));
    let published = sink.metadata().set(&On::Name(&part, expected), entry).and_then(|_| part.rename(&at));
    if published.is_err() {
        let _ = stage::remove(&part);
    }
    published.map_err(failed)?;
    Ok(Answer::Made)
}

fn file_type(kind: &EntryKind) -> FileType {
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

/// Makes `link` a further name of a file that is here.
pub(super) fn link(sink: &LocalSink, link: &HardLink) -> Result<Answer> {
    let entry = &*link.entry;
    let failed = |errno| sink.root().error("link", &entry.path, errno);
    check(sink, entry)?;
    let there = look(sink, &entry.path).map_err(failed)?;
    let Some((to, target)) = look(sink, &link.to).map_err(failed)? else {
        if sink.options().dry_run {
            return Ok(Answer::Made);
        }
        let cause = "the file that it is another name of is not there";
        return Err(sink.root().fault(ErrorKind::NotFound, "link", &entry.path, cause));
    };
    let inode = |stat: &Statx| (stat.stx_ino, stat.stx_dev_major, stat.stx_dev_minor);
    match &there {
        Some((_, now)) if inode(now) == inode(&target) => return Ok(Answer::Same),
        Some(_) if sink.options().ignore_existing => return Ok(Answer::Left(haul_core::Left::Exists)),
        None if sink.options().existing => return Ok(Answer::Left(haul_core::Left::Missing)),
        _ => {}
    }
    if sink.options().dry_run {
        return Ok(Answer::Made);
    }
    if there.is_some_and(|(_, now)| FileType::from_raw_mode(now.stx_mode.into()) == FileType::Directory) {
        clear_dir(sink, entry)?;
    }
    let at = sink.root().at_made(&entry.path).map_err(failed)?;
    let part = stage::part_of(&at);
    stage::remove(&part).map_err(failed)?;
    let link_to = || {
        part.dir.ops.one();
        rustix::fs::linkat(&to.dir, &to.name[..], &part.dir, &part.name[..], AtFlags::empty())
    };
    let linked = match link_to() {
        Err(Errno::ACCESS) if sink.root().unlock_parent(&entry.path, &at) => link_to(),
        other => other,
    };
    linked.and_then(|()| part.rename(&at)).map_err(failed)?;
    Ok(Answer::Made)
}

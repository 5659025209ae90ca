//! Answers to offers: what is made at once, and what content is needed.

use haul_core::{
    Answer, Entry, EntryKind, Error, ErrorKind, HardLink, Left, Offer, RelPath, Result, SLICE_LEN,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx};
use rustix::io::Errno;

use super::compare::{Verdict, compare};
use super::meta::{Expected, On};
use super::root::At;
use super::sink::LocalSink;
use super::{leftovers, publish, stage, stat};

/// Compares one entry and makes it, if it has no content.
pub(super) fn answer(sink: &LocalSink, offer: &Offer) -> Result<Answer> {
    let entry = &*offer.entry;
    let failed = |errno| sink.root().error("look at", &entry.path, errno);
    let _doing = sink.root().doing("compare", &entry.path);
    check(sink, entry)?;
    let now = if is_new(sink, &entry.path) { None } else { look(sink, &entry.path).map_err(failed)? };
    if now.is_none() && sink.options().ignore_existing && is_below_file(sink, &entry.path) {
        return Ok(Answer::Left(Left::Exists));
    }
    let mut verdict = compare(sink, offer, now.as_ref().map(|(at, now)| (at, now)))?;
    if let Some((at, now)) = &now
        && (sink.options().dry_run || keeps_inode(sink, entry, &verdict, now))
    {
        sink.root().folding.take(sink.root(), at, now, &entry.path)?;
        if !entry.is_dir() && verdict == Verdict::Same && !sink.claims().take(now, &entry.path) {
            // It was one file with another entry, and is a file of its own at the source.
            verdict = Verdict::Differs;
        }
    }
    match (verdict, now) {
        (Verdict::Left(why), _) => Ok(Answer::Left(why)),
        (Verdict::Same, Some((at, now))) => same(sink, entry, &at, &now),
        (verdict, now) if entry.is_file() => {
            let at = now.as_ref().map(|(at, _)| at.clone());
            if let Some((_, now)) = &now
                && stat::is_dir(now)
            {
                clear_dir(sink, entry)?;
            }
            // What is changed in place needs nothing that is staged.
            let in_place = now.as_ref().is_some_and(|(_, now)| sink.writes_into(entry, now));
            let large = entry.len > SLICE_LEN && !in_place;
            let at =
                at.filter(|_| large).or_else(|| large.then(|| sink.root().at(&entry.path).ok()).flatten());
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

/// Whether what is there is not replaced, but stays what it is or is changed.
fn keeps_inode(sink: &LocalSink, entry: &Entry, verdict: &Verdict, now: &Statx) -> bool {
    match verdict {
        Verdict::Same | Verdict::Left(_) => true,
        Verdict::Differs => entry.len > SLICE_LEN && sink.writes_into(entry, now),
        Verdict::Missing => false,
    }
}

/// Whether something on the way to `path` is no folder.
fn is_below_file(sink: &LocalSink, path: &RelPath) -> bool {
    path.parent()
        .is_some_and(|parent| matches!(sink.root().dir(&parent, false), Err(Errno::NOTDIR | Errno::LOOP)))
}

/// Whether nothing can be at `path`, as this run made the folder that it is in: then a server need not be asked.
fn is_new(sink: &LocalSink, path: &RelPath) -> bool {
    let root = sink.root();
    if !root.is_network_fs() {
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
        let is_empty = sink.root().at(&entry.path).and_then(|at| is_empty(&at));
        return if is_empty == Ok(false) {
            Err(publish::not_empty(sink.root(), &entry.path))
        } else {
            Ok(())
        };
    }
    let removed = sink.root().at(&entry.path).and_then(|at| match at.unlink(AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if leftovers::clean_folder(&at) => at.unlink(AtFlags::REMOVEDIR),
        other => other,
    });
    sink.root().forget(&entry.path);
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(publish::not_empty(sink.root(), &entry.path)),
        Err(errno) => Err(sink.root().error("replace", &entry.path, errno)),
    }
}

/// Whether there is nothing in the folder but what killed runs have left.
fn is_empty(at: &At) -> rustix::io::Result<bool> {
    let opened = at.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    for name in rustix::fs::Dir::new(opened)? {
        let name = name?;
        let name = name.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !stage::is_staging_name(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn make(sink: &LocalSink, entry: &Entry, now: Option<Statx>) -> Result<Answer> {
    let failed = |errno| sink.root().error("make", &entry.path, errno);
    let was_dir = now.as_ref().is_some_and(stat::is_dir);
    if was_dir {
        clear_dir(sink, entry)?;
    }
    if sink.options().dry_run {
        return Ok(Answer::Made);
    }
    let at = sink.root().at_made(&entry.path).map_err(failed)?;
    if entry.is_dir() {
        let make = || sink.root().dir(&entry.path, true);
        let dir = match make() {
            Err(Errno::ACCESS) if sink.root().unlock_parent(&entry.path, &at) => make(),
            other => other,
        }
        .map_err(failed)?;
        if let Ok(now) = stat::statx(&at) {
            sink.root().folding.take(sink.root(), &at, &now, &entry.path)?;
        }
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
    let take = || match stat::statx(&part) {
        Ok(now) => sink.root().folding.take(sink.root(), &part, &now, &entry.path),
        Err(errno) => Err(failed(errno)),
    };
    let set = || sink.metadata().set(&On::Name(&part, expected), entry).map_err(failed);
    let published = take().and_then(|()| set()).and_then(|_| part.rename(&at).map_err(failed));
    if published.is_err() {
        let _ = stage::remove(&part);
    }
    published.map(|()| Answer::Made)
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

fn no_first_name(sink: &LocalSink, entry: &Entry) -> Error {
    Error::no_first_name(sink.root().side()).on(sink.root().shown(&entry.path))
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
        return Err(no_first_name(sink, entry));
    };
    if stat::is_dir(&target) && !sink.options().dry_run {
        return Err(no_first_name(sink, entry));
    }
    match &there {
        Some((_, now)) if stat::inode(now) == stat::inode(&target) => return Ok(Answer::Same),
        Some(_) if sink.options().ignore_existing => return Ok(Answer::Left(haul_core::Left::Exists)),
        None if sink.options().existing => return Ok(Answer::Left(haul_core::Left::Missing)),
        _ => {}
    }
    if there.is_some_and(|(_, now)| stat::is_dir(&now)) {
        clear_dir(sink, entry)?;
    }
    if sink.options().dry_run {
        return Ok(Answer::Made);
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
    linked.map_err(failed)?;
    let taken = stat::statx(&part)
        .map_err(failed)
        .and_then(|now| sink.root().folding.take(sink.root(), &part, &now, &entry.path));
    if let Err(error) = taken {
        let _ = stage::remove(&part);
        return Err(error);
    }
    part.rename(&at).map_err(failed)?;
    Ok(Answer::Made)
}

//! The entries at paths, with the targets of links.

use haul_core::source::DANGLING;
use haul_core::{Entry, EntryKind, ErrorKind, Links, RelPath, Result, Timestamp};

use super::conn::Conn;
use super::packet::{Attrs, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::{Fault, Reply};
use super::tree::{self, KIND, Tree};

/// An entry, and whether it was found through a link.
pub(super) struct FollowedEntry {
    pub(super) entry: Entry,
    pub(super) followed: bool,
}

/// The entries at `paths` as they are now.
pub(super) fn entries_at(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
    tree.pool().on_one(|conn| {
        let looked = tree.look(paths)?;
        let mut there = Vec::new();
        for (path, found) in paths.iter().zip(&looked.found) {
            if let Ok(Some(attrs)) = found {
                there.push((path.clone(), *attrs));
            }
        }
        let mut entries = complete(tree, conn, there)?.into_iter();
        let mut all = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(looked.found) {
            all.push(match found {
                Ok(Some(_)) => entries
                    .next()
                    .map_or(Ok(None), |(_, found)| found.map(|found| found.map(|found| found.entry))),
                Ok(None) => Ok(None),
                Err(fault) => Err(tree.error("look at", path, fault)),
            });
        }
        Ok(all)
    })
}

/// Completes the entries of a listing: targets of links, and attributes that the server does not list.
pub(super) fn complete(
    tree: &Tree,
    conn: &Conn,
    found: Vec<(RelPath, Attrs)>,
) -> Result<Vec<(RelPath, Result<Option<FollowedEntry>>)>> {
    let lacks = |attrs: &Attrs| attrs.mode.is_none() || attrs.times.is_none() || attrs.size.is_none();
    let mut pipeline = Pipeline::new(conn);
    for (path, attrs) in &found {
        let path = &tree.remote(path)[..];
        if lacks(attrs) {
            pipeline.ask(&SftpRequest::Lstat { path });
        }
        // An entry without attributes may be a link, so ask for its target too.
        if lacks(attrs) || is_link(attrs) {
            pipeline.ask(&match tree.links {
                Links::Kept => SftpRequest::Readlink { path },
                Links::Followed => SftpRequest::Stat { path },
            });
        }
    }
    let mut entries = Vec::with_capacity(found.len());
    for (path, attrs) in found {
        let looked = if lacks(&attrs) { pipeline.next_reply().attrs() } else { Ok(attrs) };
        let reply = (lacks(&attrs) || is_link(&attrs)).then(|| pipeline.next_reply());
        let (mut target, mut led_to) = (None, None);
        match tree.links {
            Links::Kept => target = reply.map(Reply::name),
            Links::Followed => led_to = reply.map(Reply::attrs),
        }
        let entry = match (looked, target, led_to) {
            (Err(Fault::Lost(error)), ..)
            | (_, Some(Err(Fault::Lost(error))), _)
            | (.., Some(Err(Fault::Lost(error)))) => return Err(error),
            (Err(fault), ..) if fault.is_missing() => Ok(None),
            (Err(fault), ..) => Err(tree.error("look at", &path, fault)),
            (Ok(attrs), _, Some(led_to)) if is_link(&attrs) => follow(tree, &path, led_to),
            (Ok(attrs), target, _) => entry(tree, &path, &attrs, target)
                .map(|entry| entry.map(|entry| FollowedEntry { entry, followed: false })),
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

fn is_link(attrs: &Attrs) -> bool {
    attrs.mode.is_some_and(|mode| mode & KIND == tree::LINK)
}

/// The entry that a link leads to.
fn follow(tree: &Tree, path: &RelPath, led_to: Result<Attrs, Fault>) -> Result<Option<FollowedEntry>> {
    match led_to {
        Err(fault) if fault.is_missing() => Err(tree.fault(ErrorKind::NotFound, "look at", path, DANGLING)),
        Err(fault) => Err(tree.error("follow the link", path, fault)),
        Ok(attrs) => entry(tree, path, &attrs, None)
            .map(|entry| entry.map(|entry| FollowedEntry { entry, followed: true })),
    }
}

fn entry(
    tree: &Tree,
    path: &RelPath,
    attrs: &Attrs,
    target: Option<Result<Vec<u8>, Fault>>,
) -> Result<Option<Entry>> {
    let cannot = |cause: &str| Err(tree.fault(ErrorKind::Unsupported, "copy", path, cause));
    let (Some(mode), Some((accessed, modified))) = (attrs.mode, attrs.times) else {
        return cannot("the server does not tell its kind");
    };
    let kind = match mode & KIND {
        tree::FILE => EntryKind::File,
        tree::DIR => EntryKind::Dir,
        tree::LINK => match target {
            Some(Ok(target)) => EntryKind::Symlink(target),
            Some(Err(fault)) if fault.is_missing() => return Ok(None),
            Some(Err(fault)) => return Err(tree.error("read the link", path, fault)),
            None => return cannot("the server does not tell where the link points"),
        },
        0o010_000 => EntryKind::Fifo,
        0o140_000 => EntryKind::Socket,
        0o020_000 | 0o060_000 => return cannot("SFTP does not tell the number of a device"),
        _ => return cannot("the server does not tell its kind"),
    };
    let (uid, gid) = attrs.owner.unwrap_or_default();
    let len = if kind == EntryKind::File { attrs.size.unwrap_or_default() } else { 0 };
    let time = |sec: u32| Timestamp { sec: sec.into(), nsec: 0 };
    // SFTP reports neither inodes nor holes.
    Ok(Some(Entry {
        mtime: time(modified),
        atime: time(accessed),
        mode: mode & 0o7777,
        uid,
        gid,
        ..Entry::new(path.clone(), kind, len)
    }))
}

//! Owners, modes and times, as far as SFTP supports them.

use haul_core::{Entry, EntryKind, RelPath, Result, Timestamp};

use super::conn::Conn;
use super::packet::{Attrs, Request};
use super::pipeline::Pipeline;
use super::reply::Fault;
use super::tree::Tree;
use haul_ends::metadata_warnings::MetadataWarnings;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Adds a warning if something was refused. A lost connection is an error, not a refusal.
fn refused(notes: &MetadataWarnings, what: &str, path: &RelPath, said: Result<(), Fault>) -> Result<bool> {
    match said {
        Ok(()) => Ok(true),
        Err(Fault::Lost(error)) => Err(error),
        Err(Fault::Status(_, words)) => {
            notes.note(what, &words, path);
            Ok(false)
        }
    }
}

/// Adds warnings for metadata that SFTP cannot store.
fn metadata_warnings(notes: &MetadataWarnings, entry: &Entry, by_name: bool) {
    let path = &entry.path;
    if entry.mtime.nsec != 0 {
        notes.note("times below a second", "SFTP carries whole seconds", path);
    }
    if i64::from(seconds(entry.mtime)) != entry.mtime.sec {
        notes.note("times", "SFTP carries none before 1970 or after 2106", path);
    }
    if !entry.xattrs.is_empty() {
        notes.note("attributes and ACLs", "SFTP carries none", path);
    }
    if by_name && entry.names.is_some() {
        notes.note("owners by name", "SFTP carries numbers: those were set", path);
    }
}

/// A time in the format of SFTP.
pub(super) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.sec.max(0)).unwrap_or(u32::MAX)
}

fn is_link(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Symlink(_))
}

fn owner(entry: &Entry) -> Attrs {
    Attrs { owner: Some((entry.uid, entry.gid)), ..Attrs::default() }
}

fn times(entry: &Entry) -> Option<(u32, u32)> {
    Some((seconds(entry.atime), seconds(entry.mtime)))
}

/// Whether the existing entry has the metadata of `entry`, as far as the server reports it and SFTP supports it.
pub(super) fn is_same(now: &Attrs, entry: &Entry) -> bool {
    now.owner.is_none_or(|owner| owner == (entry.uid, entry.gid))
        && (is_link(entry) || now.mode.is_none_or(|mode| mode & 0o7777 == entry.mode))
        && now.times.is_none_or(|(_, modified)| modified == seconds(entry.mtime))
}

/// Which requests were made for the metadata of a staged file.
pub(super) struct Asked {
    size: bool,
}

/// Requests the metadata of an open file. [`late_mode`] sets the set-ID bits.
pub(super) fn ask_file(pipeline: &mut Pipeline<'_>, handle: &[u8], entry: &Entry, size: bool) -> Asked {
    if size {
        let attrs = Attrs { size: Some(entry.len), ..Attrs::default() };
        pipeline.ask(&Request::Fsetstat { handle, attrs });
    }
    // The owner comes first, as a change of it clears set-ID bits.
    pipeline.ask(&Request::Fsetstat { handle, attrs: owner(entry) });
    let attrs = Attrs { mode: Some(entry.mode & !SET_ID), times: times(entry), ..Attrs::default() };
    pipeline.ask(&Request::Fsetstat { handle, attrs });
    Asked { size }
}

/// Requests the metadata of a staged file by its name. [`late_mode`] sets the set-ID bits.
pub(super) fn ask_path(pipeline: &mut Pipeline<'_>, path: &[u8], entry: &Entry) -> Asked {
    pipeline.ask(&Request::Setstat { path, attrs: owner(entry) });
    let attrs = Attrs { mode: Some(entry.mode & !SET_ID), times: times(entry), ..Attrs::default() };
    pipeline.ask(&Request::Setstat { path, attrs });
    Asked { size: false }
}

/// Takes the answers to [`ask_file`] or [`ask_path`]. Returns whether the owner is right; an error if the length could
/// not be set.
pub(super) fn take_file(
    asked: &Asked,
    pipeline: &mut Pipeline<'_>,
    entry: &Entry,
    notes: &MetadataWarnings,
    by_name: bool,
) -> Result<bool, Fault> {
    let size = if asked.size { pipeline.next_reply().ok() } else { Ok(()) };
    let (owner, rest) = (pipeline.next_reply().ok(), pipeline.next_reply().ok());
    size?;
    let owned = refused(notes, "owner", &entry.path, owner).map_err(Fault::Lost)?;
    refused(notes, "mode and times", &entry.path, rest).map_err(Fault::Lost)?;
    metadata_warnings(notes, entry, by_name);
    Ok(owned)
}

/// Requests the set-ID bits of a file whose owner is right. Returns whether there was a request.
pub(super) fn late_mode(pipeline: &mut Pipeline<'_>, path: &[u8], entry: &Entry, owned: bool) -> bool {
    let late = owned && entry.mode & SET_ID != 0;
    if late {
        // Times too, for servers on which a change of the mode changes them.
        let attrs = Attrs { mode: Some(entry.mode), times: times(entry), ..Attrs::default() };
        pipeline.ask(&Request::Setstat { path, attrs });
    }
    late
}

/// Takes the answer to [`late_mode`].
pub(super) fn take_late_mode(
    pipeline: &mut Pipeline<'_>,
    entry: &Entry,
    notes: &MetadataWarnings,
) -> Result<()> {
    refused(notes, "mode", &entry.path, pipeline.next_reply().ok()).map(drop)
}

/// Requests the metadata of a new link, if the server has the extension.
pub(super) fn ask_link(pipeline: &mut Pipeline<'_>, conn: &Conn, path: &[u8], entry: &Entry) {
    if conn.server.lsetstat {
        let attrs = Attrs { owner: Some((entry.uid, entry.gid)), times: times(entry), ..Attrs::default() };
        pipeline.ask(&Request::Lsetstat { path, attrs });
    }
}

/// Takes the answer to [`ask_link`].
pub(super) fn take_link(
    pipeline: &mut Pipeline<'_>,
    conn: &Conn,
    entry: &Entry,
    notes: &MetadataWarnings,
    by_name: bool,
) -> Result<bool> {
    metadata_warnings(notes, entry, by_name);
    if !conn.server.lsetstat {
        notes.note("owners and times of links", "the server cannot set them", &entry.path);
        return Ok(false);
    }
    refused(notes, "owner and times of the link", &entry.path, pipeline.next_reply().ok())
}

/// An existing entry, and the metadata that it should have.
pub(super) struct Change<'a> {
    pub(super) entry: &'a Entry,
    /// Its present metadata; `None` if unknown.
    pub(super) now: Option<Attrs>,
}

impl Change<'_> {
    /// Whether the owner differs, or is not known.
    fn has_other_owner(&self) -> bool {
        self.now.and_then(|now| now.owner) != Some((self.entry.uid, self.entry.gid))
    }
}

/// What became of the owner of one entry.
struct Owned {
    /// Whether the owner is right now.
    is_right: bool,
    /// Whether the entry is gone.
    is_gone: bool,
}

/// Sets metadata by name. One answer for each: whether something changed; `None` if the entry is gone.
///
/// # Errors
/// Only if the connections are lost. A refusal becomes a warning.
pub(super) fn set_all(
    tree: &Tree,
    notes: &MetadataWarnings,
    by_name: bool,
    changes: &[Change<'_>],
) -> Result<Vec<Option<bool>>> {
    tree.pool().on_one(|conn| {
        let owned = set_owners(tree, conn, notes, by_name, changes)?;
        let mut pipeline = Pipeline::new(conn);
        for (change, owned) in changes.iter().zip(&owned).filter(|(change, _)| !is_link(change.entry)) {
            let entry = change.entry;
            let mode = if owned.is_right { entry.mode } else { entry.mode & !SET_ID };
            let attrs = Attrs { mode: Some(mode), times: times(entry), ..Attrs::default() };
            pipeline.ask(&Request::Setstat { path: &tree.remote(&entry.path), attrs });
        }
        let mut changed = Vec::with_capacity(changes.len());
        for (change, owned) in changes.iter().zip(owned) {
            if is_link(change.entry) {
                changed.push(Some(owned.is_right));
                continue;
            }
            let said = pipeline.next_reply().ok();
            if owned.is_gone || matches!(&said, Err(fault) if fault.is_missing()) {
                changed.push(None);
                continue;
            }
            let set = refused(notes, "mode and times", &change.entry.path, said)?;
            metadata_warnings(notes, change.entry, by_name);
            // An entry that differs only in an owner that cannot be set stays as it is.
            let rest_differs =
                change.now.is_none_or(|now| !is_same(&Attrs { owner: None, ..now }, change.entry));
            changed.push(Some(set && (rest_differs || change.has_other_owner() && owned.is_right)));
        }
        Ok(changed)
    })
}

/// Sets owners where they differ, and all metadata of links. Owners come first, as changing one clears set-ID bits.
fn set_owners(
    tree: &Tree,
    conn: &Conn,
    notes: &MetadataWarnings,
    by_name: bool,
    changes: &[Change<'_>],
) -> Result<Vec<Owned>> {
    let mut pipeline = Pipeline::new(conn);
    for change in changes {
        let path = &tree.remote(&change.entry.path);
        if is_link(change.entry) {
            ask_link(&mut pipeline, conn, path, change.entry);
        } else if change.has_other_owner() {
            pipeline.ask(&Request::Setstat { path, attrs: owner(change.entry) });
        }
    }
    let mut owned = Vec::with_capacity(changes.len());
    for change in changes {
        let mut is_gone = false;
        let is_right = if is_link(change.entry) {
            take_link(&mut pipeline, conn, change.entry, notes, by_name)?
        } else if change.has_other_owner() {
            let said = pipeline.next_reply().ok();
            is_gone = matches!(&said, Err(fault) if fault.is_missing());
            !is_gone && refused(notes, "owner", &change.entry.path, said)?
        } else {
            true
        };
        owned.push(Owned { is_right, is_gone });
    }
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_within_what_is_carried() {
        let at = |sec| seconds(Timestamp { sec, nsec: 999_999_999 });
        assert_eq!((at(-1), at(0), at(1_700_000_000)), (0, 0, 1_700_000_000));
        assert_eq!((at(u32::MAX.into()), at(i64::MAX)), (u32::MAX, u32::MAX));
    }
}

//! Owners, modes and times, as far as SFTP carries them.

use haul_core::{Entry, EntryKind, RelPath, Result, Timestamp};

use super::conn::{Conn, Fault};
use super::packet::{Attrs, Request};
use super::tree::Tree;
use super::wave::Wave;
use haul_ends::metadata_warnings::MetadataWarnings as Notes;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Notes that something was refused. A connection that is lost is no word on what may be set.
fn refused(notes: &Notes, what: &str, path: &RelPath, said: Result<(), Fault>) -> Result<bool> {
    match said {
        Ok(()) => Ok(true),
        Err(Fault::Lost(error)) => Err(error),
        Err(Fault::Status(_, words)) => {
            notes.note(what, &words, path);
            Ok(false)
        }
    }
}

/// Notes what of an entry SFTP has no room for.
fn metadata_warnings(notes: &Notes, entry: &Entry, by_name: bool) {
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

/// A time as SFTP carries it.
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

/// Whether what is there has the metadata of `entry`, as far as the server tells and SFTP carries.
pub(super) fn is_same(now: &Attrs, entry: &Entry) -> bool {
    now.owner.is_none_or(|owner| owner == (entry.uid, entry.gid))
        && (is_link(entry) || now.mode.is_none_or(|mode| mode & 0o7777 == entry.mode))
        && now.times.is_none_or(|(_, modified)| modified == seconds(entry.mtime))
}

/// What the metadata of a staged file was asked for, for the answers.
pub(super) struct Asked {
    size: bool,
}

/// Asks for the metadata of an open file that was written to. Set-ID bits are left to [`late_mode`].
pub(super) fn ask_file(wave: &mut Wave<'_>, handle: &[u8], entry: &Entry, size: bool) -> Asked {
    if size {
        let attrs = Attrs { size: Some(entry.len), ..Attrs::default() };
        wave.ask(&Request::Fsetstat { handle, attrs });
    }
    // The owner first: to change it takes set-ID bits away.
    wave.ask(&Request::Fsetstat { handle, attrs: owner(entry) });
    let attrs = Attrs { mode: Some(entry.mode & !SET_ID), times: times(entry), ..Attrs::default() };
    wave.ask(&Request::Fsetstat { handle, attrs });
    Asked { size }
}

/// Asks for the metadata of a staged file by its name. Set-ID bits are left to [`late_mode`].
pub(super) fn ask_path(wave: &mut Wave<'_>, path: &[u8], entry: &Entry) -> Asked {
    wave.ask(&Request::Setstat { path, attrs: owner(entry) });
    let attrs = Attrs { mode: Some(entry.mode & !SET_ID), times: times(entry), ..Attrs::default() };
    wave.ask(&Request::Setstat { path, attrs });
    Asked { size: false }
}

/// Takes the answers to [`ask_file`] or [`ask_path`]. Whether the owner is right; an error if the length could not be set.
pub(super) fn take_file(
    asked: &Asked,
    wave: &mut Wave<'_>,
    entry: &Entry,
    notes: &Notes,
    by_name: bool,
) -> Result<bool, Fault> {
    let size = if asked.size { wave.expect().ok() } else { Ok(()) };
    let (owner, rest) = (wave.expect().ok(), wave.expect().ok());
    size?;
    let owned = refused(notes, "owner", &entry.path, owner).map_err(Fault::Lost)?;
    refused(notes, "mode and times", &entry.path, rest).map_err(Fault::Lost)?;
    metadata_warnings(notes, entry, by_name);
    Ok(owned)
}

/// Asks for the set-ID bits of a file whose owner is right; whether there was something to ask.
pub(super) fn late_mode(wave: &mut Wave<'_>, path: &[u8], entry: &Entry, owned: bool) -> bool {
    let late = owned && entry.mode & SET_ID != 0;
    if late {
        // Times too, for servers that take a mode as a change.
        let attrs = Attrs { mode: Some(entry.mode), times: times(entry), ..Attrs::default() };
        wave.ask(&Request::Setstat { path, attrs });
    }
    late
}

/// Takes the answer to [`late_mode`].
pub(super) fn take_late_mode(wave: &mut Wave<'_>, entry: &Entry, notes: &Notes) -> Result<()> {
    refused(notes, "mode", &entry.path, wave.expect().ok()).map(drop)
}

/// Asks for the metadata of a link that was just made; what a server without the extension cannot do is noted.
pub(super) fn ask_link(wave: &mut Wave<'_>, conn: &Conn, path: &[u8], entry: &Entry) {
    if conn.server.lsetstat {
        let attrs = Attrs { owner: Some((entry.uid, entry.gid)), times: times(entry), ..Attrs::default() };
        wave.ask(&Request::Lsetstat { path, attrs });
    }
}

/// Takes the answer to [`ask_link`].
pub(super) fn take_link(
    wave: &mut Wave<'_>,
    conn: &Conn,
    entry: &Entry,
    notes: &Notes,
    by_name: bool,
) -> Result<bool> {
    metadata_warnings(notes, entry, by_name);
    if !conn.server.lsetstat {
        notes.note("owners and times of links", "the server cannot set them", &entry.path);
        return Ok(false);
    }
    refused(notes, "owner and times of the link", &entry.path, wave.expect().ok())
}

/// Something that is there, and what it is to be like.
pub(super) struct Change<'a> {
    pub(super) entry: &'a Entry,
    /// What it is like now; `None` where that is not known.
    pub(super) now: Option<Attrs>,
}

/// Sets metadata by name. One answer for each: whether something was changed; `None` where nothing is there any more.
pub(super) fn set_all(
    tree: &Tree,
    notes: &Notes,
    by_name: bool,
    changes: &[Change<'_>],
) -> Result<Vec<Option<bool>>> {
    tree.pool().on_one(|conn| {
        let mut wave = Wave::new(conn);
        let other_owner = |change: &Change<'_>| {
            let now = change.now.and_then(|now| now.owner);
            now != Some((change.entry.uid, change.entry.gid))
        };
        for change in changes {
            let path = &tree.remote(&change.entry.path);
            if is_link(change.entry) {
                ask_link(&mut wave, conn, path, change.entry);
            } else if other_owner(change) {
                wave.ask(&Request::Setstat { path, attrs: owner(change.entry) });
            }
        }
        let mut owned = Vec::with_capacity(changes.len());
        let mut gone = vec![false; changes.len()];
        for (change, gone) in changes.iter().zip(&mut gone) {
            owned.push(if is_link(change.entry) {
                take_link(&mut wave, conn, change.entry, notes, by_name)?
            } else if other_owner(change) {
                let said = wave.expect().ok();
                *gone = matches!(&said, Err(fault) if fault.is_missing());
                !*gone && refused(notes, "owner", &change.entry.path, said)?
            } else {
                true
            });
        }
        let mut wave = Wave::new(conn);
        for (change, owned) in changes.iter().zip(&owned).filter(|(change, _)| !is_link(change.entry)) {
            let entry = change.entry;
            let mode = if *owned { entry.mode } else { entry.mode & !SET_ID };
            let attrs = Attrs { mode: Some(mode), times: times(entry), ..Attrs::default() };
            wave.ask(&Request::Setstat { path: &tree.remote(&entry.path), attrs });
        }
        let mut changed = Vec::with_capacity(changes.len());
        for ((change, owned), gone) in changes.iter().zip(owned).zip(gone) {
            if is_link(change.entry) {
                changed.push(Some(owned));
                continue;
            }
            let said = wave.expect().ok();
            if gone || matches!(&said, Err(fault) if fault.is_missing()) {
                changed.push(None);
                continue;
            }
            let set = refused(notes, "mode and times", &change.entry.path, said)?;
            metadata_warnings(notes, change.entry, by_name);
            // What differs in its owner alone, and cannot be given to it, stays as it is.
            let rest_differs =
                change.now.is_none_or(|now| !is_same(&Attrs { owner: None, ..now }, change.entry));
            let owner_differed = other_owner(change);
            changed.push(Some(set && (rest_differs || owner_differed && owned)));
        }
        Ok(changed)
    })
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

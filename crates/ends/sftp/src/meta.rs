//! Owners, modes and times, as far as SFTP supports them.

use haul_core::{Changes, Entry, EntryKind, Preserve, RelPath, Result, SinkOptions, Timestamp};

use super::conn::Conn;
use super::packet::{Attrs, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::{Fault, unless_lost};
use super::tree::Tree;
use haul_ends::metadata_warnings::MetadataWarnings;

/// Set-user-ID and set-group-ID.
pub(super) const SET_ID: u32 = 0o6000;

/// The home directory of root, the only user who may surely change any entry.
pub(super) const HOME_OF_ROOT: &[u8] = b"/root";

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
pub(super) fn metadata_warnings(notes: &MetadataWarnings, entry: &Entry, options: &SinkOptions) {
    let (path, preserve) = (&entry.path, &options.preserve);
    let has_times = preserve.has_times(&entry.kind);
    if has_times && entry.mtime.nsec != 0 {
        notes.note("times below a second", "SFTP carries whole seconds", path);
    }
    if has_times && i64::from(seconds(entry.mtime)) != entry.mtime.sec {
        notes.note("times", "SFTP carries none before 1970 or after 2106", path);
    }
    if preserve.xattrs_of(&entry.xattrs).next().is_some() {
        notes.note("attributes and ACLs", "SFTP carries none", path);
    }
    if preserve.owner && options.owner_by_name && entry.names.is_some() {
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

/// The metadata that an entry is to have; `None`: whatever it has.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mode: Option<u32>,
    pub(super) times: Option<(u32, u32)>,
}

impl Wish {
    /// The metadata of `entry` that is taken over. SFTP sets owner and group together: both are, or neither.
    pub(super) fn of(preserve: &Preserve, entry: &Entry) -> Self {
        let ids = (entry.uid, entry.gid);
        // Who owns the file otherwise is not known.
        let there = if preserve.owner { ids } else { (u32::MAX, u32::MAX) };
        Self {
            owner: preserve.owner.then_some(ids),
            mode: preserve.perms.then(|| preserve.mode(entry, ids, there)),
            times: preserve.has_times(&entry.kind).then(|| (seconds(entry.atime), seconds(entry.mtime))),
        }
    }

    /// The same for a file that replaces one with the mode `there`, which it gets if permissions are not taken over.
    pub(super) fn replacing(self, there: Option<u32>) -> Self {
        Self { mode: self.mode.or(there.map(Preserve::replacing_mode)), ..self }
    }

    fn owner_attrs(&self) -> Option<Attrs> {
        self.owner.map(|owner| Attrs { owner: Some(owner), ..Attrs::default() })
    }

    /// Mode and times.
    fn rest(&self, mode: Option<u32>) -> Option<Attrs> {
        let attrs = Attrs { mode, times: self.times, ..Attrs::default() };
        (mode.is_some() || self.times.is_some()).then_some(attrs)
    }

    fn has_set_id(&self) -> bool {
        self.mode.is_some_and(|mode| mode & SET_ID != 0)
    }

    /// How the metadata of the existing entry differs, as far as the server reports it.
    pub(super) fn changes(&self, now: &Attrs, entry: &Entry) -> Changes {
        fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        let (uid, gid) = (|ids: (u32, u32)| ids.0, |ids: (u32, u32)| ids.1);
        let modified = |times: (u32, u32)| times.1;
        let mode = now.mode.map(|mode| mode & 0o7777).filter(|_| !is_link(entry));
        Changes::OWNER.when(differ(self.owner.map(uid), now.owner.map(uid)))
            | Changes::GROUP.when(differ(self.owner.map(gid), now.owner.map(gid)))
            | Changes::MODE.when(differ(self.mode, mode))
            | Changes::TIME.when(differ(self.times.map(modified), now.times.map(modified)))
    }

    /// Whether the existing entry has this metadata, as far as the server reports it.
    pub(super) fn is_met_by(&self, now: &Attrs, entry: &Entry) -> bool {
        self.changes(now, entry).is_empty()
    }
}

/// Which requests were made for the metadata of a staged file.
pub(super) struct MetaRequests {
    size: bool,
    owner: bool,
    rest: bool,
}

/// Requests the metadata of an open file, and its length if given. [`late_mode`] sets the set-ID bits.
pub(super) fn ask_file(
    pipeline: &mut Pipeline<'_>,
    handle: &[u8],
    wish: &Wish,
    size: Option<u64>,
) -> MetaRequests {
    if size.is_some() {
        let attrs = Attrs { size, ..Attrs::default() };
        pipeline.ask(&SftpRequest::Fsetstat { handle, attrs });
    }
    // The owner comes first, as a change of it clears set-ID bits.
    let (owner, rest) = (wish.owner_attrs(), wish.rest(wish.mode.map(|mode| mode & !SET_ID)));
    for attrs in [owner, rest].into_iter().flatten() {
        pipeline.ask(&SftpRequest::Fsetstat { handle, attrs });
    }
    MetaRequests { size: size.is_some(), owner: owner.is_some(), rest: rest.is_some() }
}

/// Requests the metadata of a staged file by its name. [`late_mode`] sets the set-ID bits.
pub(super) fn ask_path(pipeline: &mut Pipeline<'_>, path: &[u8], wish: &Wish) -> MetaRequests {
    let (owner, rest) = (wish.owner_attrs(), wish.rest(wish.mode.map(|mode| mode & !SET_ID)));
    for attrs in [owner, rest].into_iter().flatten() {
        pipeline.ask(&SftpRequest::Setstat { path, attrs });
    }
    MetaRequests { size: false, owner: owner.is_some(), rest: rest.is_some() }
}

/// Takes the answers to [`ask_file`] or [`ask_path`]. Returns whether the owner is right; an error if the length could
/// not be set.
pub(super) fn take_file(
    asked: &MetaRequests,
    pipeline: &mut Pipeline<'_>,
    entry: &Entry,
    notes: &MetadataWarnings,
    options: &SinkOptions,
) -> Result<bool, Fault> {
    let mut said = |asked: bool| if asked { pipeline.next_reply().ok() } else { Ok(()) };
    let (size, owner, rest) = (said(asked.size), said(asked.owner), said(asked.rest));
    size?;
    let owned = refused(notes, "owner", &entry.path, owner).map_err(Fault::Lost)?;
    refused(notes, "mode and times", &entry.path, rest).map_err(Fault::Lost)?;
    metadata_warnings(notes, entry, options);
    Ok(owned)
}

/// Requests the set-ID bits of a file whose owner is right. Returns whether there was a request.
pub(super) fn late_mode(pipeline: &mut Pipeline<'_>, path: &[u8], wish: &Wish, owned: bool) -> bool {
    let late = owned && wish.has_set_id();
    if late {
        // Times too, for servers on which a change of the mode changes them.
        let attrs = Attrs { mode: wish.mode, times: wish.times, ..Attrs::default() };
        pipeline.ask(&SftpRequest::Setstat { path, attrs });
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

/// Requests the metadata of a new link, if the server has the extension. Returns whether there was a request.
pub(super) fn ask_link(pipeline: &mut Pipeline<'_>, conn: &Conn, path: &[u8], wish: &Wish) -> bool {
    let asks = conn.server.lsetstat && (wish.owner.is_some() || wish.times.is_some());
    if asks {
        let attrs = Attrs { owner: wish.owner, times: wish.times, ..Attrs::default() };
        pipeline.ask(&SftpRequest::Lsetstat { path, attrs });
    }
    asks
}

/// Takes the answer to [`ask_link`], if it made a request.
pub(super) fn take_link(
    pipeline: &mut Pipeline<'_>,
    asked: bool,
    entry: &Entry,
    notes: &MetadataWarnings,
    options: &SinkOptions,
) -> Result<bool> {
    metadata_warnings(notes, entry, options);
    if asked {
        return refused(notes, "owner and times of the link", &entry.path, pipeline.next_reply().ok());
    }
    if options.preserve.owner || options.preserve.has_times(&entry.kind) {
        notes.note("owners and times of links", "the server cannot set them", &entry.path);
    }
    Ok(false)
}

/// An existing entry, and the metadata that it should have.
pub(super) struct MetaChange<'a> {
    pub(super) entry: &'a Entry,
    pub(super) wish: Wish,
    /// Its present metadata; `None` if unknown.
    pub(super) now: Option<Attrs>,
}

impl MetaChange<'_> {
    /// The owner that has to be set: it differs, or is not known.
    fn other_owner(&self) -> Option<Attrs> {
        let differs = self.now.and_then(|now| now.owner) != self.wish.owner;
        self.wish.owner_attrs().filter(|_| differs)
    }
}

/// The state of one entry after its owner was set.
struct Owned {
    /// Whether the owner is right now.
    is_right: bool,
    /// Whether the entry is gone.
    is_gone: bool,
}

/// Whether this user may change each of these entries, whose attributes are known. SFTP does not tell who the user is, so
/// each gets the mode that it has.
///
/// # Errors
/// If the connections are lost.
pub(super) fn may_change(tree: &Tree, entries: &[(&RelPath, Option<Attrs>)]) -> Result<Vec<bool>> {
    let mode = |now: &Option<Attrs>| now.and_then(|now| now.mode).map(|mode| mode & 0o7777);
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        let is_asked = |now: &Option<Attrs>| conn.server.home != HOME_OF_ROOT && mode(now).is_some();
        for (path, now) in entries.iter().filter(|(_, now)| is_asked(now)) {
            let attrs = Attrs { mode: mode(now), ..Attrs::default() };
            pipeline.ask(&SftpRequest::Setstat { path: &tree.remote(path), attrs });
        }
        let may_change = |(_, now): &(&RelPath, Option<Attrs>)| {
            Ok(!is_asked(now) || unless_lost(pipeline.next_reply().ok())?.is_ok())
        };
        entries.iter().map(may_change).collect()
    })
}

/// Sets metadata by name. One answer for each: whether something changed; `None` if the entry is gone.
///
/// # Errors
/// Only if the connections are lost. A refusal becomes a warning.
pub(super) fn set_all(
    tree: &Tree,
    notes: &MetadataWarnings,
    options: &SinkOptions,
    changes: &[MetaChange<'_>],
) -> Result<Vec<Option<bool>>> {
    tree.pool().on_one(|conn| {
        let owned = set_owners(tree, conn, notes, options, changes)?;
        let mut pipeline = Pipeline::new(conn);
        let rest = |change: &MetaChange<'_>, owned: &Owned| {
            let all = if owned.is_right { u32::MAX } else { !SET_ID };
            change.wish.rest(change.wish.mode.map(|mode| mode & all)).filter(|_| !is_link(change.entry))
        };
        for (change, owned) in changes.iter().zip(&owned) {
            if let Some(attrs) = rest(change, owned) {
                pipeline.ask(&SftpRequest::Setstat { path: &tree.remote(&change.entry.path), attrs });
            }
        }
        let mut changed = Vec::with_capacity(changes.len());
        for (change, owned) in changes.iter().zip(owned) {
            if is_link(change.entry) {
                changed.push(Some(owned.is_right));
                continue;
            }
            let said = if rest(change, &owned).is_some() { pipeline.next_reply().ok() } else { Ok(()) };
            if owned.is_gone || matches!(&said, Err(fault) if fault.is_missing()) {
                changed.push(None);
                continue;
            }
            let set = refused(notes, "mode and times", &change.entry.path, said)?;
            metadata_warnings(notes, change.entry, options);
            // An entry that differs only in an owner that cannot be set stays as it is.
            let without_owner = Wish { owner: None, ..change.wish };
            let rest_differs = change.now.is_none_or(|now| !without_owner.is_met_by(&now, change.entry));
            changed.push(Some(set && (rest_differs || change.other_owner().is_some() && owned.is_right)));
        }
        Ok(changed)
    })
}

/// Sets owners where they differ, and all metadata of links. Owners come first, as changing one clears set-ID bits.
fn set_owners(
    tree: &Tree,
    conn: &Conn,
    notes: &MetadataWarnings,
    options: &SinkOptions,
    changes: &[MetaChange<'_>],
) -> Result<Vec<Owned>> {
    let mut pipeline = Pipeline::new(conn);
    let mut asked = Vec::with_capacity(changes.len());
    for change in changes {
        let path = &tree.remote(&change.entry.path);
        asked.push(if is_link(change.entry) {
            ask_link(&mut pipeline, conn, path, &change.wish)
        } else if let Some(attrs) = change.other_owner() {
            pipeline.ask(&SftpRequest::Setstat { path, attrs });
            true
        } else {
            false
        });
    }
    let mut owned = Vec::with_capacity(changes.len());
    for (change, asked) in changes.iter().zip(asked) {
        let mut is_gone = false;
        let is_right = if is_link(change.entry) {
            take_link(&mut pipeline, asked, change.entry, notes, options)?
        } else if asked {
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
    fn metadata_not_taken_over_is_met_by_anything() {
        let entry = Entry { mode: 0o4640, uid: 5, gid: 6, ..Entry::new(RelPath::root(), EntryKind::File, 0) };
        let other = Attrs { size: None, owner: Some((1, 2)), mode: Some(0o100_600), times: Some((8, 9)) };
        let all = Preserve::default();
        let right = Attrs { owner: Some((5, 6)), mode: Some(0o104_640), times: Some((8, 0)), ..other };
        assert!(Wish::of(&all, &entry).is_met_by(&right, &entry));
        assert!(!Wish::of(&all, &entry).is_met_by(&other, &entry));
        let none = Preserve { owner: false, group: false, perms: false, times: false, ..all };
        let wish = Wish::of(&none, &entry);
        assert!(wish.is_met_by(&other, &entry));
        assert_eq!(wish.replacing(Some(0o4604)).mode, Some(0o604));
        assert_eq!(wish.replacing(None).mode, None);
        let unowned = Wish::of(&Preserve { owner: false, group: false, ..all }, &entry);
        assert_eq!(unowned.mode, Some(0o640), "set-ID bits would act for the user of the server");
    }

    #[test]
    fn times_are_kept_within_the_carried_precision() {
        let at = |sec| seconds(Timestamp { sec, nsec: 999_999_999 });
        assert_eq!((at(-1), at(0), at(1_700_000_000)), (0, 0, 1_700_000_000));
        assert_eq!((at(u32::MAX.into()), at(i64::MAX)), (u32::MAX, u32::MAX));
    }
}

//! Compares the metadata of entries whose content the caller compares ([`haul_core::Compare::Metadata`]).

use haul_core::policy::Existing;
use haul_core::{Answer, Changes, Entry, EntryKind, Result};

use super::compare::SftpEntry;
use super::meta::{HOME_OF_ROOT, SET_ID, Wish, metadata_warnings};
use super::packet::Attrs;
use super::state::SftpSink;

/// Compares the metadata of an existing entry, as far as SFTP carries it and this login may set it. The rest becomes
/// warnings.
///
/// # Errors
/// If the connections are lost.
pub(super) fn answer(sink: &SftpSink, entry: &Entry, now: &Attrs) -> Result<Answer> {
    let (options, notes) = (&sink.options, &sink.notes);
    let (sets_links, is_root) =
        sink.tree.pool().on_one(|conn| Ok((conn.server.lsetstat, conn.server.home == HOME_OF_ROOT)))?;
    metadata_warnings(notes, entry, options);
    let wish = Wish::of(&options.preserve, entry);
    let mut changes = wish.changes(now, entry);
    let existing = SftpEntry { options, attrs: now };
    changes = changes.without(Changes::TIME.when(existing.has_time(entry.mtime)));
    if matches!(entry.kind, EntryKind::Symlink(_)) && !sets_links && !changes.is_empty() {
        notes.note("owners and times of links", "the server cannot set them", &entry.path);
        return Ok(Answer::Same);
    }
    let owners = Changes::OWNER | Changes::GROUP;
    if !is_root && changes.without(owners) != changes {
        notes.note("owner", "SFTP does not tell whether this user may set it", &entry.path);
        // A copy drops these bits where it cannot set the owner.
        let without_set_id = wish.mode.map(|mode| mode & !SET_ID);
        let has_lost_set_id = now.mode.map(|mode| mode & 0o7777) == without_set_id;
        changes = changes.without(owners).without(Changes::MODE.when(has_lost_set_id));
    }
    Ok(if changes.is_empty() { Answer::Same } else { Answer::Updated(changes) })
}

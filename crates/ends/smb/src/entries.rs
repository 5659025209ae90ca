//! The entries at paths.

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, ErrorKind, RelPath, Result};
use serde_bytes::ByteBuf;

use super::attrs::{Attrs, HIDDEN, SYSTEM, timestamp};
use super::directories::look_now;
use super::reply::nonsense;
use super::tree::Tree;

/// The extended attribute that keeps the attributes which a mode has no place for.
pub(super) const ATTRIBUTES: &[u8] = b"user.smb.attributes";

/// The extended attribute that keeps the security descriptor where there is no place for it.
pub(super) const SECURITY: &[u8] = b"user.smb.security";

/// The beginning of the names of the extended attributes that keep alternate data streams.
pub(super) const STREAM: &[u8] = b"user.smb.stream.";

/// The extended attribute that keeps the time of creation where there is no place for it: units of 100 ns since 1601, in
/// decimal digits.
pub(super) const CREATION_TIME: &[u8] = b"user.smb.creation-time";

/// The extended attribute of a reparse point on its way from share to share: `d` or `f`, for a directory or file, and its
/// bytes.
pub(super) const REPARSE: &[u8] = b"user.smb.reparse";

/// The attributes with their words in [`ATTRIBUTES`].
const WORDS: [(u32, &str); 2] = [(HIDDEN, "hidden"), (SYSTEM, "system")];

/// Whether it is a symbolic link, or another reparse point on its way from share to share.
pub(super) fn is_link(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Symlink(_))
}

/// The attributes as a value of [`ATTRIBUTES`]; `None` if there are none. Samba hides every name that begins with a dot,
/// so that tells nothing.
fn words(name: &[u8], flags: u32) -> Option<Xattr> {
    let flags = if name.starts_with(b".") { flags & !HIDDEN } else { flags };
    let words: Vec<&str> =
        WORDS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, word)| *word).collect();
    let name = ByteBuf::from(ATTRIBUTES);
    (!words.is_empty()).then(|| (name, ByteBuf::from(words.join(",").into_bytes())))
}

/// The attributes that a value of [`ATTRIBUTES`] names.
pub(super) fn flags(value: &[u8]) -> u32 {
    let named = |word: &str| value.split(|byte| *byte == b',').any(|other| other == word.as_bytes());
    WORDS.iter().filter(|(_, word)| named(word)).map(|(flag, _)| flag).sum()
}

/// A time of creation as a value of [`CREATION_TIME`].
fn creation_time(created: u64) -> Xattr {
    (ByteBuf::from(CREATION_TIME), ByteBuf::from(created.to_string().into_bytes()))
}

/// The time of creation that a value of [`CREATION_TIME`] tells, if a server can have it.
pub(super) fn created(value: &[u8]) -> Option<u64> {
    let created = std::str::from_utf8(value).ok()?.parse().ok()?;
    // 0 and negative numbers mean something else.
    (1..=i64::MAX.cast_unsigned()).contains(&created).then_some(created)
}

/// The entry with these attributes, which is no reparse point. SMB tells neither a mode nor an owner in numbers: as on a
/// mount, the user of this process owns everything, and the attribute of files that may not be changed takes the permission
/// to write away.
pub(super) fn entry(tree: &Tree, path: &RelPath, attrs: &Attrs) -> Entry {
    let (kind, mode) = match (attrs.is_dir(), attrs.is_readonly()) {
        (true, _) => (EntryKind::Dir, 0o755),
        (false, false) => (EntryKind::File, 0o644),
        (false, true) => (EntryKind::File, 0o444),
    };
    let entry = entry_of(tree, path, attrs, kind, mode);
    Entry { len: if attrs.is_dir() { 0 } else { attrs.len }, ..entry }
}

/// An entry of this kind without content.
pub(super) fn entry_of(tree: &Tree, path: &RelPath, attrs: &Attrs, kind: EntryKind, mode: u32) -> Entry {
    let keeps_creation = tree.smb.server.login.options.creation_times;
    let created = keeps_creation.then(|| creation_time(attrs.created));
    Entry {
        mtime: timestamp(attrs.modified),
        atime: timestamp(attrs.accessed),
        ctime: Some(timestamp(attrs.changed)),
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        xattrs: words(path.name(), attrs.flags).into_iter().chain(created).collect(),
        ..Entry::new(path.clone(), kind, 0)
    }
}

/// The entry with these attributes; the next one of `points` if it is a reparse point.
fn found_entry(
    tree: &Tree,
    path: &RelPath,
    attrs: &Attrs,
    points: &mut impl Iterator<Item = (RelPath, Result<Entry>)>,
) -> Result<Entry> {
    if !attrs.is_reparse_point() {
        return Ok(entry(tree, path, attrs));
    }
    points.next().map_or_else(|| Err(nonsense("an answer is missing")), |(_, entry)| entry)
}

/// The entries at `paths` as they are now.
pub(super) fn entries_at(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
    let found = look_now(tree, paths)?;
    let points = paths.iter().zip(&found).filter_map(|(path, found)| match found {
        Ok(Some(attrs)) if attrs.is_reparse_point() => Some((path.clone(), *attrs)),
        _ => None,
    });
    let mut points = tree.reparse_entries(points.collect())?.into_iter();
    let mut entries = Vec::with_capacity(paths.len());
    for (path, found) in paths.iter().zip(found) {
        entries.push(match found {
            Ok(Some(attrs)) => match found_entry(tree, path, &attrs, &mut points) {
                Ok(entry) => tree.with_extras(vec![entry])?.pop().map(|(_, entry)| entry).transpose(),
                Err(error) => Err(error),
            },
            Ok(None) => Ok(None),
            // A name that the share cannot hold does not exist there.
            Err(fault) => match tree.error("look at", path, fault) {
                error if error.kind() == ErrorKind::Unsupported => Ok(None),
                error => Err(error),
            },
        });
    }
    Ok(entries)
}

//! The POSIX metadata of an entry as metadata of an object (`x-amz-meta-…`); docs/OBJECTS.md specifies the format.
//!
//! `mtime`, `atime`, `mode`, `uid` and `gid` are as rclone writes them with `--metadata`
//! (<https://rclone.org/s3/#metadata>). Like rclone, haul writes `mtime` as a number of seconds on S3 and as a date
//! elsewhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use haul_core::entry::Xattr;
use haul_core::preserve::RESERVED_XATTRS;
use haul_core::{Changes, Digest, Entry, EntryKind, ObjectKind, Preserve, RelPath, Timestamp};
use haul_object::Object;
use haul_streams::sidecar::{DIGEST_KEY as BLAKE3, STREAM_KEYS};
use serde_bytes::ByteBuf;

const LENGTH: &str = "haul-length";
const TARGET: &str = "haul-target";
const DEVICE: &str = "haul-device";
const LINKS: &str = "haul-links";
const ALLOCATED: &str = "haul-allocated";
const XATTRS: &str = "haul-xattrs";

/// Prefix of the attributes by which the record of an encoded stream goes from one store to another.
const STREAM: &str = "user.haul.object.";

/// Prefix of the digest that replaces attributes that were too long for the store.
const LEFT_OUT: &str = "#";

/// The file type bits of `st_mode`.
const KIND: u32 = 0o170_000;

/// The default permissions of a file and of a directory without recorded mode.
const PLAIN: (u32, u32) = (0o644, 0o755);

fn kind_bits(kind: &EntryKind) -> u32 {
    match kind {
        EntryKind::File => 0o100_000,
        EntryKind::Dir => 0o040_000,
        EntryKind::Symlink(_) => 0o120_000,
        EntryKind::Fifo => 0o010_000,
        EntryKind::Socket => 0o140_000,
        EntryKind::CharDevice(_) => 0o020_000,
        EntryKind::BlockDevice(_) => 0o060_000,
    }
}

/// The metadata of an object that stands for `entry` in a store of this kind.
pub(super) struct ObjectMetadata<'a> {
    pub(super) kind: ObjectKind,
    pub(super) entry: &'a Entry,
    pub(super) digest: Option<&'a Digest>,
    /// Metadata that is not taken over is that of `there`, the object with the same content, or is not recorded.
    pub(super) preserve: &'a Preserve,
    pub(super) there: Option<&'a Object>,
}

impl ObjectMetadata<'_> {
    /// The metadata. Without `attributes`, extended attributes are replaced by their digest: not all stores accept so
    /// much metadata.
    pub(super) fn write(&self, attributes: bool) -> Vec<(String, String)> {
        let (entry, preserve) = (self.entry, self.preserve);
        let date = rfc3339(entry.mtime).filter(|_| self.kind != ObjectKind::S3);
        let mut metadata = Vec::new();
        let mut note = |name: &str, preserved: bool, value: Option<String>| {
            let there = || self.there.and_then(|object| object.meta(name)).map(str::to_owned);
            let value = if preserved { value } else { there() };
            metadata.extend(value.map(|value| (name.to_owned(), value)));
        };
        let has_times = preserve.has_times(&entry.kind);
        note("mtime", has_times, Some(date.unwrap_or_else(|| decimal(entry.mtime))));
        let keeps_mode = preserve.perms || self.there.is_none();
        note("mode", keeps_mode, Some(format!("{:o}", kind_bits(&entry.kind) | self.mode())));
        note("uid", preserve.owner, Some(entry.uid.to_string()));
        note("gid", preserve.group, Some(entry.gid.to_string()));
        note("atime", has_times, rfc3339(entry.atime));
        match &entry.kind {
            EntryKind::File => note(LENGTH, true, Some(entry.len.to_string())),
            EntryKind::Symlink(target) => note(TARGET, true, Some(STANDARD.encode(target))),
            EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => {
                note(DEVICE, true, Some(number.to_string()));
            }
            EntryKind::Dir | EntryKind::Fifo | EntryKind::Socket => {}
        }
        note(BLAKE3, true, self.digest.map(Digest::to_string));
        let has_names = entry.nlink > 1 && !entry.is_dir();
        note(LINKS, true, has_names.then(|| format!("{:x}-{:x}-{}", entry.dev, entry.ino, entry.nlink)));
        note(ALLOCATED, true, entry.is_sparse().then(|| entry.allocated.to_string()));
        let xattrs = self.xattrs();
        let text = (!xattrs.is_empty()).then(|| xattrs_text(&xattrs));
        let text = text.map(|text| if attributes { text } else { left_out(&text) });
        note(XATTRS, preserve.has_any_xattr(), text);
        for key in STREAM_KEYS {
            let value = stream_value(entry, key);
            note(key, value.is_some(), value);
        }
        metadata
    }

    /// The permissions. Without recorded owner and group, a file belongs to the user who reads it: set-ID bits would act
    /// for that user.
    fn mode(&self) -> u32 {
        let (entry, preserve) = (self.entry, self.preserve);
        if !preserve.perms {
            return if entry.is_dir() { PLAIN.1 } else { PLAIN.0 };
        }
        let ids = (entry.uid, entry.gid);
        preserve.mode(entry, ids, preserve.ids(ids, (u32::MAX, u32::MAX)))
    }

    fn xattrs(&self) -> Vec<Xattr> {
        let mut xattrs: Vec<Xattr> = self.preserve.xattrs_of(&self.entry.xattrs).cloned().collect();
        let there = self.there.and_then(|object| object.meta(XATTRS)).and_then(xattrs_of).unwrap_or_default();
        xattrs.extend(there.into_iter().filter(|(name, _)| !self.preserve.has_xattr(name)));
        xattrs.sort();
        xattrs
    }
}

/// The value of one key of the record of an encoded stream, in the source store.
fn stream_value(entry: &Entry, key: &str) -> Option<String> {
    let is_of_key = |name: &[u8]| name.strip_prefix(STREAM.as_bytes()) == Some(key.as_bytes());
    let value = &entry.xattrs.iter().find(|(name, _)| is_of_key(name))?.1;
    String::from_utf8(value.to_vec()).ok()
}

/// Removes from the metadata of an object the record of an encoded stream that `entry` is not. Returns whether there was
/// any.
pub(super) fn remove_other_stream(object: &mut Object, entry: &Entry) -> bool {
    let before = object.metadata.len();
    let is_other = |key: &str, value: &str| {
        STREAM_KEYS.contains(&key) && stream_value(entry, key).as_deref() != Some(value)
    };
    object.metadata.retain(|(key, value)| !is_other(key, value));
    object.metadata.len() < before
}

fn left_out(text: &str) -> String {
    format!("{LEFT_OUT}{}", &Digest::of(text.as_bytes()).to_string()[..32])
}

fn xattrs_text(xattrs: &[Xattr]) -> String {
    let one = |(name, value): &Xattr| format!("{}:{}", STANDARD.encode(name), STANDARD.encode(value));
    xattrs.iter().map(one).collect::<Vec<_>>().join(",")
}

fn xattrs_of(text: &str) -> Option<Vec<Xattr>> {
    let one = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        Some((ByteBuf::from(STANDARD.decode(name).ok()?), ByteBuf::from(STANDARD.decode(value).ok()?)))
    };
    text.split(',').map(one).collect()
}

/// Whether the object has POSIX metadata.
pub(super) fn are_there(object: &Object) -> bool {
    object.meta("mode").is_some()
}

/// Whether the recorded mode is that of a directory.
pub(super) fn is_directory(object: &Object) -> bool {
    let mode = object.meta("mode").and_then(|text| u32::from_str_radix(text, 8).ok());
    mode.is_some_and(|mode| mode & KIND == 0o040_000)
}

/// The entry that an object stands for; `digest` is the recorded digest. Missing metadata defaults to that of a plain
/// file (or directory, if `directory`) of this user, modified when the object was.
pub(super) fn read(path: &RelPath, object: &Object, directory: bool, digest: Option<&Digest>) -> Entry {
    let number = |name: &str, radix| object.meta(name).and_then(|text| u64::from_str_radix(text, radix).ok());
    let mode = number("mode", 8).and_then(|mode| u32::try_from(mode).ok());
    let bits = mode.map_or(0, |mode| mode & KIND);
    let device = || number(DEVICE, 10).unwrap_or_default();
    let kind = match bits {
        _ if directory => EntryKind::Dir,
        0o120_000 => match object.meta(TARGET).and_then(|text| STANDARD.decode(text).ok()) {
            Some(target) => EntryKind::Symlink(target),
            None => EntryKind::File,
        },
        0o010_000 if object.len == 0 => EntryKind::Fifo,
        0o140_000 if object.len == 0 => EntryKind::Socket,
        0o020_000 if object.len == 0 => EntryKind::CharDevice(device()),
        0o060_000 if object.len == 0 => EntryKind::BlockDevice(device()),
        _ => EntryKind::File,
    };
    let len = if kind == EntryKind::File { object.len } else { 0 };
    let mtime = object
        .meta("mtime")
        .and_then(recorded_time)
        .or_else(|| modified(&object.modified))
        .unwrap_or_default();
    let id = |name, mine: u32| number(name, 10).and_then(|id| u32::try_from(id).ok()).unwrap_or(mine);
    let plain = if directory { PLAIN.1 } else { PLAIN.0 };
    let (dev, ino, nlink) = identity(object, &kind, digest);
    let mut xattrs = object.meta(XATTRS).and_then(xattrs_of).unwrap_or_default();
    xattrs.retain(|(name, _)| !name.starts_with(RESERVED_XATTRS));
    if kind == EntryKind::File {
        let pair = |key: &&str| {
            let name = format!("{STREAM}{key}");
            object.meta(key).map(|value| (ByteBuf::from(name), ByteBuf::from(value)))
        };
        xattrs.extend(STREAM_KEYS.iter().filter_map(pair));
        xattrs.sort();
    }
    Entry {
        path: path.clone(),
        len,
        mtime,
        atime: object.meta("atime").and_then(modified).unwrap_or(mtime),
        ctime: None,
        mode: mode.map_or(plain, |mode| mode & 0o7777),
        uid: id("uid", rustix::process::geteuid().as_raw()),
        gid: id("gid", rustix::process::getegid().as_raw()),
        names: None,
        dev,
        ino,
        nlink,
        allocated: number(ALLOCATED, 10).unwrap_or(len),
        xattrs,
        kind,
    }
}

/// Device, inode and link count. Objects that were names of one file, and still have the same content, get the same
/// inode. Any other inode is a hash of the ETag: no two states of an object have the same ETag.
fn identity(object: &Object, kind: &EntryKind, digest: Option<&Digest>) -> (u64, u64, u32) {
    let hash = |text: &str| {
        let mut first = [0; 8];
        first.copy_from_slice(&Digest::of(text.as_bytes()).0[..8]);
        u64::from_le_bytes(first)
    };
    let names =
        object.meta(LINKS).and_then(|text| Some((text, text.rsplit('-').next()?.parse::<u32>().ok()?)));
    match names {
        Some((text, names)) if names > 1 && *kind != EntryKind::Dir => {
            let proof = digest.map(Digest::to_string).unwrap_or_default();
            let mtime = object.meta("mtime").unwrap_or_default();
            let target = object.meta(TARGET).unwrap_or_default();
            (1, hash(&format!("{text} {} {mtime} {proof} {target}", object.len)), names)
        }
        _ => (0, hash(object.etag.trim_matches('"')), 1),
    }
}

/// Whether the metadata of `object` matches `entry`, as far as it is taken over. Access times and holes do not count.
pub(super) fn is_same(object: &Object, entry: &Entry, preserve: &Preserve) -> bool {
    differing(object, entry, preserve).is_empty()
}

/// How the metadata of `object` differs from that of `entry`, as far as it is taken over and has a name in [`Changes`].
pub(super) fn changes(object: &Object, entry: &Entry, preserve: &Preserve) -> Changes {
    differing(object, entry, preserve).into_iter().fold(Changes::NONE, |changes, name| {
        changes
            | match name {
                "mtime" => Changes::TIME,
                "mode" => Changes::MODE,
                "uid" => Changes::OWNER,
                "gid" => Changes::GROUP,
                XATTRS => {
                    let there = object.meta(XATTRS).and_then(xattrs_of).unwrap_or_default();
                    preserve.xattr_changes(&there, &preserve.xattrs_of(&entry.xattrs).collect::<Vec<_>>())
                }
                _ => Changes::NONE,
            }
    })
}

/// The names of the metadata of `object` that do not match `entry`.
fn differing(object: &Object, entry: &Entry, preserve: &Preserve) -> Vec<&'static str> {
    let own = ObjectMetadata { kind: ObjectKind::S3, entry, digest: None, preserve, there: Some(object) };
    let wanted = own.write(true);
    let same = |name: &str, wanted: Option<&str>| {
        let there = object.meta(name);
        match (name, there, wanted) {
            ("mtime", Some(there), _) if preserve.has_times(&entry.kind) => {
                recorded_time(there) == Some(entry.mtime)
            }
            (XATTRS, Some(there), Some(wanted)) => there == wanted || there == left_out(wanted),
            _ => there == wanted,
        }
    };
    let value = |name: &str| wanted.iter().find(|(other, _)| other == name).map(|(_, value)| &value[..]);
    let counts =
        ["mtime", "mode", "uid", "gid", TARGET, DEVICE, LINKS, XATTRS].into_iter().chain(STREAM_KEYS);
    counts.filter(|name| !same(name, value(name))).collect()
}

/// Whether the object was one of several names of a file.
pub(super) fn is_of_several_names(object: &Object) -> bool {
    object.meta(LINKS).is_some()
}

/// The recorded digest.
pub(super) fn digest(object: &Object) -> Option<Digest> {
    object.meta(BLAKE3).and_then(Digest::from_hex)
}

/// Seconds since 1970 with nine decimals, as rclone writes them.
fn decimal(time: Timestamp) -> String {
    let nanos = i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
    let (sign, nanos) = if nanos < 0 { ("-", nanos.unsigned_abs()) } else { ("", nanos.unsigned_abs()) };
    format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// A time in either format.
fn recorded_time(text: &str) -> Option<Timestamp> {
    time_of(text).or_else(|| modified(text))
}

fn time_of(text: &str) -> Option<Timestamp> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part: String = part.chars().chain("000000000".chars()).take(9).collect();
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(&part) {
        return None;
    }
    let nanos = i128::from(whole.parse::<i64>().ok()?) * 1_000_000_000 + part.parse::<i128>().ok()?;
    let nanos = if negative { -nanos } else { nanos };
    Timestamp::from_nanoseconds(nanos)
}

fn rfc3339(time: Timestamp) -> Option<String> {
    let whole = jiff::Timestamp::from_second(time.sec).ok()?;
    whole.checked_add(jiff::SignedDuration::from_nanos(time.nsec.into())).ok().map(|time| time.to_string())
}

/// A time as stores write it: RFC 3339 in listings, an HTTP date elsewhere.
pub(super) fn modified(text: &str) -> Option<Timestamp> {
    let time = text
        .parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok())?;
    Timestamp::from_nanoseconds(time.as_nanosecond())
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;

//! Lines about entries of directories, as text and JSON.

use haul_core::path::printable;
use haul_core::{Entry, EntryKind, Timestamp};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::json::{JsonName, line};
use super::wording::{bytes, number};

/// An entry of a directory, under the name that it is listed with.
#[derive(Serialize)]
#[serde(tag = "type", rename = "listed")]
pub(crate) struct EntryRow<'a> {
    #[serde(flatten)]
    name: JsonName,
    kind: &'static str,
    len: u64,
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip)]
    entry: &'a Entry,
    #[serde(skip)]
    shown: String,
}

impl<'a> EntryRow<'a> {
    /// The entry with this name.
    pub(crate) fn new(name: &[u8], entry: &'a Entry) -> Self {
        let (kind, target) = kind_and_target(entry);
        let modified = time(entry.mtime).map(|time| time.to_string());
        Self {
            name: JsonName::new(name),
            kind,
            len: entry.len,
            modified,
            target,
            entry,
            shown: printable(name),
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Text and numbers can always be serialized.
        line(self).unwrap_or_default()
    }

    /// As rsync's `--list-only` prints it, but for the size of directories: haul has none.
    pub(crate) fn rsync_line(&self) -> Vec<u8> {
        let len = match &self.entry.kind {
            EntryKind::Symlink(target) => target.len() as u64,
            _ => self.len,
        };
        let (mode, len) = (mode_text(&self.entry.kind, self.entry.mode), number(len));
        let time = time(self.entry.mtime).map(|time| time.to_zoned(TimeZone::system()));
        let time = time.map(|time| time.strftime("%Y/%m/%d %H:%M:%S").to_string()).unwrap_or_default();
        let arrow = self.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
        format!("{mode} {len:>14} {time:19} {}{arrow}\n", self.shown).into_bytes()
    }

    /// As text.
    pub(crate) fn line(&self) -> Vec<u8> {
        let size = if self.entry.is_file() { bytes(self.len) } else { String::new() };
        let time = time(self.entry.mtime).map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string());
        let slash = if self.entry.is_dir() { "/" } else { "" };
        let arrow = self.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
        let time = time.unwrap_or_default();
        format!("{size:>12}  {time:19}  {}{slash}{arrow}\n", self.shown).into_bytes()
    }
}

/// The word for the kind of an entry, and the target of a link.
pub(super) fn kind_and_target(entry: &Entry) -> (&'static str, Option<String>) {
    match &entry.kind {
        EntryKind::File => ("file", None),
        EntryKind::Dir => ("dir", None),
        EntryKind::Symlink(target) => ("symlink", Some(printable(target))),
        EntryKind::Fifo => ("fifo", None),
        EntryKind::Socket => ("socket", None),
        EntryKind::CharDevice(_) => ("char_device", None),
        EntryKind::BlockDevice(_) => ("block_device", None),
    }
}

/// The kind and the mode as ls(1) shows them.
fn mode_text(kind: &EntryKind, mode: u32) -> String {
    let mut text = String::from(match kind {
        EntryKind::File => '-',
        EntryKind::Dir => 'd',
        EntryKind::Symlink(_) => 'l',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
        EntryKind::CharDevice(_) => 'c',
        EntryKind::BlockDevice(_) => 'b',
    });
    // Each class, with its further bit and the letter of that.
    for (shift, further, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & further != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => letter.to_ascii_uppercase(),
            (true, true) => letter,
        });
    }
    text
}

/// The time in UTC; `None` if it is out of the range of calendars.
pub(super) fn time(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(at.sec, i32::try_from(at.nsec).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::RelPath;

    #[test]
    fn lines_look_like_those_of_objects() {
        let entry = |name: &str, kind, len| Entry {
            mtime: Timestamp { sec: 1_767_323_045, nsec: 0 },
            ..Entry::new(RelPath::new(name.as_bytes()).unwrap(), kind, len)
        };
        let text =
            |entry: &Entry| String::from_utf8(EntryRow::new(entry.path.as_bytes(), entry).line()).unwrap();
        assert_eq!(
            text(&entry("a\nb", EntryKind::File, 1536)),
            "    1.50 KiB  2026-01-02 03:04:05  a\\x0ab\n"
        );
        assert_eq!(text(&entry("d", EntryKind::Dir, 4096)), "              2026-01-02 03:04:05  d/\n");
        let link = entry("l", EntryKind::Symlink(b"x\x1b".to_vec()), 0);
        assert_eq!(text(&link), "              2026-01-02 03:04:05  l -> x\\x1b\n");
        let json = String::from_utf8(EntryRow::new(b"l", &link).json()).unwrap();
        let expected = r#"{"type":"listed","path":"l","kind":"symlink","len":0,"modified":"2026-01-02T03:04:05Z","target":"x\\x1b"}"#;
        assert_eq!(json.trim_end(), expected);
        let mode = |mode| mode_text(&EntryKind::File, mode);
        assert_eq!((&mode(0o644)[..], &mode(0o7777)[..]), ("-rw-r--r--", "-rwsrwsrwt"));
        assert_eq!(
            (&mode(0o7000)[..], &mode_text(&EntryKind::Dir, 0o2755)[..]),
            ("---S--S--T", "drwxr-sr-x")
        );
        let row =
            EntryRow::new(b"f", &Entry { mode: 0o600, ..entry("f", EntryKind::File, 1536) }).rsync_line();
        let row = String::from_utf8(row).unwrap();
        assert!(row.starts_with("-rw-------          1,536 2026/01/0") && row.ends_with(" f\n"), "{row}");
        let far = Entry { mtime: Timestamp { sec: i64::MAX, nsec: 0 }, ..link };
        assert!(text(&far).contains("l -> x"));
    }
}

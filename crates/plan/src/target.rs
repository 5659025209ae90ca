//! Checks names against the limits of a target.
//!
//! The limits are those that the vendors document:
//! * NTFS, SMB, FAT, exFAT: Microsoft, "Naming Files, Paths, and Namespaces" and "exFAT file system specification",
//!   7.7.3. Names that Windows refuses count as invalid: others could create them, but Windows could not open them.
//! * APFS: Apple, "Apple File System Guide", FAQ.
//! * S3: Amazon, "Naming Amazon S3 objects"; Google Cloud Storage, "About Cloud Storage objects"; Azure, "Naming and
//!   referencing containers, blobs, and metadata".
//! * eCryptfs: 143 of the 255 bytes of the file system below it remain (encrypted shares of Synology use it).
//!
//! The prefix of the keys, or the path above the tree, is not known here; it makes keys longer.

use haul_core::{Entry, EntryKind, is_device_name};
use unicode_normalization::UnicodeNormalization;

/// A kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any Unix file system: 255 bytes in a name.
    Posix,
    /// eCryptfs on such a file system.
    Ecryptfs,
    /// NTFS, or a share over SMB.
    Ntfs,
    /// exFAT.
    Exfat,
    /// FAT32.
    Fat32,
    /// APFS with the defaults of macOS, which ignores case.
    Apfs,
    /// S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

/// Why a target cannot hold an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The name or key is too long.
    TooLong,
    /// It is not valid UTF-8.
    NotText,
    /// It contains a forbidden character.
    Character,
    /// It ends with a character that is forbidden at the end.
    Ending,
    /// The system reserves the name.
    Reserved,
    /// Another name differs from it only in case, or in how its accents are encoded.
    Clash,
    /// The file exceeds the largest file size.
    TooLarge,
    /// The target has no links or special files.
    Kind,
}

/// The largest file of FAT32 in bytes.
const FAT32_FILE: u64 = u32::MAX as u64;
/// The largest object of Google Cloud Storage in bytes.
const GS_OBJECT: u64 = 5 << 40;
/// The longest key of S3 and of Google Cloud Storage in bytes.
const KEY: usize = 1024;

impl Target {
    /// Why the target cannot hold `entry` under its own name; `None` if it can, other names aside.
    #[must_use]
    pub fn refuses(self, entry: &Entry) -> Option<Reason> {
        if entry.path.is_root() {
            return None;
        }
        let no_special = matches!(self, Self::Exfat | Self::Fat32 | Self::S3 | Self::Gs | Self::Az);
        if no_special && !matches!(entry.kind, EntryKind::File | EntryKind::Dir) {
            return Some(Reason::Kind);
        }
        let largest = match self {
            Self::Fat32 => FAT32_FILE,
            Self::Gs => GS_OBJECT,
            _ => u64::MAX,
        };
        if entry.len > largest {
            return Some(Reason::TooLarge);
        }
        let name = entry.path.name();
        match self {
            Self::Posix => (name.len() > 255).then_some(Reason::TooLong),
            Self::Ecryptfs => (name.len() > 143).then_some(Reason::TooLong),
            Self::Ntfs | Self::Exfat | Self::Fat32 => windows(name),
            Self::Apfs => {
                text(name).map_or_else(Some, |name| (name.chars().count() > 255).then_some(Reason::TooLong))
            }
            Self::S3 | Self::Gs | Self::Az => key(self, entry),
        }
    }

    /// Folds a path so that names which the target does not distinguish become equal; `None` if it distinguishes all
    /// names.
    #[must_use]
    pub fn folded(self, path: &[u8]) -> Option<Vec<u8>> {
        let fold: fn(&str, &mut String) = match self {
            // NTFS, FAT and exFAT compare names by a table of single upper-case characters.
            Self::Ntfs | Self::Exfat | Self::Fat32 => |text, out| out.extend(text.chars().map(upper)),
            Self::Apfs => |text, out| out.extend(text.nfd().flat_map(char::to_lowercase).nfd()),
            _ => return None,
        };
        let mut folded = Vec::with_capacity(path.len());
        let mut out = String::new();
        for chunk in path.utf8_chunks() {
            out.clear();
            fold(chunk.valid(), &mut out);
            folded.extend_from_slice(out.as_bytes());
            folded.extend_from_slice(chunk.invalid());
        }
        Some(folded)
    }
}

fn text(name: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(name).map_err(|_| Reason::NotText)
}

/// The upper-case form of a character, if that is one character.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn windows(name: &[u8]) -> Option<Reason> {
    let name = match text(name) {
        Ok(name) => name,
        Err(reason) => return Some(reason),
    };
    if name.chars().any(|c| c < ' ' || r#"<>:"/\|?*"#.contains(c)) {
        return Some(Reason::Character);
    }
    if name.ends_with(['.', ' ']) {
        return Some(Reason::Ending);
    }
    if name.encode_utf16().count() > 255 {
        return Some(Reason::TooLong);
    }
    is_device_name(name).then_some(Reason::Reserved)
}

/// Checks the whole path as a key. Directories are not objects.
fn key(target: Target, entry: &Entry) -> Option<Reason> {
    if entry.is_dir() {
        return None;
    }
    let key = match text(entry.path.as_bytes()) {
        Ok(key) => key,
        Err(reason) => return Some(reason),
    };
    match target {
        Target::Az => {
            let segments = || key.split('/');
            if segments().any(|segment| segment.ends_with('.')) {
                return Some(Reason::Ending);
            }
            if key.contains('\\') {
                // Azure treats it as a slash.
                return Some(Reason::Character);
            }
            (key.chars().count() > KEY || segments().count() > 254).then_some(Reason::TooLong)
        }
        Target::Gs if key.contains(['\r', '\n']) => Some(Reason::Character),
        Target::Gs if key.starts_with(".well-known/acme-challenge/") => Some(Reason::Reserved),
        _ => (key.len() > KEY).then_some(Reason::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::RelPath;

    fn entry(path: &[u8]) -> Entry {
        Entry::new(RelPath::new(path).unwrap(), EntryKind::File, 5)
    }

    fn refuses(target: Target, path: impl AsRef<[u8]>) -> Option<Reason> {
        target.refuses(&entry(path.as_ref()))
    }

    #[test]
    fn windows_names_are_checked() {
        for target in [Target::Ntfs, Target::Exfat, Target::Fat32] {
            for (name, reason) in [
                ("d/a:b", Reason::Character),
                ("d/a\tb", Reason::Character),
                ("what?", Reason::Character),
                ("end.", Reason::Ending),
                ("end ", Reason::Ending),
                ("con", Reason::Reserved),
                ("d/Com1.txt", Reason::Reserved),
                ("lpt³", Reason::Reserved),
            ] {
                assert_eq!(refuses(target, name), Some(reason), "{name}");
            }
            for name in ["com0", "com10", "console", "a.con", ".hidden", "ä ö", "d.d/x"] {
                assert_eq!(refuses(target, name), None, "{name}");
            }
            assert_eq!(refuses(target, b"\xff"), Some(Reason::NotText));
            // Windows counts UTF-16 units: a character beyond the first 65,536 counts twice.
            assert_eq!(refuses(target, "ä".repeat(255)), None);
            assert_eq!(refuses(target, "🚚".repeat(128)), Some(Reason::TooLong));
        }
    }

    #[test]
    fn lengths_kinds_and_sizes_are_checked() {
        assert_eq!(refuses(Target::Ecryptfs, "x".repeat(144)), Some(Reason::TooLong));
        assert_eq!(refuses(Target::Posix, "x".repeat(255)), None);
        assert_eq!(refuses(Target::Apfs, "ä".repeat(255)), None);
        assert_eq!(refuses(Target::Apfs, b"\xc3"), Some(Reason::NotText));
        let long = ["d/".repeat(510), "name".to_owned()].concat();
        assert_eq!((refuses(Target::S3, &long), long.len()), (None, 1024));
        assert_eq!(refuses(Target::S3, format!("{long}x")), Some(Reason::TooLong));
        assert_eq!(refuses(Target::Az, &long), Some(Reason::TooLong), "too many segments");
        assert_eq!(refuses(Target::Az, "a./b"), Some(Reason::Ending));
        assert_eq!(refuses(Target::Gs, "a\nb"), Some(Reason::Character));
        let large = Entry { len: 4 << 30, ..entry(b"x") };
        assert_eq!(Target::Fat32.refuses(&large), Some(Reason::TooLarge));
        assert_eq!(Target::Exfat.refuses(&large), None);
        let link = Entry { kind: EntryKind::Symlink(b"x".to_vec()), ..entry(b"x") };
        assert_eq!(Target::S3.refuses(&link), Some(Reason::Kind));
        assert_eq!(Target::Ntfs.refuses(&link), None);
        let directory = Entry { kind: EntryKind::Dir, ..entry(b"\xff") };
        assert_eq!(Target::S3.refuses(&directory), None, "a directory is no object");
    }

    #[test]
    fn names_are_folded_as_the_target_compares_them() {
        let same =
            |target: Target, a: &str, b: &str| target.folded(a.as_bytes()) == target.folded(b.as_bytes());
        for target in [Target::Ntfs, Target::Apfs] {
            assert!(same(target, "Readme/ÄÖ", "README/äö"), "{target:?}");
            assert!(!same(target, "a", "b") && !same(target, "a/b", "a-b"), "{target:?}");
        }
        assert!(same(Target::Apfs, "\u{e9}", "e\u{301}") && !same(Target::Ntfs, "\u{e9}", "e\u{301}"));
        assert!(!same(Target::Ntfs, "straße", "STRASSE"));
        assert_eq!(Target::S3.folded(b"A"), None);
        assert_ne!(Target::Ntfs.folded(b"\xff"), Target::Ntfs.folded(b"\xfe"));
    }
}

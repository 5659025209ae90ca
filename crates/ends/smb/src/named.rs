//! The names in the answer to a listing, with the attributes of the entries.

use super::attrs::Attrs;
use super::reply::{Fault, nonsense};

/// The bytes before the name of an entry.
const FIXED: usize = 64;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    /// The name as the server sent it.
    pub(super) name: String,
    /// Whether it is text. Windows allows any 16-bit numbers, which then cannot be asked for.
    pub(super) is_text: bool,
    pub(super) attrs: Attrs,
}

/// The entries of an answer, without `.` and `..`.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<DirectoryEntry>, Fault> {
    let mut entries = Vec::new();
    let mut at = 0_usize;
    let bad = || Fault::from(nonsense("a listing is damaged"));
    while at < bytes.len() {
        let entry = bytes.get(at..).unwrap_or_default();
        let u32_at = |at: usize| Some(u32::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let head = || {
            let attrs = Attrs {
                created: u64_at(8)?,
                accessed: u64_at(16)?,
                modified: u64_at(24)?,
                changed: u64_at(32)?,
                len: u64_at(40)?,
                flags: u32_at(56)?,
            };
            Some((u32_at(0)? as usize, attrs, u32_at(60)? as usize))
        };
        let (next, attrs, len) = head().ok_or_else(bad)?;
        let end = FIXED.saturating_add(len);
        let raw = entry.get(FIXED..end).ok_or_else(bad)?;
        if next != 0 && next < end {
            return Err(bad());
        }
        let units: Vec<u16> =
            raw.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let name = String::from_utf16(&units);
        let is_text = name.is_ok();
        let name = name.unwrap_or_else(|_| String::from_utf16_lossy(&units));
        if name.is_empty() || name.contains(['\\', '/', '\0']) {
            return Err(nonsense("a listing has a name that is none").into());
        }
        if name != "." && name != ".." {
            entries.push(DirectoryEntry { name, is_text, attrs });
        }
        if next == 0 {
            break;
        }
        at += next;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(next: u32, name: &[u16], flags: u32) -> Vec<u8> {
        let mut bytes = next.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        for value in [1_u64, 2, 3, 4, 500, 4096] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(flags.to_le_bytes());
        bytes.extend((name.len() as u32 * 2).to_le_bytes());
        bytes.extend(name.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.resize(bytes.len().max(next as usize), 0);
        bytes
    }

    fn units(name: &str) -> Vec<u16> {
        name.encode_utf16().collect()
    }

    #[test]
    fn a_listing_has_names_and_attributes() {
        let bytes =
            [entry(72, &units("."), 16), entry(72, &units("ab"), 32), entry(0, &units("é"), 16)].concat();
        let found = parse(&bytes).unwrap();
        let names: Vec<_> = found.iter().map(|found| (&found.name[..], found.attrs.is_dir())).collect();
        assert_eq!(names, [("ab", false), ("é", true)]);
        let attrs = Attrs { created: 1, accessed: 2, modified: 3, changed: 4, len: 500, flags: 32 };
        assert_eq!((found[0].attrs, found[0].is_text), (attrs, true));
    }

    #[test]
    fn a_name_that_is_no_text_is_told() {
        let found = parse(&entry(0, &[0xD800, 0x41], 0)).unwrap();
        assert!(!found[0].is_text && found[0].name.ends_with('A'));
    }

    #[test]
    fn a_listing_that_lies_is_refused() {
        let good = entry(0, &units("name"), 0);
        for end in 1..good.len() {
            assert!(parse(&good[..end]).is_err(), "cut at {end}");
        }
        for name in ["a/b", "a\\b", "", "\0"] {
            assert!(parse(&entry(0, &units(name), 0)).is_err(), "{name:?}");
        }
        assert!(parse(&entry(8, &units("name"), 0)).is_err(), "entries overlap");
        assert!(parse(&entry(u32::MAX, &units(""), 0)[..72]).is_err());
    }
}

//! The names in the answer to a listing, with the attributes of the entries.

use super::attrs::Attrs;
use super::chained::{Layout, Record, records};
use super::reply::{Fault, nonsense};

const LAYOUT: Layout = Layout { name_len_at: 60, fixed: 64, damaged: "a listing is damaged" };

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
    for record in records(bytes, &LAYOUT) {
        let record = record?;
        let attrs = attrs(&record).ok_or_else(|| Fault::from(nonsense(LAYOUT.damaged)))?;
        let name = String::from_utf16(&record.units);
        let is_text = name.is_ok();
        let name = name.unwrap_or_else(|_| String::from_utf16_lossy(&record.units));
        if name.is_empty() || name.contains(['\\', '/', '\0']) {
            return Err(nonsense("a listing has a name that is none").into());
        }
        if name != "." && name != ".." {
            entries.push(DirectoryEntry { name, is_text, attrs });
        }
    }
    Ok(entries)
}

fn attrs(record: &Record<'_>) -> Option<Attrs> {
    Some(Attrs {
        created: record.u64_at(8)?,
        accessed: record.u64_at(16)?,
        modified: record.u64_at(24)?,
        changed: record.u64_at(32)?,
        len: record.u64_at(40)?,
        flags: record.u32_at(56)?,
    })
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

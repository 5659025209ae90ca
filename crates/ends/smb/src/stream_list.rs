//! The names and lengths of the alternate data streams of an entry, in the format of MS-FSCC 2.4.49.

use super::chained::{Layout, records};
use super::reply::{Fault, nonsense};

/// The most bytes in the streams of an entry. Linux allows no more in an extended attribute.
pub(super) const MOST: u64 = 64 * 1024;
const LAYOUT: Layout = Layout { name_len_at: 4, fixed: 24, damaged: "a list of streams is damaged" };
/// The end of the name of each stream with data.
const DATA: &str = ":$DATA";
/// The most characters of a name.
const NAME_LEN: usize = 255;

/// A stream beside the content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedStream {
    pub(super) name: String,
    pub(super) len: u64,
}

/// The streams of an answer, without the content itself.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<NamedStream>, Fault> {
    let mut streams = Vec::new();
    for record in records(bytes, &LAYOUT) {
        let record = record?;
        let len = record.u64_at(8).ok_or_else(|| Fault::from(nonsense(LAYOUT.damaged)))?;
        let name =
            String::from_utf16(&record.units).map_err(|_| Fault::from(nonsense("a stream has no name")))?;
        // Streams of other types belong to the file system.
        let name = name.strip_prefix(':').and_then(|name| name.strip_suffix(DATA));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            if !is_name(name) {
                return Err(nonsense("a stream has a name that is none").into());
            }
            streams.push(NamedStream { name: name.to_owned(), len });
        }
    }
    streams.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(streams)
}

/// The name of a stream that another end has kept with this content.
///
/// # Errors
/// Why a share cannot keep it.
pub(super) fn kept_name<'a>(name: &'a [u8], content: &[u8]) -> Result<&'a str, &'static str> {
    match std::str::from_utf8(name).ok().filter(|name| is_name(name)) {
        Some(name) if content.len() as u64 <= MOST => Ok(name),
        Some(_) => Err("haul copies 64 KiB at most"),
        None => Err("SMB cannot hold the name"),
    }
}

/// Whether a stream can have this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['\\', '/', ':', '\0']) && name.encode_utf16().count() <= NAME_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(next: u32, name: &str, len: u64) -> Vec<u8> {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut bytes = next.to_le_bytes().to_vec();
        bytes.extend((units.len() as u32).to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(units);
        bytes.resize(bytes.len().max(next as usize), 0);
        bytes
    }

    #[test]
    fn the_content_and_streams_of_other_types_are_left_out() {
        let bytes = [
            stream(40, "::$DATA", 9),
            stream(48, ":b:$DATA", 5),
            stream(56, ":x:$BITMAP", 5),
            stream(0, ":a é:$DATA", 0),
        ]
        .concat();
        let named = |name: &str, len| NamedStream { name: name.to_owned(), len };
        assert_eq!(parse(&bytes).unwrap(), [named("a é", 0), named("b", 5)]);
        assert_eq!(parse(&[]).unwrap(), []);
    }

    #[test]
    fn a_list_that_lies_is_refused() {
        let good = stream(0, ":name:$DATA", 3);
        for end in 1..good.len() {
            assert!(parse(&good[..end]).is_err(), "cut at {end}");
        }
        for name in [":a/b:$DATA", ":a\\b:$DATA", ":a:b:$DATA", ":\0:$DATA"] {
            assert!(parse(&stream(0, name, 1)).is_err(), "{name:?}");
        }
        assert!(parse(&stream(8, ":name:$DATA", 3)).is_err(), "streams overlap");
    }
}

//! Names of files as parts of keys, which are text.
//!
//! A name that is UTF-8 stays as it is. Any other byte is written as `‛` (U+201B) and two upper-case hexadecimal digits,
//! and `‛` itself is doubled: as rclone does (its `lib/encoder`, "InvalidUtf8"), so that it reads the same names.

use haul_core::RelPath;
use haul_core::path::BadPath;

/// What is before an escaped byte.
const QUOTE: char = '\u{201b}';

/// A path as the end of a key.
pub(super) fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == QUOTE {
                text.push(QUOTE);
            }
            text.push(c);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("{QUOTE}{byte:02X}"));
        }
    }
    text
}

/// Why the end of a key is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadKey {
    /// It is no safe path.
    Path(BadPath),
    /// It is not how the name that it means is written, so that two keys would mean one name.
    Escape,
}

impl std::fmt::Display for BadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(BadPath::Absolute | BadPath::Component) => {
                f.write_str("an empty component, `.` or `..` in its name is no name of a file")
            }
            Self::Path(bad) => std::fmt::Display::fmt(bad, f),
            Self::Escape => f.write_str("its name has an escape that no name of a file is written with"),
        }
    }
}

/// The path that the end of a key means.
pub(super) fn decode(text: &str) -> Result<RelPath, BadKey> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(QUOTE) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + QUOTE.len_utf8()..];
        if let Some(after) = rest.strip_prefix(QUOTE) {
            bytes.extend_from_slice(QUOTE.to_string().as_bytes());
            rest = after;
        } else {
            let byte = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or(BadKey::Escape)?);
            rest = &rest[2..];
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    let path = RelPath::new(&bytes).map_err(BadKey::Path)?;
    if encode(path.as_bytes()) == text { Ok(path) } else { Err(BadKey::Escape) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_comes_back() {
        for name in
            [&b"plain"[..], b"a/b c", b"\xff", b"a\xffb/\xc3", "\u{201b}41".as_bytes(), b"\n\x01", b""]
        {
            assert_eq!(decode(&encode(name)).unwrap().as_bytes(), name);
        }
        assert_eq!(encode(b"x\xfe"), "x\u{201b}FE");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["..", "a/../b", "a//b", "/a", "a/", ".", "a\0b"] {
            assert!(matches!(decode(text), Err(BadKey::Path(_))), "{text:?}");
        }
        for text in ["\u{201b}", "\u{201b}ff", "\u{201b}41", "\u{201b}x", "\u{201b}4\u{e9}"] {
            assert_eq!(decode(text), Err(BadKey::Escape), "{text:?}");
        }
        // An escaped slash or NUL must not become one.
        assert!(decode("a\u{201b}2Fb").is_err() && decode("a\u{201b}00").is_err());
    }
}

//! File names as parts of keys, which are text.
//!
//! A UTF-8 name stays as it is, except for characters that the provider does not accept in keys. The bytes of these,
//! and bytes that are not UTF-8, are written as `‛` (U+201B) and two upper-case hexadecimal digits each; `‛` itself is
//! doubled. This is the encoding of rclone (`lib/encoder`, "InvalidUtf8"), so rclone reads the same names.

use haul_core::path::BadPath;
use haul_core::{ObjectKind, RelPath};

/// Precedes an escaped byte.
const QUOTE: char = '\u{201b}';

/// Whether a provider refuses a character in keys, or as the last one of a path component. Sources:
/// <https://cloud.google.com/storage/docs/objects#naming> and
/// <https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata>. Azure
/// treats a backslash as a slash and drops a dot at the end of a component.
fn is_refused(kind: ObjectKind, c: char, is_last: bool) -> bool {
    match kind {
        ObjectKind::S3 => false,
        ObjectKind::Gs => matches!(c, '\r' | '\n'),
        ObjectKind::Az => {
            c == '\\' || c.is_control() || ('\u{e000}'..='\u{f8ff}').contains(&c) || c == '.' && is_last
        }
    }
}

/// Encodes a path as the end of a key.
pub(super) fn encode(kind: ObjectKind, path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    let escape = |byte: u8, text: &mut String| text.push_str(&format!("{QUOTE}{byte:02X}"));
    let mut done = 0;
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            done += c.len_utf8();
            let is_last = matches!(path.get(done), None | Some(b'/'));
            if c == QUOTE {
                text.extend([QUOTE, QUOTE]);
            } else if is_refused(kind, c, is_last) {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, &mut text));
            } else {
                text.push(c);
            }
        }
        done += chunk.invalid().len();
        chunk.invalid().iter().for_each(|byte| escape(*byte, &mut text));
    }
    text
}

/// Why the end of a key is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadKey {
    /// The path would be unsafe.
    Path(BadPath),
    /// The name is not in its canonical encoding; accepting it would map two keys to one name.
    Escape,
    /// It contains a character that the provider refuses in keys, or advises against.
    Character,
}

impl std::fmt::Display for BadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(BadPath::Absolute | BadPath::Component) => {
                f.write_str("an empty component, `.` or `..` in its name is no name of a file")
            }
            Self::Path(bad) => std::fmt::Display::fmt(bad, f),
            Self::Character => f.write_str(
                "its name has a character that haul writes in another way there, as the provider asks: a control \
                 character, a backslash, or a dot at the end of a component",
            ),
            Self::Escape => f.write_str("its name has an escape that no name of a file is written with"),
        }
    }
}

/// Decodes the end of a key as a path.
pub(super) fn decode(kind: ObjectKind, text: &str) -> Result<RelPath, BadKey> {
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
    if encode(kind, path.as_bytes()) == text {
        Ok(path)
    } else if encode(ObjectKind::S3, path.as_bytes()) == text {
        Err(BadKey::Character)
    } else {
        Err(BadKey::Escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ObjectKind; 3] = [ObjectKind::S3, ObjectKind::Gs, ObjectKind::Az];

    #[test]
    fn any_name_round_trips() {
        let text = "\u{201b}41/\u{e000}\u{81}\u{e9}".as_bytes();
        let names = [&b"plain"[..], b"a/b c", b"\xff", b"a\xffb/\xc3", text, b"\n\x01", b"", b"a\\b./..c/x."];
        for (kind, name) in KINDS.into_iter().flat_map(|kind| names.map(|name| (kind, name))) {
            assert_eq!(decode(kind, &encode(kind, name)).unwrap().as_bytes(), name);
        }
        assert_eq!(encode(ObjectKind::S3, b"x\xfe"), "x\u{201b}FE");
    }

    #[test]
    fn characters_that_a_provider_refuses_are_escaped() {
        let keys = |name: &str| KINDS.map(|kind| encode(kind, name.as_bytes()).replace(QUOTE, "^"));
        assert_eq!(keys("a\nb\r"), ["a\nb\r", "a^0Ab^0D", "a^0Ab^0D"]);
        assert_eq!(keys("a.b./.c."), ["a.b./.c.", "a.b./.c.", "a.b^2E/.c^2E"]);
        assert_eq!(keys("\\\u{7f}\u{81}\u{f022}")[2], "^5C^7F^C2^81^EF^80^A2");
        // Where the character is allowed in keys, its escape is not accepted as an alias.
        assert_eq!(decode(ObjectKind::S3, "a\u{201b}0A"), Err(BadKey::Escape));
        assert_eq!(decode(ObjectKind::Az, "a\\b"), Err(BadKey::Character));
    }

    #[test]
    fn unsafe_and_ambiguous_keys_are_refused() {
        for text in ["..", "a/../b", "a//b", "/a", "a/", ".", "a\0b"] {
            assert!(matches!(decode(ObjectKind::S3, text), Err(BadKey::Path(_))), "{text:?}");
        }
        for text in ["\u{201b}", "\u{201b}ff", "\u{201b}41", "\u{201b}x", "\u{201b}4\u{e9}"] {
            assert_eq!(decode(ObjectKind::S3, text), Err(BadKey::Escape), "{text:?}");
        }
        // An escaped slash or NUL must not be decoded.
        for kind in KINDS {
            assert!(decode(kind, "a\u{201b}2Fb").is_err() && decode(kind, "a\u{201b}00").is_err());
        }
    }
}

//! Names on a share: text without the characters that Windows keeps for itself.

use std::borrow::Cow;

use haul_core::is_device_name;
use smb2::name::{decode_name, encode_name};

/// The most UTF-16 units in a name.
const LONGEST: usize = 255;
/// The most UTF-16 units in a path.
const LONGEST_PATH: usize = 32_760;
/// The private range into which characters are mapped.
const MAPPED: u32 = 0xF000;

/// Why a share cannot hold a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadName {
    pub(super) why: String,
    /// Whether the name is held if it is mapped.
    pub(super) can_be_mapped: bool,
}

impl BadName {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), can_be_mapped: false }
    }
}

/// A name as it is sent. With `map`, characters that SMB has no place for are replaced by characters of a private range,
/// as mount.cifs(8) and macOS do, and so is the first character of a name that Windows reserves: Samba would tell a made-up
/// name for it.
pub(super) fn to_wire(name: &[u8], map: bool) -> Result<Cow<'_, str>, BadName> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Err(BadName::new("its name is no text in UTF-8, and SMB knows only text"));
    };
    let sent = map_name(text);
    if !map && sent != text {
        return Err(BadName { why: why_mapped(text, &sent), can_be_mapped: true });
    }
    if map && unmap_name(&sent) != text {
        return Err(BadName::new("its name holds a character that stands for another one in SMB"));
    }
    if sent.encode_utf16().count() > LONGEST {
        return Err(BadName::new("its name is longer than 255 characters"));
    }
    Ok(sent)
}

/// Why a name is not sent as it is.
fn why_mapped(text: &str, sent: &str) -> String {
    if is_device_name(text) {
        return "Windows reserves its name for a device".to_owned();
    }
    let differs = text.chars().zip(sent.chars()).find(|(one, other)| one != other);
    match differs.map(|(one, _)| one) {
        Some(' ') => "SMB has no place for a space at the end of its name".to_owned(),
        Some('.') => "SMB has no place for a dot at the end of its name".to_owned(),
        Some(one) if one.is_control() => {
            format!("SMB has no place for the control character {} in its name", one.escape_default())
        }
        one => format!("SMB has no place for the character {} in its name", one.unwrap_or_default()),
    }
}

fn map_name(text: &str) -> Cow<'_, str> {
    let sent = encode_name(text);
    match text.chars().next().and_then(|first| char::from_u32(MAPPED + u32::from(first))) {
        // The first character of such a name is a letter of ASCII.
        Some(first) if is_device_name(text) => format!("{first}{}", &sent[1..]).into(),
        _ => sent,
    }
}

fn unmap_name(sent: &str) -> Cow<'_, str> {
    let text = decode_name(sent);
    let mut rest = text.chars();
    let first = rest.next().and_then(|first| u32::from(first).checked_sub(MAPPED));
    match first.and_then(|first| u8::try_from(first).ok()).filter(u8::is_ascii_alphabetic) {
        Some(first) => match format!("{}{}", char::from(first), rest.as_str()) {
            device if is_device_name(&device) => device.into(),
            _ => text,
        },
        None => text,
    }
}

/// Checks the length of a whole path.
pub(super) fn check_length(path: &str) -> Result<(), BadName> {
    if path.len() > LONGEST_PATH && path.encode_utf16().count() > LONGEST_PATH {
        return Err(BadName::new("its path is longer than 32,760 characters"));
    }
    Ok(())
}

/// A name that the server sent.
pub(super) fn from_wire(name: &str, map: bool) -> Vec<u8> {
    if map { unmap_name(name).into_owned().into_bytes() } else { name.as_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_reserves_are_refused_or_mapped() {
        for name in ["CON", "aux.c", "nul.txt", "LPT1", "COM1.txt", "con.a:b", "prn ", "Lock$"] {
            let refused = to_wire(name.as_bytes(), false).unwrap_err();
            assert!(refused.can_be_mapped && refused.why.contains("reserves"), "{refused:?}");
            let sent = to_wire(name.as_bytes(), true).unwrap();
            assert!(!is_device_name(&sent));
            assert_eq!(from_wire(&sent, true), name.as_bytes());
        }
        assert_eq!(to_wire(b"aux.c", true), Ok("\u{f061}ux.c".into()));
        assert!(to_wire("\u{f061}ux".as_bytes(), true).is_err(), "it would be read as another name");
        assert_eq!(from_wire("\u{f061}bc", true), "\u{f061}bc".as_bytes());
        assert_eq!(to_wire("\u{f061}bc".as_bytes(), true), Ok("\u{f061}bc".into()));
    }

    #[test]
    fn an_error_names_the_character() {
        let why = |name: &str| to_wire(name.as_bytes(), false).unwrap_err().why;
        assert!(why("a:b").contains("character : in") && why("a\tb").contains("\\t"), "{}", why("a\tb"));
        assert!(why("a.").contains("dot at the end") && why("a ").contains("space at the end"));
        assert!(!to_wire(b"\xff", false).unwrap_err().can_be_mapped);
    }

    #[test]
    fn names_that_smb_cannot_hold_are_refused_or_mapped() {
        for name in ["a:b", "a\\b", "what?", "a*", "tab\t", "end.", "end ", "a|b", "<a>", "\"a\""] {
            assert!(to_wire(name.as_bytes(), false).is_err(), "{name}");
            let sent = to_wire(name.as_bytes(), true).unwrap();
            assert_eq!(from_wire(&sent, true), name.as_bytes());
            assert_ne!(from_wire(&sent, false), name.as_bytes());
        }
        assert!(to_wire(b"\xff", true).is_err() && to_wire("a\u{f022}".as_bytes(), true).is_err());
        assert!(to_wire(&[b'n'; 255], false).is_ok() && to_wire(&[b'n'; 256], false).is_err());
        assert_eq!(to_wire("é中 .x".as_bytes(), false), Ok("é中 .x".into()));
    }
}

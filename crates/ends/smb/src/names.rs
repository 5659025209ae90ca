//! Names on a share: text without the characters that Windows keeps for itself.

use std::borrow::Cow;

use smb2::name::{decode_name, encode_name};

/// The most UTF-16 units in a name.
const LONGEST: usize = 255;
/// The most UTF-16 units in a path.
const LONGEST_PATH: usize = 32_760;

/// Why a share cannot hold a name.
pub(super) type BadName = &'static str;

/// A name as it is sent. With `map`, characters that SMB has no place for are replaced by characters of a private range,
/// as mount.cifs(8) and macOS do.
pub(super) fn to_wire(name: &[u8], map: bool) -> Result<Cow<'_, str>, BadName> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Err("its name is no text in UTF-8, and SMB knows only text");
    };
    let sent = encode_name(text);
    if !map && sent != text {
        return Err("SMB has no place for one of the characters in its name");
    }
    if map && decode_name(&sent) != text {
        return Err("its name holds a character that stands for another one in SMB");
    }
    if sent.encode_utf16().count() > LONGEST {
        return Err("its name is longer than 255 characters");
    }
    Ok(sent)
}

/// Checks the length of a whole path.
pub(super) fn check_length(path: &str) -> Result<(), BadName> {
    if path.len() > LONGEST_PATH && path.encode_utf16().count() > LONGEST_PATH {
        return Err("its path is longer than 32,760 characters");
    }
    Ok(())
}

/// A name that the server sent.
pub(super) fn from_wire(name: &str, map: bool) -> Vec<u8> {
    if map { decode_name(name).into_owned().into_bytes() } else { name.as_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

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

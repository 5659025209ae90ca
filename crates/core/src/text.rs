//! Escaping of text from other hosts, so that it is safe to print.
//!
//! The error messages of a remote haul, a server or a store could clear the screen, set the clipboard or forge lines of
//! output. So every field with text of a peer is cleaned when it is decoded, with
//! `#[serde(deserialize_with = "shown")]`, and every [`crate::Error`] cleans its text when it is created.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Whether a terminal may act on the character, or print the following text in another order or on another line.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A count of bytes, in units of 1024: `1.50 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    bytes_rounded(count, 2)
}

/// A count of bytes, in units of 1024, with so many decimals.
#[must_use]
pub fn bytes_rounded(count: u64, decimals: usize) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = count as f64;
    let mut unit = "B";
    // A number that would be shown as 1024 is one of the next unit.
    let most = 1024.0 - 0.5 / 10_f64.powf(decimals as f64);
    for larger in units {
        if scaled < most {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, larger);
    }
    if unit == "B" { format!("{count} B") } else { format!("{scaled:.decimals$} {unit}") }
}

/// Appends the character, escaped if it is unsafe: `\xNN` for each byte of a control character, `\u{NNNN}` for others.
pub(crate) fn push_escaped(out: &mut String, c: char) {
    if !is_unsafe(c) {
        out.push(c);
    } else if c.is_control() {
        let mut utf8 = [0; 4];
        c.encode_utf8(&mut utf8).bytes().for_each(|b| out.push_str(&format!("\\x{b:02x}")));
    } else {
        out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
    }
}

/// The text on one line, with all unsafe characters escaped. Cleaning twice changes nothing.
#[must_use]
pub fn one_line<'a>(text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let text = text.into();
    if !text.chars().any(is_unsafe) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push_escaped(&mut out, c));
    Cow::Owned(out)
}

/// The text without the numbers that the standard library adds to errors of the system: ` (os error 13)`.
#[must_use]
pub fn without_errno(text: &str) -> String {
    const NUMBER: &str = " (os error ";
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(NUMBER) {
        let digits = after.trim_start_matches('-').trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(behind) = digits.strip_prefix(')') else { break };
        out.push_str(before);
        rest = behind;
    }
    out + rest
}

/// Decodes a field and cleans all text in it; for `#[serde(deserialize_with)]`.
///
/// # Errors
/// The error of the decoder.
pub fn shown<'de, D: Deserializer<'de>, T: Deserialize<'de> + Clean>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(deserializer).map(Clean::clean)
}

/// Types that [`shown`] can clean.
pub trait Clean {
    /// The value with all text cleaned by [`one_line`].
    #[must_use]
    fn clean(self) -> Self;
}

impl Clean for String {
    fn clean(self) -> Self {
        match one_line(&*self) {
            Cow::Borrowed(_) => self,
            Cow::Owned(cleaned) => cleaned,
        }
    }
}

impl<T: Clean> Clean for Option<T> {
    fn clean(self) -> Self {
        self.map(T::clean)
    }
}

impl<T: Clean> Clean for Vec<T> {
    fn clean(self) -> Self {
        self.into_iter().map(T::clean).collect()
    }
}

impl<T> Clean for Result<T, String> {
    fn clean(self) -> Self {
        self.map_err(String::clean)
    }
}

impl<A: Clean, B: Clean> Clean for (A, B) {
    fn clean(self) -> Self {
        (self.0.clean(), self.1.clean())
    }
}

impl<K: Clean + Ord, V: Clean> Clean for BTreeMap<K, V> {
    fn clean(self) -> Self {
        self.into_iter().map(Clean::clean).collect()
    }
}

/// A word quoted for a shell: plain, in single quotes, or in `$'…'` of bash, zsh and ksh if it is not text.
#[must_use]
pub fn shell_quoted(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    match std::str::from_utf8(word) {
        Ok(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let bytes = word.iter().map(|b| match b {
                b'\'' | b'\\' => format!("\\{}", char::from(*b)),
                b' '..=b'~' => char::from(*b).to_string(),
                _ => format!("\\x{b:02x}"),
            });
            format!("$'{}'", bytes.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_fits() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_572_864, "1.50 MiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(
            (bytes_rounded(1536, 1), bytes_rounded((1 << 20) - 1, 1)),
            ("1.5 KiB".into(), "1.0 MiB".into())
        );
    }

    #[test]
    fn numbers_of_the_system_are_removed() {
        let shown = std::io::Error::from_raw_os_error(13).to_string();
        assert_eq!(without_errno(&shown), "Permission denied");
        assert_eq!(
            without_errno(&format!("a ({shown}); b ({shown})")),
            "a (Permission denied); b (Permission denied)"
        );
        for text in ["", "no number", "x (os error 13", "x (os error a)"] {
            assert_eq!(without_errno(text), text);
        }
    }

    #[test]
    fn no_unsafe_character_is_left() {
        let bad = "a\x1b[2Jb\nc\r\u{9b}31m\u{9d}52;c;x\x07\u{7f}\u{202e}gpj\u{2066}\u{2028}é";
        let safe = one_line(bad);
        assert!(!safe.chars().any(is_unsafe), "{safe}");
        assert_eq!(one_line("a\x1b\n\u{9b}\u{202e}é"), "a\\x1b\\x0a\\xc2\\x9b\\u{202e}é");
        assert_eq!(one_line(safe.clone()), safe, "cleaning it again changes nothing");
        assert!(matches!(one_line("plain words, ünd more"), Cow::Borrowed(_)));
    }
}

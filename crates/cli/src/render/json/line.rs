//! JSON lines that are safe on a terminal.

use std::io;

use haul_core::text::is_unsafe;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// The value on one line, newline included. Escapes characters that control a terminal as `\uNNNN`, which is the same
/// text to every JSON parser; serde_json escapes only the characters that RFC 8259 demands.
pub(in crate::render) fn line<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(256);
    value.serialize(&mut Serializer::with_formatter(&mut text, Safe(CompactFormatter)))?;
    text.push(b'\n');
    Ok(text)
}

struct Safe(CompactFormatter);

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
            self.0.write_string_fragment(out, &rest[..at])?;
            // All of them are below U+10000.
            write!(out, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_parsed_back() {
        let text = "a\u{9b}2J\u{202e}\u{7f}\x1b\n\"\\é\u{2028}";
        let line = String::from_utf8(line(&[text]).unwrap()).unwrap();
        assert!(!line.trim_end().chars().any(is_unsafe), "{line}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&line).unwrap(), [text]);
        assert!(line.contains("é"));
    }
}

//! Strings as TOML has them.

use std::fmt::Write;

use haul_core::text::is_unsafe;

/// The text as a string of TOML on one line. Characters that a terminal may act on are escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            char if is_unsafe(char) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// A list of strings.
pub(super) fn quoted_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use toml_edit::Document;

    use super::*;

    #[test]
    fn toml_reads_the_text_back() {
        for text in ["", "a b", "'a' \"b\" \\c", "a\nb\tc\r", "\u{1}\u{7f}\u{85}\u{202e}", "äß€😀"] {
            let line = format!("x = {}", quoted(text));
            assert!(!line.contains(is_unsafe), "{line}");
            let read = Document::parse(&line).unwrap();
            assert_eq!(read.get("x").and_then(|item| item.as_str()), Some(text), "{line}");
        }
        assert_eq!(quoted_list(&["a".to_owned(), "b\\".to_owned()]), r#"["a", "b\\"]"#);
    }
}

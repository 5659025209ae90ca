//! What was done to a stream before it was stored.

use std::fmt;

use haul_codec::frame::Format;

/// The note that says it, with the object.
pub(crate) const NOTE: &str = "haul-encoding";

/// How a stream is stored. Written as the names of what was done, in that order: `zstd`, `lz4`, `age`, `zstd,age`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// First it was packed, in frames that stand alone.
    pub packed: Option<Format>,
    /// Then it was encrypted, as `age` does.
    pub encrypted: bool,
}

impl Encoding {
    /// Whether it is stored as it came.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Reads what [`fmt::Display`] wrote; `None` if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [
            (Some(Format::Zstd), false),
            (Some(Format::Lz4), false),
            (None, true),
            (Some(Format::Zstd), true),
            (Some(Format::Lz4), true),
        ];
        let bare: String = text.chars().filter(|letter| *letter != ' ').collect();
        let mut all = all.into_iter().map(|(packed, encrypted)| Self { packed, encrypted });
        all.find(|encoding| encoding.to_string() == bare)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.packed, self.encrypted) {
            (Some(format), true) => write!(f, "{format},age"),
            (Some(format), false) => write!(f, "{format}"),
            (None, true) => f.write_str("age"),
            (None, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for packed in [None, Some(Format::Zstd), Some(Format::Lz4)] {
            for encrypted in [false, true] {
                let encoding = Encoding { packed, encrypted };
                if !encoding.is_plain() {
                    assert_eq!(Encoding::parse(&encoding.to_string()), Some(encoding));
                }
            }
        }
        assert_eq!(Encoding::parse("zstd, age").map(|encoding| encoding.encrypted), Some(true));
        for other in ["", "gzip", "age,zstd", "zstd,zstd", "zstd,", "ZSTD"] {
            assert_eq!(Encoding::parse(other), None, "{other}");
        }
    }
}

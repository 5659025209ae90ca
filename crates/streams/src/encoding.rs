//! How a stream was transformed before it was stored.

use std::fmt;

use haul_codec::frame::FrameFormat;

/// The metadata key of the encoding.
pub(crate) const KEY: &str = "haul-encoding";

/// The encoding of a stored stream. Written as the names of the steps, in order: `zstd`, `lz4`, `age`, `zstd,age`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// First it was compressed, in independent frames.
    pub packed: Option<FrameFormat>,
    /// Then it was encrypted with `age`.
    pub encrypted: bool,
}

impl Encoding {
    /// Whether the stream is stored unchanged.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Parses the [`fmt::Display`] form; `None` if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [
            (Some(FrameFormat::Zstd), false),
            (Some(FrameFormat::Lz4), false),
            (None, true),
            (Some(FrameFormat::Zstd), true),
            (Some(FrameFormat::Lz4), true),
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
    fn every_encoding_round_trips_as_text() {
        for packed in [None, Some(FrameFormat::Zstd), Some(FrameFormat::Lz4)] {
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

//! The values of `--compress` of commands that transfer.

use haul_core::{Compress, Method};

/// The level of plain `zstd`, the same as that of zstd(1).
pub(crate) const LEVEL: i8 = 3;
/// Levels that zstd has: below 1 they trade size for speed, above 9 they are slow.
const LEVELS: std::ops::RangeInclusive<i8> = -50..=22;

/// Reads a value of `--compress`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_compress(text: &str) -> Result<Compress, String> {
    match text {
        "auto" => return Ok(Compress::Auto),
        "none" => return Ok(Compress::Never),
        "lz4" => return Ok(Compress::Always(Method::Lz4)),
        "zstd" => return Ok(Compress::Always(Method::Zstd(LEVEL))),
        _ => {}
    }
    let Some(level) = text.strip_prefix("zstd:") else {
        return Err(format!("`{text}` is not one of auto, none, lz4, zstd and zstd:LEVEL"));
    };
    match level.parse() {
        Ok(level) if LEVELS.contains(&level) => Ok(Compress::Always(Method::Zstd(level))),
        _ => Err(format!(
            "`{text}` is not a zstd level; levels are from {} to {}",
            LEVELS.start(),
            LEVELS.end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_compress_are_parsed() {
        let level = |level| Ok(Compress::Always(Method::Zstd(level)));
        assert_eq!(parse_compress("auto"), Ok(Compress::Auto));
        assert_eq!(parse_compress("none"), Ok(Compress::Never));
        assert_eq!(parse_compress("lz4"), Ok(Compress::Always(Method::Lz4)));
        assert_eq!(parse_compress("zstd"), level(3));
        assert_eq!(parse_compress("zstd:-5"), level(-5));
        assert_eq!(parse_compress("zstd:22"), level(22));
        for bad in
            ["", "gzip", "zstd:", "zstd:23", "zstd:-51", "zstd:x", "zstd:300", "lz4:1", "ZSTD", "auto "]
        {
            assert!(parse_compress(bad).is_err(), "{bad}");
        }
    }
}

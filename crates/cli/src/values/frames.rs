//! The values of `put --compress`.

use haul_core::{Compress, Method};

use super::compress::parse_compress;

/// Compression of a stored stream; `None`: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frames(pub(crate) Option<Method>);

/// Reads a value of `put --compress`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_frames(text: &str) -> Result<Frames, String> {
    let bad = || format!("`{text}` is not one of none, lz4, zstd and zstd:LEVEL");
    match parse_compress(text) {
        Ok(Compress::Never) => Ok(Frames(None)),
        Ok(Compress::Always(method)) => Ok(Frames(Some(method))),
        Err(cause) if text.starts_with("zstd:") => Err(cause),
        Ok(Compress::Auto) | Err(_) => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_put_compress_are_parsed() {
        assert_eq!(parse_frames("zstd:9"), Ok(Frames(Some(Method::Zstd(9)))));
        assert_eq!(parse_frames("lz4"), Ok(Frames(Some(Method::Lz4))));
        assert_eq!(parse_frames("none"), Ok(Frames(None)));
        for bad in ["auto", "gzip", "zstd:99"] {
            assert!(!parse_frames(bad).unwrap_err().is_empty(), "{bad}");
        }
    }
}

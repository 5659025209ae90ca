//! The names of temporary files at the destination, beside the final names.

use crate::path::RelPath;

/// The prefix of all staging names.
const PREFIX: &[u8] = b".haul-";
/// The suffix of staged files.
pub const PART: &[u8] = b".part";
/// The suffix of their journals.
pub const JOURNAL: &[u8] = b".journal";

/// The staging name of `name`: `.haul-`, 16 hexadecimal digits of its BLAKE3, and `suffix`.
#[must_use]
pub fn staging_name(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    let hex = blake3::hash(name).to_hex();
    [PREFIX, &hex.as_bytes()[..16], suffix].concat()
}

/// Whether the name has the form of a staging name.
#[must_use]
pub fn is_staging_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let Some(hex) = rest.strip_suffix(PART).or_else(|| rest.strip_suffix(JOURNAL)) else { return false };
    hex.len() == 16 && hex.iter().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

/// Whether a component of the path has the form of a staging name.
#[must_use]
pub fn has_staging_name(path: &RelPath) -> bool {
    // Paths can be long, and most have no such component.
    memchr::memmem::find(path.as_bytes(), PREFIX).is_some() && path.components().any(is_staging_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_staging_names_are_recognised() {
        assert!(is_staging_name(&staging_name(b"x", PART)) && is_staging_name(&staging_name(b"", JOURNAL)));
        for other in
            [&b".haul-part"[..], b".haul-0123456789abcdeX.part", b".haul-0123456789ABCDEF.part", b"x.part"]
        {
            assert!(!is_staging_name(other));
        }
    }
}

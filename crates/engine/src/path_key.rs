//! Sort keys of paths: sorted by them, a directory is directly before all that is below it.

use haul_core::RelPath;
use haul_core::path::BadPath;
use serde_bytes::ByteBuf;

/// The key of a path. As `/` is not the smallest byte of names, the paths themselves would be in another order.
pub(crate) fn path_key(path: &RelPath) -> ByteBuf {
    ByteBuf::from(replaced(path.as_bytes(), b'/', 0))
}

/// The path of a key.
///
/// # Errors
/// If it is no valid path.
pub(crate) fn path_of_key(key: &[u8]) -> Result<RelPath, BadPath> {
    RelPath::new(&replaced(key, 0, b'/'))
}

fn replaced(bytes: &[u8], from: u8, to: u8) -> Vec<u8> {
    bytes.iter().map(|byte| if *byte == from { to } else { *byte }).collect()
}

/// Whether the first key is of an entry below the directory of the second key.
pub(crate) fn is_below(key: &[u8], dir: &[u8]) -> bool {
    key.strip_prefix(dir).is_some_and(|rest| dir.is_empty() || rest.first() == Some(&0))
}

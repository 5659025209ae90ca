//! Writes manifests.

use haul_core::Digest;

/// The line of one file, the newline included.
pub(crate) fn write_line(path: &[u8], digest: &Digest) -> Vec<u8> {
    let mut line = Vec::with_capacity(path.len() + 68);
    let escaped = path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    if escaped {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.to_string().as_bytes());
    line.extend_from_slice(b"  ");
    for byte in path {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

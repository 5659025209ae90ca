//! Names of index files.

/// A file name for an index, derived from these words by a hash.
#[must_use]
pub fn name_of(words: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

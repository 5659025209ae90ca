//! Bytes that do not compress.

/// Fills `bytes` with pseudo-random content, which does not compress. `seed` determines the bytes.
pub fn fill_random(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    for part in bytes.chunks_mut(8) {
        let next = split_mix(&mut state).to_le_bytes();
        part.copy_from_slice(&next[..part.len()]);
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_do_not_compress() {
        let mut bytes = vec![0; 100_000];
        fill_random(&mut bytes, 7);
        assert!(zstd::bulk::compress(&bytes, 1).unwrap().len() > 99_000);
    }
}

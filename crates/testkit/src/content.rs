//! Pseudo-random bytes and numbers that a seed determines.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// One step of `SplitMix64` (Steele, Lea, Flood 2014): a bijection with well mixed output.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of the content of a file, from the seed of its tree and its name.
#[must_use]
pub fn key(seed: u64, name: &[u8]) -> u64 {
    name.iter().fold(mix(seed), |key, byte| mix(key ^ u64::from(*byte)))
}

/// Fills `buffer` with the content from `offset` of the file with this `key`.
pub fn fill(key: u64, offset: u64, buffer: &mut [u8]) {
    let (mut at, mut done) = (offset, 0);
    while done < buffer.len() {
        let word = mix(key ^ (at / 8)).to_le_bytes();
        let skip = (at % 8) as usize;
        let take = (8 - skip).min(buffer.len() - done);
        buffer[done..done + take].copy_from_slice(&word[skip..skip + take]);
        done += take;
        at += take as u64;
    }
}

/// The inverse of [`mix`].
fn unmix(value: u64) -> u64 {
    let mut z = value ^ (value >> 31) ^ (value >> 62);
    z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    z = z ^ (z >> 27) ^ (z >> 54);
    z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    (z ^ (z >> 30) ^ (z >> 60)).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// Whether these bytes are content of [`fill`], for any key, from an offset that is a multiple of 16.
#[must_use]
pub fn is_filled(bytes: &[u8]) -> bool {
    // Two consecutive words, whose numbers differ only in the lowest bit.
    let word = |at: usize| Some(unmix(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)));
    word(0).zip(word(8)).is_some_and(|(first, second)| first ^ second == 1)
}

/// Writes `len` bytes of the content with this `key`, from `offset`, to `out`.
///
/// # Errors
/// The errors of `out`.
pub fn write(key: u64, offset: u64, len: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        fill(key, at, &mut buffer[..part]);
        out.write_all(&buffer[..part])?;
        at += part as u64;
    }
    Ok(())
}

/// Creates a file of `len` bytes at `path`.
pub fn write_file(path: &Path, key: u64, len: u64) {
    let mut file = File::create(path).unwrap_or_else(|error| panic!("cannot make {path:?}: {error}"));
    write(key, 0, len, &mut file).unwrap_or_else(|error| panic!("cannot fill {path:?}: {error}"));
}

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The seed in the environment variable `TEST_SEED`, or one from the clock. Print it, so that a run can be
    /// repeated.
    #[must_use]
    pub fn any_seed() -> u64 {
        if let Some(seed) = std::env::var("TEST_SEED").ok().and_then(|text| text.parse().ok()) {
            return seed;
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        mix(now.as_nanos() as u64) % 1_000_000_000
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }

    /// A number in `low..high`; `low` if that range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_u64().checked_rem(high.saturating_sub(low)).unwrap_or(0)
    }

    /// One of `from`.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.between(0, from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_depends_on_the_offset_and_not_on_how_it_is_read() {
        let mut whole = vec![0; 1000];
        fill(7, 0, &mut whole);
        let mut part = vec![0; 333];
        fill(7, 501, &mut part);
        assert_eq!(part, whole[501..834]);
        assert_ne!(whole[..8], whole[8..16]);
    }

    #[test]
    fn content_is_known_again() {
        for value in [0, 1, 77, u64::MAX, 1 << 63] {
            assert_eq!(unmix(mix(value)), value);
        }
        let mut bytes = vec![0; 8192];
        fill(key(3, b"name"), 40_960, &mut bytes);
        assert!(is_filled(&bytes) && is_filled(&bytes[4096..]) && is_filled(&bytes[..16]));
        assert!(!is_filled(&bytes[8..]) && !is_filled(&bytes[1..]) && !is_filled(&bytes[..15]));
        assert!(!is_filled(&[0; 4096]));
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (5..9).contains(&random.between(5, 9))));
        assert_eq!(random.between(3, 3), 3);
    }
}

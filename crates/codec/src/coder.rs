//! The compression contexts of one thread, which are reused.

use haul_core::Method;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size as lz4_bound,
};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Bytes in one LZ4 block. LZ4 requires space for the worst case of a block, which a buffer does not have; short blocks
/// avoid that, at the cost of a few per cent of compression.
const LZ4_BLOCK: usize = 256 * 1024;
/// The length of a compressed LZ4 block, little-endian, before it.
const LZ4_HEAD: usize = 4;

/// The samples of a piece, spread over it, and bytes in each: less than 64 KiB, for which LZ4's table fits into the
/// first-level cache.
const SAMPLES: usize = 4;
const SAMPLE: usize = 16 * 1024;

/// Higher levels would use tables of up to 64 MiB for one buffer of 4 MiB.
const LIGHT: i8 = 9;
/// Their tables are limited to 8 MiB and 16 MiB.
const HASH_LOG: u32 = 21;
const CHAIN_LOG: u32 = 22;

/// Whether a method takes much more memory than others (some 25 MiB instead of at most 12).
#[must_use]
pub(crate) fn is_heavy(method: Method) -> bool {
    matches!(method, Method::Zstd(level) if level > LIGHT)
}

/// Compresses and decompresses one piece at a time.
#[derive(Default)]
pub(crate) struct Coder {
    packer: Option<(i8, Compressor<'static>)>,
    unpacker: Option<Decompressor<'static>>,
    table: CompressTable,
    /// A second table: a small one is faster for samples, and the other one stays large.
    sample_table: CompressTable,
}

impl Coder {
    /// Compresses `plain` into `into` and returns the length. `None` if it does not fit: then compression is not
    /// worthwhile.
    #[must_use]
    pub(crate) fn pack(&mut self, method: Method, plain: &[u8], into: &mut [u8]) -> Option<usize> {
        match method {
            Method::Lz4 => self.pack_lz4(plain, into),
            Method::Zstd(level) => self.zstd(level)?.compress_to_buffer(plain, into).ok(),
        }
    }

    /// Decompresses `packed` into `plain`. Writes nowhere else and allocates nothing for lengths that `packed` claims.
    /// `false` unless the result has exactly the length of `plain`.
    #[must_use]
    pub(crate) fn unpack(&mut self, method: Method, packed: &[u8], plain: &mut [u8]) -> bool {
        match method {
            Method::Lz4 => unpack_lz4(packed, plain),
            Method::Zstd(_) => {
                if self.unpacker.is_none() {
                    self.unpacker = Decompressor::new().ok();
                }
                let Some(unpacker) = &mut self.unpacker else { return false };
                unpacker.decompress_to_buffer(packed, plain).is_ok_and(|len| len == plain.len())
            }
        }
    }

    /// The ratio by which LZ4 compresses a few samples of `plain`. Takes some hundred microseconds, and ten where it
    /// finds no matches. `room` is scratch space.
    #[must_use]
    pub(crate) fn sample(&mut self, plain: &[u8], room: &mut [u8]) -> f64 {
        let (mut before, mut after) = (0, 0);
        let stride = (plain.len() / SAMPLES).max(SAMPLE);
        for start in (0..SAMPLES).map(|number| number * stride) {
            let Some(sample) = plain.get(start..plain.len().min(start + SAMPLE)) else { break };
            let Some(room) = room.get_mut(..lz4_bound(sample.len())) else { break };
            let Ok(len) = compress_into_with_table(sample, room, &mut self.sample_table) else { break };
            before += sample.len();
            after += len;
        }
        if after == 0 { 1.0 } else { before as f64 / after as f64 }
    }

    fn zstd(&mut self, level: i8) -> Option<&mut Compressor<'static>> {
        if self.packer.as_ref().is_none_or(|(is, _)| *is != level) {
            let mut packer = match self.packer.take() {
                Some((_, packer)) => packer,
                None => Compressor::new(level.into()).ok()?,
            };
            packer.set_compression_level(level.into()).ok()?;
            // 0 keeps the default of the level.
            let (hash, chain) = if level > LIGHT { (HASH_LOG, CHAIN_LOG) } else { (0, 0) };
            packer.set_parameter(CParameter::HashLog(hash)).ok()?;
            packer.set_parameter(CParameter::ChainLog(chain)).ok()?;
            self.packer = Some((level, packer));
        }
        self.packer.as_mut().map(|(_, packer)| packer)
    }

    fn pack_lz4(&mut self, plain: &[u8], into: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        for block in plain.chunks(LZ4_BLOCK) {
            let (head, room) = into.get_mut(at..)?.split_at_mut_checked(LZ4_HEAD)?;
            let room = room.get_mut(..lz4_bound(block.len()))?;
            let len = compress_into_with_table(block, room, &mut self.table).ok()?;
            head.copy_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
            at += LZ4_HEAD + len;
        }
        Some(at)
    }
}

fn unpack_lz4(mut packed: &[u8], plain: &mut [u8]) -> bool {
    for block in plain.chunks_mut(LZ4_BLOCK) {
        let Some((head, rest)) = packed.split_first_chunk::<LZ4_HEAD>() else { return false };
        let Some((body, rest)) = rest.split_at_checked(u32::from_le_bytes(*head) as usize) else {
            return false;
        };
        if !decompress_into(body, block).is_ok_and(|len| len == block.len()) {
            return false;
        }
        packed = rest;
    }
    packed.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    const METHODS: [Method; 6] =
        [Method::Lz4, Method::Zstd(-5), Method::Zstd(1), Method::Zstd(9), Method::Zstd(12), Method::Zstd(19)];

    /// Words of a small vocabulary: `seed`, repeated with variations.
    fn text(seed: &[u8], len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut text = Vec::with_capacity(len + 64);
        while text.len() < len {
            let from = next() % (seed.len().max(2) - 1);
            let to = (from + 1 + next() % 20).min(seed.len());
            text.extend_from_slice(seed.get(from..to).unwrap_or(b"x"));
            text.push(b' ');
        }
        text.truncate(len);
        text
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

        #[test]
        fn packed_content_is_unpacked(seed in vec(any::<u8>(), 1..200), len in 1_usize..300_000) {
            let plain = text(&seed, len);
            let (mut packed, mut back) = (vec![0; len + 1024], vec![1; len]);
            let mut coder = Coder::default();
            for method in METHODS {
                if let Some(size) = coder.pack(method, &plain, &mut packed) {
                    prop_assert!(coder.unpack(method, &packed[..size], &mut back), "{}", method);
                    prop_assert_eq!(&back, &plain);
                    // A wrong length is refused.
                    prop_assert!(!coder.unpack(method, &packed[..size], &mut back[..len - 1]));
                    prop_assert!(!coder.unpack(method, &packed[..size - 1], &mut back));
                }
            }
        }

        #[test]
        fn any_bytes_may_come(packed in vec(any::<u8>(), 0..3000), len in 1_usize..5000) {
            let mut plain = vec![0; len];
            for method in METHODS {
                let _ = Coder::default().unpack(method, &packed, &mut plain);
            }
        }

        #[test]
        fn damage_is_survived(at in any::<proptest::sample::Index>(), xor in 1_u8..) {
            let plain = text(b"all that is packed may be damaged on its way", 300_000);
            let (mut packed, mut back) = (vec![0; 300_000], vec![0; 300_000]);
            let mut coder = Coder::default();
            for method in [Method::Lz4, Method::Zstd(3)] {
                let size = coder.pack(method, &plain, &mut packed).unwrap();
                let at = at.index(size);
                packed[at] ^= xor;
                let _ = coder.unpack(method, &packed[..size], &mut back);
            }
        }
    }

    #[test]
    fn content_longer_than_declared_is_refused() {
        // A frame with 200 MiB of zeros has a few kilobytes.
        let huge = zstd::bulk::compress(&vec![0; 200 << 20], 1).unwrap();
        let mut plain = vec![0; 1000];
        let mut coder = Coder::default();
        assert!(!coder.unpack(Method::Zstd(1), &huge, &mut plain));
        // A truncated LZ4 block, and one that exceeds its share when decompressed.
        assert!(!coder.unpack(Method::Lz4, &[255, 255, 255, 255, 0], &mut plain));
        let mut long = vec![0; 100_000];
        let len = coder.pack(Method::Lz4, &vec![7; 200_000], &mut long);
        assert!(len.is_none_or(|len| !coder.unpack(Method::Lz4, &long[..len], &mut plain)));
    }

    #[test]
    fn incompressible_content_is_reported() {
        let mut plain = vec![0; 1 << 20];
        let mut state = 7_u64;
        for bytes in plain.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes());
        }
        let mut into = vec![0; plain.len() - plain.len() / 32];
        for method in METHODS {
            assert_eq!(Coder::default().pack(method, &plain, &mut into), None, "{method}");
        }
    }

    #[test]
    fn contexts_stay_small() {
        let plain = text(b"the quick brown fox jumps over the lazy dog", 4 << 20);
        let mut into = vec![0; 4 << 20];
        let mut coder = Coder::default();
        for level in [-5, 1, 5, 9, 12, 15, 19, 22] {
            coder.pack(Method::Zstd(level), &plain, &mut into).unwrap();
            let size = coder.packer.as_mut().unwrap().1.context_mut().sizeof();
            let most = if level > LIGHT { 28 << 20 } else { 12 << 20 };
            assert!(size <= most, "zstd:{level} takes {size}");
        }
    }
}

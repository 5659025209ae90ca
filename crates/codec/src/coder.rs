//! One thread's tools: contexts of zstd and lz4 that are used again and again.

use haul_core::Method;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size as lz4_bound,
};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Bytes that become one LZ4 block. LZ4 wants room for the worst case of a block ahead of it, and a buffer has none
/// to spare: with blocks of this length that costs nothing but the last gain of a few per cent.
const LZ4_BLOCK: usize = 256 * 1024;
/// The length of a packed LZ4 block, little-endian, before it.
const LZ4_HEAD: usize = 4;

/// How many samples tell what a piece is like, spread over it, and bytes in each: less than 64 KiB, for which LZ4 has
/// a table that stays in the processor's first cache.
const SAMPLES: usize = 4;
const SAMPLE: usize = 16 * 1024;

/// Levels above this one would take tables of up to 64 MiB for one buffer of 4 MiB.
const LIGHT: i8 = 9;
/// Their tables are held to this: 8 MiB and 16 MiB.
const HASH_LOG: u32 = 21;
const CHAIN_LOG: u32 = 22;

/// Whether a method takes much more memory than others (some 25 MiB instead of at most 12).
#[must_use]
pub(crate) fn is_heavy(method: Method) -> bool {
    matches!(method, Method::Zstd(level) if level > LIGHT)
}

/// Packs and unpacks, one piece at a time.
#[derive(Default)]
pub(crate) struct Coder {
    packer: Option<(i8, Compressor<'static>)>,
    unpacker: Option<Decompressor<'static>>,
    table: CompressTable,
    /// Another one, as a small table is quicker for samples and a large one stays large.
    sample_table: CompressTable,
}

impl Coder {
    /// Packs `plain` into `into` and gives how many bytes it became. `None` if they do not fit: then `plain` is not
    /// worth it.
    #[must_use]
    pub(crate) fn pack(&mut self, method: Method, plain: &[u8], into: &mut [u8]) -> Option<usize> {
        match method {
            Method::Lz4 => self.pack_lz4(plain, into),
            Method::Zstd(level) => self.zstd(level)?.compress_to_buffer(plain, into).ok(),
        }
    }

    /// Unpacks `packed` into `plain`. Writes nowhere else and takes no memory for what `packed` claims to be.
    /// `false` unless it is exactly as long as `plain`.
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

    /// How many times smaller LZ4 makes a few samples of `plain`; a matter of some hundred microseconds, and of ten
    /// where nothing is found. `room` is for what becomes of them.
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
            // 0 is what the level says.
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

    /// Words of a small vocabulary: what `seed` says, repeated with variations.
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
        fn what_was_packed_is_unpacked(seed in vec(any::<u8>(), 1..200), len in 1_usize..300_000) {
            let plain = text(&seed, len);
            let (mut packed, mut back) = (vec![0; len + 1024], vec![1; len]);
            let mut coder = Coder::default();
            for method in METHODS {
                if let Some(size) = coder.pack(method, &plain, &mut packed) {
                    prop_assert!(coder.unpack(method, &packed[..size], &mut back), "{}", method);
                    prop_assert_eq!(&back, &plain);
                    // And nothing else is taken for it.
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
    fn what_holds_more_than_was_told_is_refused() {
        // A frame of 200 MiB of zeroes is some kilobytes.
        let huge = zstd::bulk::compress(&vec![0; 200 << 20], 1).unwrap();
        let mut plain = vec![0; 1000];
        let mut coder = Coder::default();
        assert!(!coder.unpack(Method::Zstd(1), &huge, &mut plain));
        // An LZ4 block that is longer than what there is, and one that unpacks to more than its share.
        assert!(!coder.unpack(Method::Lz4, &[255, 255, 255, 255, 0], &mut plain));
        let mut long = vec![0; 100_000];
        let len = coder.pack(Method::Lz4, &vec![7; 200_000], &mut long);
        assert!(len.is_none_or(|len| !coder.unpack(Method::Lz4, &long[..len], &mut plain)));
    }

    #[test]
    fn what_does_not_get_smaller_is_told() {
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

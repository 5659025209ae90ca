//! How large each part is: small at the beginning, so that a short stream has little to wait for, and growing, so
//! that the store's largest object fits into as many parts as it takes, without a hint of the length.

/// The first parts, in bytes. S3 takes no less than 5 MiB but for the last one.
const FIRST: u64 = 8 << 20;

/// A part may be no larger, in bytes: 4,000 MiB as Azure documents; AWS and Google take 5 GiB.
const LARGEST: u64 = 4000 << 20;

/// The sizes of the parts of a stream. They depend on nothing but the number of parts that the store takes: a later
/// run cuts the same stream at the same places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    max_parts: u32,
}

impl Plan {
    /// For a store that takes so many parts.
    pub(super) fn new(max_parts: u32) -> Self {
        Self { max_parts: max_parts.max(1) }
    }

    /// The size in bytes of the part with this number, from 1; `None` beyond the last one.
    ///
    /// A tenth of the parts have 8 MiB, a tenth 16 MiB, half of them 32 MiB (so far 180 GiB of 10,000 parts); then
    /// they double with every 3 % of the parts, up to 4,000 MiB.
    pub(super) fn size(self, number: u32) -> Option<u64> {
        if number == 0 || number > self.max_parts {
            return None;
        }
        let per_mille = u64::from(number - 1) * 1000 / u64::from(self.max_parts);
        let doublings = match per_mille {
            0..100 => 0,
            100..200 => 1,
            200..700 => 2,
            _ => 3 + (per_mille - 700) / 30,
        };
        Some((FIRST << doublings.min(10)).min(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(max_parts: u32) -> u64 {
        (1..=max_parts).map(|number| Plan::new(max_parts).size(number).unwrap()).sum()
    }

    #[test]
    fn the_largest_object_fits_into_as_many_parts_as_there_may_be() {
        assert!(capacity(10_000) > 5 << 40, "{}", capacity(10_000));
        // Azure's largest blob: 50,000 times 4,000 MiB would be 190 TiB; a stream has 28 TiB.
        assert!(capacity(50_000) > 28 << 40, "{}", capacity(50_000));
        assert!(Plan::new(10_000).size(10_001).is_none() && Plan::new(10_000).size(0).is_none());
    }

    #[test]
    fn parts_never_shrink_and_begin_small() {
        for max_parts in [1, 20, 1000, 10_000] {
            let sizes: Vec<u64> = (1..=max_parts).map(|n| Plan::new(max_parts).size(n).unwrap()).collect();
            assert!(sizes.is_sorted() && sizes[0] == 8 << 20 && sizes.iter().all(|size| *size <= LARGEST));
        }
        // What needs no disk: parts that fit into memory.
        let in_memory: u64 = (1..=7000).map(|n| Plan::new(10_000).size(n).unwrap()).sum();
        assert!(in_memory > 170 << 30);
        // 20 parts: a GiB takes less.
        assert!(capacity(19) > 1 << 30);
    }
}

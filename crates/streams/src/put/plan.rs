//! The sizes of the parts of a stream of unknown length: small at first, so that a short stream waits for little, then
//! growing, so that the store's largest object fits into as many parts as it accepts.

use haul_core::SLICE_LEN;

/// The size of the first parts in bytes. S3 requires 5 MiB, except for the last part.
const FIRST: u64 = 8 << 20;

/// The largest part in bytes: 4,000 MiB at Azure; AWS and Google accept 5 GiB.
const LARGEST: u64 = 4000 << 20;

/// The sizes of the parts of a stream. They depend only on the number of parts that the store accepts, so a later run
/// cuts the same stream at the same offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartPlan {
    /// `None`: the parts are the slices of a file.
    max_parts: Option<u32>,
}

impl PartPlan {
    /// For a store that accepts so many parts.
    pub(super) fn new(max_parts: u32) -> Self {
        Self { max_parts: Some(max_parts.max(1)) }
    }

    /// For files: each part is a slice.
    pub(super) fn slices() -> Self {
        Self { max_parts: None }
    }

    /// Whether each part is a slice of a file.
    pub(super) fn is_of_slices(self) -> bool {
        self.max_parts.is_none()
    }

    /// The size in bytes of the part with this number, from 1; `None` beyond the last one.
    ///
    /// A tenth of the parts have 8 MiB, a tenth 16 MiB, half of them 32 MiB (180 GiB of 10,000 parts so far); then the
    /// size doubles with every 3 % of the parts, up to 4,000 MiB.
    pub(super) fn size(self, number: u32) -> Option<u64> {
        let Some(max_parts) = self.max_parts else { return (number < u32::MAX).then_some(SLICE_LEN) };
        if number == 0 || number > max_parts {
            return None;
        }
        let per_mille = u64::from(number - 1) * 1000 / u64::from(max_parts);
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
        (1..=max_parts).map(|number| PartPlan::new(max_parts).size(number).unwrap()).sum()
    }

    #[test]
    fn the_largest_object_fits_into_the_largest_number_of_parts() {
        assert!(capacity(10_000) > 5 << 40, "{}", capacity(10_000));
        // Azure's largest blob has 50,000 times 4,000 MiB, 190 TiB; a stream may have 28 TiB.
        assert!(capacity(50_000) > 28 << 40, "{}", capacity(50_000));
        assert!(PartPlan::new(10_000).size(10_001).is_none() && PartPlan::new(10_000).size(0).is_none());
    }

    #[test]
    fn parts_begin_small_and_never_shrink() {
        for max_parts in [1, 20, 1000, 10_000] {
            let sizes: Vec<u64> =
                (1..=max_parts).map(|n| PartPlan::new(max_parts).size(n).unwrap()).collect();
            assert!(sizes.is_sorted() && sizes[0] == 8 << 20 && sizes.iter().all(|size| *size <= LARGEST));
        }
        // Parts that fit into memory need no disk.
        let in_memory: u64 = (1..=7000).map(|n| PartPlan::new(10_000).size(n).unwrap()).sum();
        assert!(in_memory > 170 << 30);
        // Of 20 parts, 19 hold more than a GiB.
        assert!(capacity(19) > 1 << 30);
    }
}

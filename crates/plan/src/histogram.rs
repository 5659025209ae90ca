//! A histogram of file sizes, in steps of four.

/// The files larger than the previous bucket's limit, up to [`SizeBucket::up_to`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeBucket {
    /// The largest size in this bucket in bytes: 0, then 1 KiB, 4 KiB, 16 KiB and so on.
    pub up_to: u64,
    /// Number of files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Empty files, then steps of four from 1 KiB to 1 KiB × 4²⁶; the last bucket is unlimited.
const BUCKETS: usize = 29;

pub(crate) struct Histogram([SizeBucket; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        let mut buckets = [SizeBucket::default(); BUCKETS];
        for (at, bucket) in buckets.iter_mut().enumerate().skip(1) {
            bucket.up_to = if at + 1 == BUCKETS { u64::MAX } else { 1024 << (2 * (at - 1)) };
        }
        Self(buckets)
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, len: u64) {
        let at = self.0.partition_point(|bucket| bucket.up_to < len).min(BUCKETS - 1);
        self.0[at].files += 1;
        self.0[at].bytes += len;
    }

    /// The buckets from the first to the last that is not empty.
    pub(crate) fn into_buckets(self) -> Vec<SizeBucket> {
        let holds = |bucket: &SizeBucket| bucket.files > 0;
        let first = self.0.iter().position(holds).unwrap_or(BUCKETS);
        let last = self.0.iter().rposition(holds).map_or(first, |last| last + 1);
        self.0.get(first..last).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_in_one_bucket() {
        let mut histogram = Histogram::default();
        for len in [1, 1024, 1025, 4096, 70_000] {
            histogram.add(len);
        }
        let found: Vec<_> = histogram.into_buckets().iter().map(|b| (b.up_to, b.files, b.bytes)).collect();
        assert_eq!(
            found,
            [(1024, 2, 1025), (4096, 2, 5121), (16 << 10, 0, 0), (64 << 10, 0, 0), (256 << 10, 1, 70_000)]
        );
        let mut ends = Histogram::default();
        ends.add(0);
        ends.add(u64::MAX);
        let buckets = ends.into_buckets();
        assert_eq!((buckets.len(), buckets[0].files, buckets[BUCKETS - 1].files), (BUCKETS, 1, 1));
        assert!(Histogram::default().into_buckets().is_empty());
    }
}

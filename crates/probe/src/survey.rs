//! Counts a tree and picks a sample of it.

use std::collections::HashSet;

use haul_core::entry::EntryKind;
use haul_core::probe::ReadSample;
use haul_core::{Entry, RelPath, ScanBatch};
use serde::Serialize;

use crate::random::split_mix;

/// The largest small file in bytes: its cost is mostly its name.
pub const SMALL: u64 = 1024 * 1024;

/// Small files in a sample.
const SMALL_SAMPLES: usize = 512;
/// Parts of large files in a sample, and the bytes in each.
const LARGE_SAMPLES: usize = 64;
const PART: u64 = 4 * 1024 * 1024;
/// Inodes of hard-linked files that are remembered, so that their content counts once.
const INODES: usize = 1_000_000;

/// Counts of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeCounts {
    /// Entries of any kind.
    pub entries: u64,
    /// Files; a hard-linked file counts once.
    pub files: u64,
    /// Bytes of content in files, without holes.
    pub bytes: u64,
    /// Small files, see [`SMALL`].
    pub small_files: u64,
    /// Bytes in small files.
    pub small_bytes: u64,
    /// Bytes in the largest file.
    pub largest: u64,
    /// Entries that could not be read.
    pub errors: u64,
}

/// Counts a tree as it is scanned, and picks a sample for the measurement.
#[derive(Default)]
pub struct Survey {
    counts: TreeCounts,
    seen: HashSet<(u64, u64)>,
    small: Vec<(RelPath, u64)>,
    /// Large files with their sampling keys, the largest key first.
    large: Vec<(f64, RelPath, u64)>,
    random: u64,
}

impl Survey {
    /// Counts a batch of a scan.
    pub fn add(&mut self, batch: &ScanBatch) {
        self.counts.errors += batch.errors.len() as u64;
        for entry in &batch.entries {
            self.counts.entries += 1;
            if entry.kind == EntryKind::File && self.is_new(entry) {
                self.add_file(entry);
            }
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> TreeCounts {
        self.counts
    }

    /// The sample in random order: parts of large files, weighted by size, and whole small files.
    #[must_use]
    pub fn samples(&self) -> Vec<ReadSample> {
        let each = LARGE_SAMPLES.div_ceil(self.large.len().max(1));
        let large = self.large.iter().flat_map(|(_, path, len)| {
            let parts = (len / PART).clamp(1, each as u64);
            (0..parts).map(move |part| {
                // Evenly over the file, aligned to slices.
                let offset = (len / parts * part) / PART * PART;
                ReadSample { path: path.clone(), offset, len: PART as u32, small: false }
            })
        });
        let small = self.small.iter().map(|(path, len)| {
            let len = u32::try_from(*len).unwrap_or(u32::MAX);
            ReadSample { path: path.clone(), offset: 0, len, small: true }
        });
        let mut large: Vec<ReadSample> = large.collect();
        // In random order, so that the time is shared when it runs out.
        let mut state = self.random ^ 1;
        for at in (1..large.len()).rev() {
            large.swap(at, (split_mix(&mut state) % (at as u64 + 1)) as usize);
        }
        large.truncate(LARGE_SAMPLES);
        large.extend(small);
        large
    }

    fn is_new(&mut self, entry: &Entry) -> bool {
        entry.nlink < 2 || self.seen.len() >= INODES || self.seen.insert((entry.dev, entry.ino))
    }

    fn add_file(&mut self, entry: &Entry) {
        // Holes are not sent. Compressed or inline files have fewer blocks too, but cannot be distinguished here.
        let bytes = if entry.len <= SMALL { entry.len } else { entry.len.min(entry.allocated) };
        self.counts.files += 1;
        self.counts.bytes += bytes;
        self.counts.largest = self.counts.largest.max(entry.len);
        if entry.len > SMALL {
            self.sample_large(entry);
            return;
        }
        self.counts.small_files += 1;
        self.counts.small_bytes += bytes;
        // Reservoir sampling (Vitter's algorithm R): all small files have the same probability.
        if self.small.len() < SMALL_SAMPLES {
            self.small.push((entry.path.clone(), entry.len));
        } else {
            let at = (split_mix(&mut self.random) % self.counts.small_files) as usize;
            if let Some(slot) = self.small.get_mut(at) {
                *slot = (entry.path.clone(), entry.len);
            }
        }
    }

    /// Algorithm A-ES of Efraimidis and Spirakis: the probability of a file grows with its size.
    fn sample_large(&mut self, entry: &Entry) {
        let unit = (split_mix(&mut self.random) >> 11) as f64 / (1_u64 << 53) as f64;
        let key = unit.max(f64::MIN_POSITIVE).ln() / entry.len as f64;
        let at = self.large.partition_point(|(known, _, _)| *known >= key);
        if at < LARGE_SAMPLES {
            self.large.insert(at, (key, entry.path.clone(), entry.len));
            self.large.truncate(LARGE_SAMPLES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::probe::MAX_SAMPLES;

    fn file(name: &str, len: u64, ino: u64, nlink: u32) -> Entry {
        let path = RelPath::new(name.as_bytes()).unwrap();
        Entry { dev: 1, ino, nlink, ..Entry::new(path, EntryKind::File, len) }
    }

    fn survey(entries: Vec<Entry>) -> Survey {
        let mut survey = Survey::default();
        survey.add(&ScanBatch { entries, ..ScanBatch::default() });
        survey
    }

    #[test]
    fn hard_linked_content_counts_once_and_holes_do_not_count() {
        let dir = Entry { kind: EntryKind::Dir, ..file("d", 0, 9, 3) };
        let sparse = Entry { allocated: 4 << 20, ..file("d/sparse", 1 << 30, 3, 1) };
        let survey = survey(vec![dir, file("d/a", 100, 1, 2), file("d/b", 100, 1, 2), sparse]);
        let counts = survey.counts();
        assert_eq!((counts.entries, counts.files, counts.bytes), (4, 2, 100 + (4 << 20)));
        assert_eq!((counts.small_files, counts.small_bytes, counts.largest), (1, 100, 1 << 30));
    }

    #[test]
    fn samples_are_bounded_and_of_existing_files() {
        let small = (0..5000).map(|n| file(&format!("s{n}"), 1000, n, 1));
        let large = (0..200).map(|n| file(&format!("l{n}"), 5 << 20, 9000 + n, 1));
        let samples = survey(small.chain(large).collect()).samples();
        assert!(samples.len() <= MAX_SAMPLES);
        assert_eq!(samples.iter().filter(|sample| sample.small).count(), SMALL_SAMPLES);
        assert_eq!(samples.iter().filter(|sample| !sample.small).count(), LARGE_SAMPLES);
        assert!(survey(Vec::new()).samples().is_empty());
    }

    #[test]
    fn one_large_file_is_sampled_in_many_places() {
        let len = 1_u64 << 40;
        let samples = survey(vec![file("", len, 1, 1)]).samples();
        assert_eq!(samples.len(), LARGE_SAMPLES);
        let mut offsets: Vec<u64> = samples.iter().map(|sample| sample.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), LARGE_SAMPLES);
        assert!(offsets.iter().all(|offset| offset + PART <= len));
    }

    #[test]
    fn large_files_are_sampled_by_size() {
        let many = (0..1000).map(|n| file(&format!("m{n}"), 2 << 20, n, 1));
        let large_files = (0..10).map(|n| file(&format!("g{n}"), 1 << 40, 5000 + n, 1));
        let samples = survey(many.chain(large_files).collect()).samples();
        let of_large_files = samples.iter().filter(|sample| sample.path.as_bytes().starts_with(b"g"));
        let mut names: Vec<&[u8]> = of_large_files.map(|sample| sample.path.as_bytes()).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() >= 9, "{names:?}");
    }
}

//! Hashes every file of a source.

use crossbeam_channel::Sender;
use haul_core::{Digest, Entry, RelPath, Report, Reporter, Result, ScanOptions, Source};

use crate::cancel::Cancel;
use crate::hashing::Hashing;
use crate::inspect::Inspection;
use crate::meter::Meter;
use crate::page_report::report_pages;

/// How files are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// As b3sum does.
    #[default]
    Blake3,
    /// As sha256sum does.
    Sha256,
}

impl Algorithm {
    /// The digests of files of a source.
    ///
    /// # Errors
    /// As [`Source::digest`].
    pub(crate) fn digests(self, source: &dyn Source, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        Ok(match self {
            Self::Blake3 => source.digest(paths)?,
            Self::Sha256 => {
                let digests = source.sha256(paths)?.into_iter();
                digests.map(|digest| digest.map(|digest| Digest(digest.sha256))).collect()
            }
        })
    }
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLine {
    /// The file, relative to the root. The root itself if the source is one file.
    pub path: RelPath,
    /// Its digest.
    pub digest: Digest,
}

/// Hashes every file of the source. Calls `line` with each digest, in no particular order; an error of `line` ends the
/// run.
pub fn hash(
    source: &dyn Source,
    scan: &ScanOptions,
    algorithm: Algorithm,
    line: &mut dyn FnMut(HashLine) -> Result<()>,
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ends = [source];
    let hashing = Hashing::new(&ends);
    let ask = |entries: Vec<Entry>, lines: &Sender<HashLine>| -> Result<()> {
        let files: Vec<Entry> = entries.into_iter().filter(Entry::is_file).collect();
        let paths: Vec<RelPath> = files.iter().map(|entry| entry.path.clone()).collect();
        let bytes = files.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.len));
        let digests = hashing.count(bytes, || algorithm.digests(source, &paths))?;
        for (entry, digest) in files.into_iter().zip(digests) {
            match digest {
                Ok(digest) => {
                    meter.totals().same(entry.len);
                    drop(lines.send(HashLine { path: entry.path, digest }));
                }
                Err(error) => meter.fail(&entry.path, error),
            }
        }
        Ok(())
    };
    let (streams, hashing) = (source.streams(), Some(&hashing));
    Inspection { meter: &meter, source, scan, listed: None, cancel, streams, hashing }.run(&ask, line);
    let pages = report_pages(&meter, [source.page_report(), Ok(None)]);
    Report { pages, ..Inspection::report(&meter, cancel) }
}

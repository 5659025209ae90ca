//! Hashes every file of a source.

use crossbeam_channel::Sender;
use haul_core::{Digest, Entry, RelPath, Report, Reporter, Result, ScanOptions, Source};

use crate::cancel::Cancel;
use crate::inspect::Inspection;
use crate::meter::Meter;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLine {
    /// The file, relative to the root. The root itself if the source is one file.
    pub path: RelPath,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Hashes every file of the source. Calls `line` with each digest, in no particular order; an error of `line` ends the
/// run.
pub fn hash(
    source: &dyn Source,
    scan: &ScanOptions,
    line: &mut dyn FnMut(HashLine) -> Result<()>,
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ask = |entries: Vec<Entry>, lines: &Sender<HashLine>| -> Result<()> {
        let files: Vec<Entry> = entries.into_iter().filter(Entry::is_file).collect();
        let paths: Vec<RelPath> = files.iter().map(|entry| entry.path.clone()).collect();
        for (entry, digest) in files.into_iter().zip(source.digest(&paths)?) {
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
    Inspection { meter: &meter, source, scan, cancel, streams: source.streams() }.run(&ask, line);
    Inspection::report(&meter, cancel)
}

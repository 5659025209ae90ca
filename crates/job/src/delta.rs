//! The decision which large files of a job are compared by blocks with the version at the destination.

use haul_core::{Delta, SinkOptions};

/// How a job compares large files by blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaPlan {
    /// The mode of the destination.
    pub(crate) mode: Delta,
    /// The engine compares files by blocks if the destination agrees.
    pub(crate) compares: bool,
    /// The source is hashed while the login to the destination lasts: the user expects large files that changed in
    /// part.
    pub(crate) prehashes: bool,
}

impl DeltaPlan {
    /// Decides for a job with these options; `all_local`: no data is sent over a connection.
    pub(crate) fn of(options: &SinkOptions, all_local: bool) -> Self {
        let mode = match options.delta {
            // Nothing is sent: to read the old version too pays only where that saves writes.
            Delta::Alike if all_local => Delta::Sharing,
            mode => mode,
        };
        let compares = mode != Delta::Never && !options.dry_run;
        Self { mode, compares, prehashes: compares && (options.in_place || mode == Delta::Always) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(delta: Delta, in_place: bool, dry_run: bool, all_local: bool) -> (Delta, bool, bool) {
        let options = SinkOptions { delta, in_place, dry_run, ..SinkOptions::default() };
        let DeltaPlan { mode, compares, prehashes } = DeltaPlan::of(&options, all_local);
        (mode, compares, prehashes)
    }

    #[test]
    fn auto_compares_local_copies_only_where_that_saves_writes() {
        assert_eq!(plan(Delta::Alike, false, false, true), (Delta::Sharing, true, false));
        assert_eq!(plan(Delta::Alike, false, false, false), (Delta::Alike, true, false));
        assert_eq!(plan(Delta::Always, false, false, true), (Delta::Always, true, true));
    }

    #[test]
    fn a_dry_run_and_off_compare_nothing() {
        assert_eq!(plan(Delta::Always, true, true, false), (Delta::Always, false, false));
        assert_eq!(plan(Delta::Never, true, false, false), (Delta::Never, false, false));
    }

    #[test]
    fn sources_are_hashed_early_if_large_files_probably_changed_in_part() {
        assert!(plan(Delta::Alike, true, false, false).2);
        assert!(plan(Delta::Always, false, false, false).2);
        assert!(!plan(Delta::Alike, false, false, false).2);
    }
}

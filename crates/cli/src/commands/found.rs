//! Progress of a scan.

use std::time::Instant;

use haul_core::{Progress, Totals};
use haul_job::Observer;

use crate::render::Console;

/// Shows the entries and bytes found so far.
pub(super) fn show_found(console: &Console, since: Instant, entries: u64, bytes: u64) {
    console.progress(&Progress {
        totals: Totals { found: entries, found_bytes: bytes, ..Totals::default() },
        seconds: since.elapsed().as_secs_f64(),
        ..Progress::default()
    });
}

//! Progress of a scan.

use std::time::Instant;

use haul_core::{Limit, Progress, Totals};
use haul_job::Observer;

use crate::render::Console;

/// Shows the entries and bytes found so far.
pub(super) fn show_found(console: &Console, since: Instant, entries: u64, bytes: u64) {
    console.progress(&Progress {
        totals: Totals { found: entries, found_bytes: bytes, ..Totals::default() },
        scan_done: false,
        seconds: since.elapsed().as_secs_f64(),
        rate: 0.0,
        streams: 0,
        method: None,
        tcp: None,
        limit: Limit::Scan,
        eta_seconds: None,
    });
}

//! The text of progress, and where it is shown.

use haul_core::{HeldBy, Limit, Progress};
use indicatif::HumanCount;

use super::wording::{bytes, count, duration, entries, limit, rate};

/// A place where progress is shown.
pub(super) trait Gauge: Send + Sync {
    /// Shows the progress.
    fn show(&self, progress: &Progress);
    /// Runs `print` while the progress is hidden.
    fn aside(&self, print: &mut dyn FnMut());
    /// Removes the progress for good.
    fn close(&self);
}

/// No progress.
pub(super) struct NoGauge;

impl Gauge for NoGauge {
    fn show(&self, _progress: &Progress) {}

    fn aside(&self, print: &mut dyn FnMut()) {
        print();
    }

    fn close(&self) {}
}

/// Bytes of content at the destination or in flight.
fn done_bytes(progress: &Progress) -> u64 {
    let totals = &progress.totals;
    totals.same_bytes
        + totals.copied_bytes.max(totals.sent_bytes + totals.matched_bytes + totals.resumed_bytes)
}

/// Entries and bytes done.
pub(super) fn amount(progress: &Progress) -> String {
    let totals = &progress.totals;
    let done = totals.copied + totals.made + totals.linked + totals.updated + totals.same + totals.left;
    let more = if progress.scan_done { "" } else { "…" };
    let mut parts = vec![format!("{} of {}{more}", HumanCount(done), entries(totals.found))];
    let at = done_bytes(progress).min(totals.found_bytes);
    parts.push(format!("{} of {}{more}", bytes(at), bytes(totals.found_bytes)));
    if let Some(percent) = (at * 100).checked_div(totals.found_bytes).filter(|_| progress.scan_done) {
        parts.push(format!("{percent}%"));
    }
    if totals.failed > 0 {
        parts.push(format!("{} failed", HumanCount(totals.failed)));
    }
    parts.join(" · ")
}

/// Rate, remaining time, connections and bottleneck.
pub(super) fn pace(progress: &Progress) -> String {
    let mut parts = vec![rate(progress.rate)];
    if let Some(seconds) = progress.eta_seconds {
        let least = if progress.scan_done { "" } else { "at least " };
        parts.push(format!("{least}{} left", duration(seconds)));
    }
    if progress.streams > 0 {
        parts.push(count(u64::from(progress.streams), "stream", "streams"));
    }
    parts.extend(progress.method.map(|method| method.to_string()));
    let held_by = progress.tcp.and_then(|tcp| tcp.held_by).filter(|_| progress.limit == Limit::Link);
    let why = match held_by {
        None => "",
        Some(HeldBy::Window) => " (receive window of the other host)",
        Some(HeldBy::Buffer) => " (send buffer)",
    };
    parts.push(format!("limit: {}{why}", limit(progress.limit)));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Method, Tcp, Totals};

    #[test]
    fn progress_shows_only_known_values() {
        let totals = Totals {
            found: 4,
            found_bytes: 4096,
            copied: 1,
            copied_bytes: 1024,
            sent_bytes: 2048,
            ..Totals::default()
        };
        let mut progress = Progress {
            totals,
            scan_done: false,
            seconds: 1.0,
            rate: 1024.0,
            streams: 8,
            method: Some(Method::Zstd(3)),
            tcp: None,
            limit: Limit::Link,
            eta_seconds: Some(10.0),
        };
        assert_eq!(amount(&progress), "1 of 4 entries… · 2.00 KiB of 4.00 KiB…");
        assert_eq!(pace(&progress), "1.00 KiB/s · at least 10.0 s left · 8 streams · zstd:3 · limit: link");
        let held_by = Some(HeldBy::Window);
        progress.tcp = Some(Tcp { rtt_micros: 60_000, retransmits: 3, held_by });
        assert!(pace(&progress).ends_with("limit: link (receive window of the other host)"));
        progress.tcp = None;
        progress.scan_done = true;
        progress.eta_seconds = None;
        progress.streams = 0;
        progress.method = None;
        progress.totals.failed = 1;
        assert_eq!(amount(&progress), "1 of 4 entries · 2.00 KiB of 4.00 KiB · 50% · 1 failed");
        assert_eq!(pace(&progress), "1.00 KiB/s · limit: link");
    }
}

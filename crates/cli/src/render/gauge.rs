//! The text of progress, and where it is shown.

use haul_core::{HeldBy, Limit, Phase, Progress};
use indicatif::HumanCount;

use super::cut::{cut_end, cut_start, join_fitting};
use super::wording::{bytes, count, duration, entries, limit, phase, rate, shown};

/// Between two parts of a line.
const SEPARATOR: &str = " · ";
/// The space of the spinner.
const INDENT: &str = "  ";
/// The width of the bar: at most this, and at most this part of the line.
const MAX_BAR: usize = 30;
const BAR_PART: usize = 5;

/// A place where progress is shown.
pub(super) trait ProgressGauge: Send + Sync {
    /// Shows the progress, and the file that is being copied.
    fn show(&self, progress: &Progress, file: Option<&[u8]>);
    /// Runs `print` while the progress is hidden.
    fn aside(&self, print: &mut dyn FnMut());
    /// Removes the progress for good.
    fn close(&self);
}

/// No progress.
pub(super) struct NoGauge;

impl ProgressGauge for NoGauge {
    fn show(&self, _progress: &Progress, _file: Option<&[u8]>) {}

    fn aside(&self, print: &mut dyn FnMut()) {
        print();
    }

    fn close(&self) {}
}

/// The progress on a terminal: a bar, the amount, the pace, and the file that is being copied. Parts that do not fit into
/// `width` are left out, the least important first; no line is longer. The first line leaves space for a spinner, and
/// the others are indented by as much.
pub(super) fn terminal_lines(progress: &Progress, file: Option<&[u8]>, width: usize) -> Vec<String> {
    let space = width.saturating_sub(INDENT.len());
    let mut first = amount_parts(progress);
    first.splice(0..0, bar(progress, width));
    let second = join_fitting(&pace_parts(progress), SEPARATOR, space);
    let file = file.filter(|_| progress.phase == Phase::Copy);
    let third = file.map(|file| cut_start(&shown(file), space));
    let others = std::iter::once(second).chain(third).map(|line| cut_end(&format!("{INDENT}{line}"), width));
    std::iter::once(join_fitting(&first, SEPARATOR, space)).chain(others).collect()
}

/// The progress in one line.
pub(super) fn status_line(progress: &Progress, file: Option<&[u8]>) -> String {
    let mut parts = amount_parts(progress);
    parts.extend(pace_parts(progress));
    parts.extend(file.filter(|_| progress.phase == Phase::Copy).map(shown));
    parts.join(SEPARATOR)
}

/// How many entries will be removed in all, while they are.
fn to_remove(progress: &Progress) -> Option<u64> {
    progress.to_remove.filter(|_| progress.phase == Phase::Delete)
}

/// The part of the deletion that is done, in percent; else of the content; of the entries if there is no content. `None` while it is unknown
/// how much there is.
fn percent(progress: &Progress) -> Option<u64> {
    let totals = &progress.totals;
    if let Some(all) = to_remove(progress) {
        return (totals.removed.min(all) * 100).checked_div(all);
    }
    let (done, all) = match totals.found_bytes {
        0 => (done_entries(progress), totals.found),
        all => (done_bytes(progress), all),
    };
    (done.min(all) * 100).checked_div(all).filter(|_| progress.scan_done)
}

fn bar(progress: &Progress, width: usize) -> Option<String> {
    let percent = usize::try_from(percent(progress)?).unwrap_or(100).min(100);
    let width = MAX_BAR.min(width / BAR_PART);
    let full = width * percent / 100;
    Some(format!("[{}{}] {percent}%", "#".repeat(full), "-".repeat(width - full)))
}

/// Entries that are done.
pub(super) fn done_entries(progress: &Progress) -> u64 {
    let totals = &progress.totals;
    totals.copied + totals.made + totals.linked + totals.updated + totals.same + totals.left
}

/// Bytes of content at the destination or in flight, or those that are checked.
pub(super) fn done_bytes(progress: &Progress) -> u64 {
    let totals = &progress.totals;
    let sent = totals.sent_bytes + totals.matched_bytes + totals.cloned_bytes + totals.resumed_bytes;
    progress.checked_bytes.unwrap_or(totals.same_bytes + totals.copied_bytes.max(sent))
}

/// Entries and bytes done, the most important first.
fn amount_parts(progress: &Progress) -> Vec<String> {
    let totals = &progress.totals;
    let more = if progress.scan_done { "" } else { "…" };
    let at = done_bytes(progress).min(totals.found_bytes);
    let mut parts = Vec::new();
    if totals.failed > 0 {
        parts.push(format!("{} failed", HumanCount(totals.failed)));
    }
    if let Some(all) = to_remove(progress) {
        parts.push(format!("removed {} of {}", HumanCount(totals.removed), entries(all)));
        return parts;
    }
    parts.push(format!("{} of {}{more}", HumanCount(done_entries(progress)), entries(totals.found)));
    parts.push(format!("{} of {}{more}", bytes(at), bytes(totals.found_bytes)));
    parts
}

/// Time, rate, bottleneck and connections, the most important first.
fn pace_parts(progress: &Progress) -> Vec<String> {
    let mut parts = vec![elapsed(progress.seconds)];
    if let Some(seconds) = progress.eta_seconds {
        let how = match (progress.eta_is_extrapolated, progress.eta_is_lower_bound) {
            (true, _) => "about ",
            (false, true) => "at least ",
            (false, false) => "",
        };
        parts.push(format!("{how}{} left", duration(seconds)));
    }
    parts.push(rate(progress.rate));
    let held_by = progress.tcp.and_then(|tcp| tcp.held_by).filter(|_| progress.limit == Limit::Link);
    let why = match held_by {
        None => "",
        Some(HeldBy::Window) => " (receive window of the other host)",
        Some(HeldBy::Buffer) => " (send buffer)",
    };
    parts.push(match phase(progress.phase) {
        None => format!("limit: {}{why}", limit(progress.limit)),
        Some(phase) => phase.to_owned(),
    });
    if progress.streams > 0 {
        parts.push(count(u64::from(progress.streams), "stream", "streams"));
    }
    parts.extend(progress.method.map(|method| method.to_string()));
    parts
}

fn elapsed(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.0} s") } else { duration(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Method, Tcp, Totals};

    const NAME: &[u8] = "backups/2026-11-23/db1/mysql/\u{5e74}\u{5ea6}/orders#p#p2026_11.ibd".as_bytes();

    fn running() -> Progress {
        let totals = Totals {
            found: 122_036,
            found_bytes: 5 << 30,
            copied: 61_000,
            made: 17,
            copied_bytes: 1 << 30,
            sent_bytes: 2 << 30,
            ..Totals::default()
        };
        Progress {
            totals,
            seconds: 83.0,
            rate: 26.0 * 1024.0 * 1024.0,
            streams: 8,
            method: Some(Method::Zstd(3)),
            limit: Limit::Link,
            eta_seconds: Some(125.0),
            scan_done: true,
            ..Progress::default()
        }
    }

    #[test]
    fn a_run_that_reads_shows_the_bytes_that_are_checked() {
        let totals = Totals { found: 1, found_bytes: 1 << 30, ..Totals::default() };
        let progress =
            Progress { totals, scan_done: true, checked_bytes: Some(1 << 28), ..Progress::default() };
        assert_eq!(percent(&progress), Some(25));
        let lines = terminal_lines(&progress, None, 80);
        assert_eq!(lines[0], "[####------------] 25% · 0 of 1 entry · 256.00 MiB of 1.00 GiB");
    }

    #[test]
    fn a_deletion_shows_how_many_entries_are_removed() {
        let totals = Totals { removed: 312, ..running().totals };
        let deleting = Progress { totals, phase: Phase::Delete, to_remove: Some(900), ..running() };
        let lines = terminal_lines(&deleting, None, 80);
        assert_eq!(lines[0], "[#####-----------] 34% · removed 312 of 900 entries");
        let listing = Progress { to_remove: None, ..deleting };
        assert!(terminal_lines(&listing, None, 80)[0].contains("of 122,036 entries"));
    }

    #[test]
    fn a_terminal_of_any_width_has_whole_lines() {
        let mut scanning = running();
        (scanning.scan_done, scanning.eta_is_lower_bound) = (false, true);
        (scanning.totals.failed, scanning.limit) = (3, Limit::Iops);
        let ending = Progress { phase: Phase::Finish, eta_seconds: None, ..running() };
        for (progress, width, expected) in [
            (
                running(),
                40,
                [
                    "[###-----] 40% · 61,017 of 122,036 en…",
                    "  00:01:23 · 00:02:05 left · 26.00 MiB/s",
                    "  …/db1/mysql/年度/orders#p#p2026_11.ibd",
                ],
            ),
            (
                running(),
                80,
                [
                    "[######----------] 40% · 61,017 of 122,036 entries · 2.00 GiB of 5.00 GiB",
                    "  00:01:23 · 00:02:05 left · 26.00 MiB/s · limit: link · 8 streams · zstd:3",
                    "  backups/2026-11-23/db1/mysql/年度/orders#p#p2026_11.ibd",
                ],
            ),
            (
                running(),
                120,
                [
                    "[#########---------------] 40% · 61,017 of 122,036 entries · 2.00 GiB of 5.00 GiB",
                    "  00:01:23 · 00:02:05 left · 26.00 MiB/s · limit: link · 8 streams · zstd:3",
                    "  backups/2026-11-23/db1/mysql/年度/orders#p#p2026_11.ibd",
                ],
            ),
            (
                scanning,
                80,
                [
                    "3 failed · 61,017 of 122,036 entries… · 2.00 GiB of 5.00 GiB…",
                    "  00:01:23 · at least 00:02:05 left · 26.00 MiB/s · limit: --iops · 8 streams",
                    "  backups/2026-11-23/db1/mysql/年度/orders#p#p2026_11.ibd",
                ],
            ),
            (
                Progress { eta_is_extrapolated: true, ..scanning },
                40,
                [
                    "3 failed · 61,017 of 122,036 entries…",
                    "  00:01:23 · about 00:02:05 left",
                    "  …/db1/mysql/年度/orders#p#p2026_11.ibd",
                ],
            ),
            (
                ending,
                80,
                [
                    "[######----------] 40% · 61,017 of 122,036 entries · 2.00 GiB of 5.00 GiB",
                    "  00:01:23 · 26.00 MiB/s · finishing the directories · 8 streams · zstd:3",
                    "",
                ],
            ),
        ] {
            let expected: Vec<&str> = expected.into_iter().filter(|line| !line.is_empty()).collect();
            assert_eq!(terminal_lines(&progress, Some(NAME), width), expected, "at {width} columns");
        }
        for width in 0..200 {
            for line in terminal_lines(&running(), Some(NAME), width) {
                assert!(super::super::cut::width_of(&line) <= width, "{line} at {width}");
            }
        }
    }

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
            seconds: 1.0,
            rate: 1024.0,
            streams: 8,
            method: Some(Method::Zstd(3)),
            limit: Limit::Link,
            eta_seconds: Some(10.0),
            eta_is_lower_bound: true,
            ..Progress::default()
        };
        let expected = concat!(
            "1 of 4 entries… · 2.00 KiB of 4.00 KiB… · 1 s · at least 10.0 s left · 1.00 KiB/s · limit: link ",
            "· 8 streams · zstd:3 · a"
        );
        assert_eq!(status_line(&progress, Some(b"a")), expected);
        let held_by = Some(HeldBy::Window);
        progress.tcp = Some(Tcp { rtt_micros: 60_000, retransmits: 3, held_by });
        assert!(status_line(&progress, None).contains("limit: link (receive window of the other host)"));
        progress.tcp = None;
        progress.scan_done = true;
        progress.eta_seconds = None;
        progress.streams = 0;
        progress.method = None;
        progress.totals.failed = 1;
        let expected = "1 failed · 1 of 4 entries · 2.00 KiB of 4.00 KiB · 1 s · 1.00 KiB/s · limit: link";
        assert_eq!(status_line(&progress, None), expected);
    }
}

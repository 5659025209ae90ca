//! Words and figures in the text output.

use std::time::Duration;

use haul_core::event::Action;
use haul_core::path::printable;
use haul_core::{Limit, MetaNote, Phase, Totals};
use indicatif::{FormattedDuration, HumanCount};

/// A number: `2,000`.
pub(super) fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A count with a noun: `1 file`, `2,000 files`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", self::number(number), if number == 1 { one } else { many })
}

/// A count of entries.
pub(super) fn entries(number: u64) -> String {
    count(number, "entry", "entries")
}

/// A count of bytes, in units of 1024.
pub(super) fn bytes(number: u64) -> String {
    haul_core::text::bytes(number)
}

/// How much of the content that a run found it has not copied.
pub(super) fn still_to_copy(totals: &Totals) -> String {
    match totals.bytes_to_copy() {
        0 => String::new(),
        left => format!(": {} of {} found are still to copy", bytes(left), bytes(totals.found_bytes)),
    }
}

/// The warning of an option without effect, if the note is about one.
pub(super) fn option_warning(note: &MetaNote) -> Option<String> {
    let MetaNote { what, cause, example, count } = note;
    Some(match count {
        _ if !what.starts_with("--") => return None,
        0 => format!("haul: {what} had no effect: {cause}"),
        _ => format!("haul: {what} had no effect on {}: {cause} (first: `{example}`)", entries(*count)),
    })
}

/// Metadata that could not be set, or not be compared, on some entries. `None` if the note is about an option. Only a
/// copy `has_options` for owners.
pub(super) fn metadata_note(note: &MetaNote, verifies: bool, has_options: bool) -> Option<String> {
    let MetaNote { what, cause, example, count } = note;
    let on = entries(*count);
    let what = match what.as_str() {
        option if option.starts_with("--") => return None,
        what if verifies => format!("not compared: {what} of {on}"),
        what => format!("{what} could not be set on {on}"),
    };
    let is_refused = note.what == "owner" && cause == "Operation not permitted";
    let advice = match (is_refused && !verifies, has_options) {
        (false, _) => "",
        (true, false) => "; only root may set any owner or group",
        (true, true) => "; only root may set any owner or group: --no-owner --no-group leaves them out",
    };
    Some(format!("{what}: {cause} (first: `{example}`){advice}"))
}

/// Bytes per second.
pub(super) fn rate(per_second: f64) -> String {
    format!("{}/s", bytes(per_second.max(0.0) as u64))
}

/// A duration.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    FormattedDuration(Duration::try_from_secs_f64(seconds.round()).unwrap_or(Duration::MAX)).to_string()
}

/// The past tense of an action.
pub(super) fn past(action: Action) -> &'static str {
    match action {
        Action::Copied => "copied",
        Action::Replaced => "replaced",
        Action::Made => "created",
        Action::Linked => "linked",
        Action::Updated => "updated",
        Action::Left => "skipped",
        Action::Removed => "removed",
        Action::Same => "unchanged",
        Action::RemovedAtSource => "removed at the source",
    }
}

/// The present tense of an action.
pub(super) fn planned(action: Action) -> &'static str {
    match action {
        Action::Copied => "copy",
        Action::Replaced => "replace",
        Action::Made => "create",
        Action::Linked => "link",
        Action::Updated => "update",
        Action::Left => "skip",
        Action::Removed => "remove",
        Action::Same => "keep",
        Action::RemovedAtSource => "remove at the source",
    }
}

/// A stage of a run after the copy.
pub(super) fn phase(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Copy => None,
        Phase::Link => Some("creating hard links"),
        Phase::Delete => Some("removing extraneous entries"),
        Phase::Finish => Some("finishing the directories"),
    }
}

/// The bottleneck of a run.
pub(super) fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Scan => "scanning the source",
        Limit::Compare => "comparing with the destination",
        Limit::Source => "source",
        Limit::Link => "link",
        Limit::Destination => "destination",
        Limit::Rate => "--bwlimit",
        Limit::Nice => "--nice",
        Limit::Iops => "--iops",
        Limit::Room => "destination full",
    }
}

/// A name in the transfer, with control characters escaped.
pub(super) fn shown(name: &[u8]) -> String {
    if name.is_empty() { ".".to_owned() } else { printable(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(entries(1_234_567), "1,234,567 entries");
        assert_eq!(bytes(1_572_864), "1.50 MiB");
        assert_eq!(rate(f64::NAN), "0 B/s");
        assert_eq!(duration(1.25), "1.2 s");
        assert_eq!(duration(3_723.0), "01:02:03");
        assert!(!duration(f64::INFINITY).is_empty());
    }
}

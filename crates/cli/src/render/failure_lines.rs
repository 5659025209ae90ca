//! The failures in the text of a summary.

use std::path::Path;

use super::failure_group::FailureGroup;
use super::wording::{entries, shown};

/// Number of groups of failures shown: they should fit on a screen.
const GROUPS: usize = 8;
/// Up to this many failures that were shown as they happened are not listed again.
const LIVE_ONLY: u64 = 3;

/// The failures of a run, and which of them are told already.
pub(super) struct FailureLines<'a> {
    pub(super) groups: &'a [FailureGroup],
    pub(super) failed: u64,
    /// The failure is that of the only entry of the run.
    pub(super) is_only_entry: bool,
    /// Failures that were not shown as they happened.
    pub(super) unseen: u64,
    /// The text follows the failures that were shown as they happened.
    pub(super) shown_live: bool,
    /// The file of `--failed`.
    pub(super) list: Option<&'a Path>,
}

impl FailureLines<'_> {
    /// Adds the lines.
    pub(super) fn add_to(&self, lines: &mut Vec<String>) {
        if self.failed == 0 {
            return;
        }
        // A failure that was shown as it happened is not told again.
        let is_told = |group: &&FailureGroup| group.line.is_some() || !self.all_shown();
        let told: Vec<_> = self.groups.iter().filter(is_told).collect();
        if self.is_only_entry && told.iter().all(|group| group.line.is_some()) {
            lines.extend(told.iter().filter_map(|group| Some(format!("haul: {}", group.line.as_ref()?))));
            self.hints(lines);
            lines.extend(self.list_line());
            return;
        }
        let colon = if told.is_empty() { "" } else { ":" };
        lines.push(format!("{} failed{colon}", entries(self.failed)));
        let each = match told.len() {
            1 => 10,
            2..=4 => 3,
            _ => 1,
        };
        for group in told.iter().take(GROUPS) {
            if let Some(line) = &group.line {
                lines.push(format!("  {line}"));
                continue;
            }
            lines.push(format!("  {} ({})", group.cause, entries(group.count)));
            let names = group.names.iter().take(each);
            lines.extend(names.map(|name| format!("    {}", shown(name))));
            let more = group.count.saturating_sub(group.names.len().min(each) as u64);
            if more > 0 {
                lines.push(format!("    … and {more} more"));
            }
            lines.extend(group.hint.iter().map(|hint| format!("    hint: {hint}")));
        }
        if told.len() > GROUPS {
            lines.push(format!("  … and {} more causes", told.len() - GROUPS));
        }
        self.hints(lines);
        let has_unnamed = self.unseen > 0 || told.iter().any(|group| group.count > 1 && group.line.is_some());
        if self.list.is_none() && has_unnamed {
            lines.push("for the full list use --failed FILE or --json".to_owned());
        }
        lines.extend(self.list_line());
    }

    fn list_line(&self) -> Option<String> {
        self.list.map(|path| format!("full list: {}", path.display()))
    }

    /// Adds the advice that is not told with its failures, each once.
    fn hints(&self, lines: &mut Vec<String>) {
        let is_last = |group: &&FailureGroup| group.line.is_some() || self.all_shown();
        let mut told: Vec<&String> = Vec::new();
        for hint in self.groups.iter().filter(is_last).filter_map(|group| group.hint.as_ref()) {
            if !told.contains(&hint) {
                told.push(hint);
                lines.push(format!("hint: {hint}"));
            }
        }
    }

    /// Whether every failure that is shown one by one was shown as it happened, and is still on the screen.
    pub(super) fn all_shown(&self) -> bool {
        let of_dirs = self.groups.iter().filter(|group| group.line.is_some());
        let of_dirs: u64 = of_dirs.map(|group| group.count).sum();
        self.shown_live && self.unseen == 0 && self.failed.saturating_sub(of_dirs) <= LIVE_ONLY
    }
}

//! What is said at the end.

use std::fmt::Write;
use std::path::PathBuf;

use haul_core::path::printable;
use haul_core::{Report, Totals};

use super::failures::Group;
use super::requests::RequestCounts;
use super::wording::{bytes, count, duration, entries, rate};
use crate::exit_code::Exit;

/// Groups of failures that a person is shown: no more than fit on a screen.
const GROUPS: usize = 8;

/// The commands that are reported on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// `haul copy`
    Copy,
    /// `haul sync`
    Sync,
    /// `haul verify`
    Verify,
    /// `haul hash`
    Hash,
    /// `haul probe`
    Probe,
    /// `haul put`
    Put,
    /// `haul get`
    Get,
    /// `haul plan`
    Plan,
}

/// How a stream is stored, if not as it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Stored {
    /// What was done to it, in that order: `zstd`, `lz4`, `age`, `zstd,age`.
    pub(crate) encoding: String,
    /// What became of it, in bytes.
    pub(crate) bytes: u64,
}

/// How a run ended, with all that is to be said of it.
pub(crate) struct Summary {
    /// The command.
    pub(crate) command: Command,
    /// What the engine says.
    pub(crate) report: Report,
    /// Entries that the destination lacks, that differ, and that only the destination has.
    pub(crate) differences: [u64; 3],
    /// How to copy only what failed, where that can be said.
    pub(crate) retry: Option<String>,
    /// Requests to object stores.
    pub(crate) requests: Option<RequestCounts>,
    /// With `-n`, the requests of the run itself.
    pub(crate) estimate: Option<RequestCounts>,
    /// How a stream is stored, if not as it is.
    pub(crate) stored: Option<Stored>,
    /// What was known of the source from an earlier run, where that was asked for.
    pub(crate) index: Option<haul_index::Use>,
    /// Failures by cause.
    pub(super) groups: Vec<Group>,
    /// Failures that were not shown as they happened.
    pub(super) unseen: u64,
    /// What is wrong with the file of `--failed`.
    pub(super) list_failure: Option<String>,
    /// The file of `--failed`.
    pub(super) failed_list: Option<(PathBuf, bool)>,
    /// The number of the run's record.
    pub(super) job: Option<u64>,
    /// Say also what is not needed.
    pub(super) verbose: bool,
    /// The doctor found something bad.
    pub(crate) bad: bool,
    /// Say only what went wrong.
    pub(super) quiet: bool,
    /// Metadata counts.
    pub(super) strict: bool,
    /// Nothing was changed.
    pub(super) dry_run: bool,
    /// The exit code.
    pub(super) exit: Exit,
}

impl Summary {
    /// A summary of a report; the console adds what it knows.
    pub(crate) fn new(command: Command, report: Report) -> Self {
        Self {
            command,
            report,
            differences: [0; 3],
            retry: None,
            requests: None,
            estimate: None,
            stored: None,
            index: None,
            groups: Vec::new(),
            unseen: 0,
            list_failure: None,
            failed_list: None,
            job: None,
            verbose: false,
            bad: false,
            quiet: false,
            strict: false,
            dry_run: false,
            exit: Exit::Done,
        }
    }

    /// The text for a person, each line ended.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.quiet && self.began() {
            match self.command {
                Command::Copy | Command::Sync => self.counts(&mut lines),
                Command::Verify => self.compared(&mut lines),
                Command::Put | Command::Get => self.streamed(&mut lines),
                Command::Hash | Command::Probe | Command::Plan => {}
            }
            let job = self.job.filter(|_| self.verbose);
            lines.extend(job.map(|id| format!("  job: {id}")));
        }
        let metadata_matters = self.strict || !self.quiet;
        if metadata_matters {
            self.notes(&mut lines);
        }
        self.failures(&mut lines);
        self.end(&mut lines);
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Entries that the scan found and that are in no count, though the run came to its end: a fault of haul, which
    /// must not pass for success.
    pub(super) fn unaccounted(&self) -> u64 {
        let Totals { found, copied, made, updated, same, left, linked, failed, .. } = self.report.totals;
        let copies = matches!(self.command, Command::Copy | Command::Sync);
        let ended = copies && !self.report.interrupted && self.report.fatal.is_none();
        if ended { found.saturating_sub(copied + made + updated + same + left + linked + failed) } else { 0 }
    }

    /// Whether anything was done before the run ended.
    fn began(&self) -> bool {
        self.report.fatal.is_none() || self.report.totals.found > 0
    }

    fn counts(&self, lines: &mut Vec<String>) {
        let Totals { copied, copied_bytes, sent_bytes, wire_bytes, resumed_bytes, matched_bytes, .. } =
            self.report.totals;
        let totals = &self.report.totals;
        let seconds = self.report.seconds;
        let files = count(copied, "file", "files");
        if self.dry_run {
            lines.push(format!("would copy {files}, {}", bytes(copied_bytes)));
        } else {
            let speed = if seconds > 0.0 { sent_bytes as f64 / seconds } else { 0.0 };
            let time = format!("in {} ({})", duration(seconds), rate(speed));
            lines.push(format!("copied {files}, {} {time}", bytes(copied_bytes)));
            if sent_bytes != copied_bytes {
                lines.push(format!("  sent: {}", bytes(sent_bytes)));
            }
            // What went over the wire is told where packing made it less.
            if wire_bytes > 0 && wire_bytes < sent_bytes {
                let times = sent_bytes as f64 / wire_bytes as f64;
                lines.push(format!("  on the wire: {}, packed {times:.1} times", bytes(wire_bytes)));
            }
            if resumed_bytes > 0 {
                lines.push(format!("  there from an interrupted run: {}", bytes(resumed_bytes)));
            }
            if matched_bytes > 0 {
                lines.push(format!("  there in files that changed: {}", bytes(matched_bytes)));
            }
        }
        let would = if self.dry_run { "would be " } else { "" };
        for (number, text) in [
            (totals.made, format!("{would}made (folders, links, special files)")),
            (totals.linked, format!("{would}linked (further names of files)")),
            (totals.updated, format!("{would}updated (metadata alone)")),
            (totals.removed, format!("{would}removed")),
            (totals.left, "left as it is, by an option".to_owned()),
            (totals.excluded, "left out by rules".to_owned()),
        ] {
            if number > 0 {
                lines.push(format!("  {text}: {}", entries(number)));
            }
        }
        if totals.same > 0 {
            lines.push(format!("  the same already: {}, {}", entries(totals.same), bytes(totals.same_bytes)));
        }
        if let Some(index) = &self.index {
            let listed = count(index.listed, "folder", "folders");
            let known = count(index.from_index, "folder", "folders");
            let mut line = format!("  read: {listed}; from the index: {known}");
            if index.from_index > 0 {
                let ago = duration(index.oldest.as_secs_f64());
                line.push_str(&format!(", read up to {ago} ago, where changes in place are not seen"));
            }
            lines.push(line);
        }
        if totals.resent > 0 {
            lines.push(format!("  sent again, after errors on the way: {} of 4 MiB", totals.resent));
        }
        if let Some(estimate) = &self.estimate {
            lines.push(format!("  it will take about {}", estimate.text()));
        } else if let Some(requests) = &self.requests {
            lines.push(format!("  {}", requests.text()));
        }
    }

    fn streamed(&self, lines: &mut Vec<String>) {
        let Totals { copied, copied_bytes, sent_bytes, resumed_bytes, .. } = self.report.totals;
        if copied == 0 {
            return;
        }
        let seconds = self.report.seconds;
        let moved = if self.stored.is_some() { copied_bytes } else { sent_bytes };
        let speed = if seconds > 0.0 { moved as f64 / seconds } else { 0.0 };
        let verb = if self.command == Command::Put { "put" } else { "got" };
        let objects = count(copied, "object", "objects");
        lines.push(format!(
            "{verb} {objects}, {} in {} ({})",
            bytes(copied_bytes),
            duration(seconds),
            rate(speed)
        ));
        if let Some(stored) = &self.stored {
            lines.push(format!("  stored as {}: {}", stored.encoding, bytes(stored.bytes)));
        }
        if resumed_bytes > 0 {
            lines.push(format!("  there from an interrupted run: {}", bytes(resumed_bytes)));
        }
        if let Some(requests) = &self.requests {
            lines.push(format!("  {}", requests.text()));
        }
    }

    fn compared(&self, lines: &mut Vec<String>) {
        let [missing, differs, extra] = self.differences;
        let totals = &self.report.totals;
        let time = duration(self.report.seconds);
        let of = format!("{} of {} in {time}", bytes(totals.same_bytes), entries(totals.found));
        lines.push(format!("equal: {}, {of}", entries(totals.same)));
        for (number, text) in
            [(missing, "missing"), (differs, "different"), (extra, "only at the destination")]
        {
            if number > 0 {
                lines.push(format!("{text}: {}", entries(number)));
            }
        }
    }

    fn notes(&self, lines: &mut Vec<String>) {
        for note in &self.report.notes {
            let what = format!("{} could not be set on {}", note.what, entries(note.count));
            lines.push(format!("{what}: {} (first: `{}`)", note.cause, note.example));
        }
        for note in &self.report.left_out {
            let what = format!("{} left out on {}", note.what, entries(note.count));
            lines.push(format!("{what}: {} (first: `{}`)", note.cause, note.example));
        }
    }

    fn failures(&self, lines: &mut Vec<String>) {
        let failed = self.report.totals.failed;
        if failed == 0 {
            return;
        }
        lines.push(format!("{} failed:", entries(failed)));
        let each = match self.groups.len() {
            1 => 10,
            2..=4 => 3,
            _ => 1,
        };
        for group in self.groups.iter().take(GROUPS) {
            lines.push(format!("  {} ({})", group.cause, entries(group.count)));
            let names = group.names.iter().take(each);
            lines.extend(names.map(|name| format!("    {}", shown(name))));
            let more = group.count.saturating_sub(group.names.len().min(each) as u64);
            if more > 0 {
                lines.push(format!("    … and {more} more"));
            }
            lines.extend(group.hint.iter().map(|hint| format!("    hint: {hint}")));
        }
        if self.groups.len() > GROUPS {
            lines.push(format!("  … and {} more causes", self.groups.len() - GROUPS));
        }
        match (&self.failed_list, self.unseen) {
            (Some((path, _)), _) => lines.push(format!("all of them are in {}", path.display())),
            (None, 1..) => lines.push("all of them are named with --failed FILE or --json".to_owned()),
            (None, 0) => {}
        }
    }

    fn end(&self, lines: &mut Vec<String>) {
        if let Some(cause) = &self.list_failure {
            lines.push(format!("haul: failed to write the list of --failed: {cause}"));
        }
        if let Some(why) = &self.report.not_removed {
            lines.push(format!("haul: {why}"));
        }
        if self.unaccounted() > 0 {
            let entries = entries(self.unaccounted());
            lines.push(format!(
                "haul: {entries} found, but neither copied nor failed: this is a fault of haul"
            ));
        }
        if let Some(error) = &self.report.fatal {
            lines.push(format!("haul: {error}"));
            lines.extend(error.hint().map(|hint| format!("hint: {hint}")));
        }
        let mut last = String::new();
        let again = "run the same command again: it goes on where it was";
        let copies = matches!(self.command, Command::Copy | Command::Sync) && !self.dry_run;
        let advice = if copies { format!("; {again}") } else { String::new() };
        let _ = match self.exit {
            Exit::Done | Exit::Usage => Ok(()),
            Exit::Interrupted => write!(last, "haul: interrupted{advice}"),
            Exit::Mismatch if self.command == Command::Verify => {
                write!(last, "haul: the destination does not hold what the source has")
            }
            Exit::Mismatch => write!(last, "haul: content did not verify{advice}"),
            Exit::Full => {
                write!(last, "haul: the destination is full; make room there{}", after(copies, again))
            }
            Exit::Unreachable | Exit::Incomplete if !self.began() || self.bad => Ok(()),
            Exit::Unreachable | Exit::Incomplete => write!(last, "haul: not complete{advice}"),
        };
        if !last.is_empty() {
            lines.push(last);
        }
        if let (Some((list, _)), Some(retry)) = (&self.failed_list, &self.retry)
            && copies
            && self.report.totals.failed > 0
        {
            let list = list.display();
            lines.push(format!(
                "hint: for what failed alone, the same options with --files-from {list} {retry}"
            ));
        }
    }
}

fn after(copies: bool, again: &str) -> String {
    if copies { format!(" and {again}") } else { String::new() }
}

/// A name in the transfer as a person reads it.
pub(super) fn shown(name: &[u8]) -> String {
    if name.is_empty() { ".".to_owned() } else { printable(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Error, ErrorKind, MetaNote, RelPath, Side};

    fn summary(command: Command, report: Report, exit: Exit) -> Summary {
        Summary { exit, ..Summary::new(command, report) }
    }

    fn totals() -> Totals {
        Totals {
            found: 5,
            copied: 2,
            copied_bytes: 4096,
            sent_bytes: 1024,
            resumed_bytes: 3072,
            made: 2,
            failed: 1,
            ..Totals::default()
        }
    }

    #[test]
    fn says_what_was_done_and_the_way_out() {
        let report = Report { totals: totals(), seconds: 2.0, ..Report::default() };
        let mut summary = summary(Command::Copy, report, Exit::Incomplete);
        summary.groups = vec![Group {
            cause: "failed to read (source): no".to_owned(),
            kind: ErrorKind::Io,
            hint: Some("be root".to_owned()),
            count: 3,
            names: vec![b"a\nb".to_vec(), b"c".to_vec()],
        }];
        let expected = "\
copied 2 files, 4.00 KiB in 2.0 s (512 B/s)
  sent: 1.00 KiB
  there from an interrupted run: 3.00 KiB
  made (folders, links, special files): 2 entries
1 entry failed:
  failed to read (source): no (3 entries)
    a\\x0ab
    c
    … and 1 more
    hint: be root
haul: not complete; run the same command again: it goes on where it was
";
        assert_eq!(summary.text(), expected);
        summary.quiet = true;
        assert!(summary.text().starts_with("1 entry failed:"));
    }

    #[test]
    fn says_nothing_of_a_run_that_never_began() {
        let error =
            Error::new(ErrorKind::Unreachable, Side::Wire, "log in to", "no route").on("h").with_hint("x");
        let report = Report { fatal: Some(error), ..Report::default() };
        let text = summary(Command::Copy, report, Exit::Unreachable).text();
        assert_eq!(text, "haul: failed to log in to `h`: no route\nhint: x\n");
    }

    #[test]
    fn an_entry_that_was_lost_is_told() {
        let lost = Totals { failed: 0, ..totals() };
        let report = Report { totals: lost, ..Report::default() };
        assert_eq!(summary(Command::Copy, report.clone(), Exit::Incomplete).unaccounted(), 1);
        assert_eq!(summary(Command::Verify, report.clone(), Exit::Done).unaccounted(), 0);
        let interrupted = Report { interrupted: true, ..report };
        assert_eq!(summary(Command::Copy, interrupted, Exit::Interrupted).unaccounted(), 0);
    }

    #[test]
    fn quiet_is_quiet_unless_something_is_wrong() {
        let note = MetaNote { what: "owner".into(), cause: "no".into(), count: 2, example: RelPath::root() };
        let report = Report { notes: vec![note], ..Report::default() };
        let mut summary = summary(Command::Copy, report, Exit::Done);
        assert!(summary.text().ends_with("owner could not be set on 2 entries: no (first: `.`)\n"));
        summary.quiet = true;
        assert_eq!(summary.text(), "");
        summary.strict = true;
        summary.exit = Exit::Incomplete;
        assert!(summary.text().starts_with("owner could not be set"));
    }
}

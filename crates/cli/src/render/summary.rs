//! The summary of a run.

use std::fmt::Write;
use std::path::PathBuf;

use haul_core::{Digest, Error, ErrorKind, MetaNote, Report, Totals};
use haul_job::RequestCounts;

use super::differences::Differences;
use super::failure_group::{FailureGroup, cause_of};
use super::failure_lines::FailureLines;
use super::requests::requests_text;
use super::wording::{
    bytes, count, duration, entries, metadata_note, number, option_warning, rate, still_to_copy,
};
use crate::exit_code::Exit;
use crate::manifest::WrittenManifest;

/// The commands that have a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SummaryCommand {
    /// `haul copy`
    #[default]
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
    /// `haul pipe`
    Pipe,
    /// `haul plan`
    Plan,
}

/// The encoding of a stored stream, if it has one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct StoredEncoding {
    /// The encodings in order: `zstd`, `lz4`, `age`, `zstd,age`.
    pub(crate) encoding: String,
    /// The stored size, in bytes.
    pub(crate) bytes: u64,
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Summary {
    /// The command.
    pub(crate) command: SummaryCommand,
    /// The report of the engine.
    pub(crate) report: Report,
    /// The numbers of differences that `verify` found.
    pub(crate) differences: Differences,
    /// SRC and DST of a command that copies only the failed paths, if there is one.
    pub(crate) retry: Option<String>,
    /// A stream went into or out of files alone.
    pub(crate) is_of_files: bool,
    /// The files of a stream were unpacked.
    pub(crate) is_unpacked: bool,
    /// Requests to object stores.
    pub(crate) requests: Option<RequestCounts>,
    /// In a dry run, the requests that the run needs.
    pub(crate) estimate: Option<RequestCounts>,
    /// The encoding of a stored stream, if it has one.
    pub(crate) stored: Option<StoredEncoding>,
    /// The digest of the one file that a stream went into or out of.
    pub(crate) digest: Option<Digest>,
    /// Content was not compressed in transit: fewer bytes on the wire than in the files are those of holes.
    pub(crate) is_uncompressed: bool,
    /// How much of the index was used.
    pub(crate) index: Option<haul_index::Use>,
    /// Failures by cause.
    pub(super) groups: Vec<FailureGroup>,
    /// Failures that were not shown as they happened.
    pub(super) unseen: u64,
    /// The text follows the failures that were shown as they happened.
    pub(super) shown_live: bool,
    /// The reason why the file of `--failed` is incomplete.
    pub(super) list_failure: Option<String>,
    /// The reason why the log is incomplete.
    pub(super) log_failure: Option<String>,
    /// The manifest that was written, or the reason why it was not.
    pub(super) manifest: Option<Result<WrittenManifest, String>>,
    /// The file of `--failed`.
    pub(super) failed_list: Option<(PathBuf, bool)>,
    /// The job number.
    pub(super) job: Option<u64>,
    /// Show more detail.
    pub(super) verbose: bool,
    /// `probe --doctor` found a problem, or `plan` an invalid name.
    pub(crate) bad: bool,
    /// Show errors only.
    pub(super) quiet: bool,
    /// Metadata errors are failures.
    pub(super) strict: bool,
    /// The user gave owners that could not be set.
    pub(super) owners_lost: bool,
    /// Dry run.
    pub(super) dry_run: bool,
    /// The exit code.
    pub(super) exit: Exit,
}

impl Summary {
    /// A summary of a report. The console fills in the other fields.
    pub(crate) fn new(command: SummaryCommand, report: Report) -> Self {
        Self { command, report, ..Self::default() }
    }

    /// The text, ending in a newline.
    pub(super) fn text(&self) -> String {
        let noted = self.report.notes.iter();
        let mut lines: Vec<String> = noted.filter_map(option_warning).collect();
        if !self.quiet && self.began() && !self.only_entry_failed() {
            match self.command {
                SummaryCommand::Copy | SummaryCommand::Sync => self.counts(&mut lines),
                SummaryCommand::Verify => self.compared(&mut lines),
                SummaryCommand::Put | SummaryCommand::Get | SummaryCommand::Pipe => self.streamed(&mut lines),
                SummaryCommand::Hash | SummaryCommand::Probe | SummaryCommand::Plan => {}
            }
            let job = self.job.filter(|_| self.verbose);
            lines.extend(job.map(|id| format!("  job: {id}")));
        }
        let metadata_matters = self.strict || self.owners_lost || !self.quiet;
        if metadata_matters {
            self.notes(&mut lines);
        }
        self.failures().add_to(&mut lines);
        self.end(&mut lines);
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Entries that the scan found but that are in no count of a finished run. This is a bug in haul, which must not
    /// count as success.
    pub(super) fn unaccounted(&self) -> u64 {
        let totals = &self.report.totals;
        let copies = matches!(self.command, SummaryCommand::Copy | SummaryCommand::Sync);
        let ended = copies && !self.report.interrupted && self.report.fatal.is_none();
        if ended { (totals.found + self.report.kept).saturating_sub(totals.settled()) } else { 0 }
    }

    /// Whether the source is one entry, and it failed: its error says all.
    fn only_entry_failed(&self) -> bool {
        let Totals { found, failed, .. } = self.report.totals;
        (found, failed) == (1, 1) && !self.moved()
    }

    /// Whether the note is about directories that are told already, as they refuse their entries.
    fn is_of_refused_dirs(&self, note: &MetaNote) -> bool {
        let dirs = self.groups.iter().filter(|group| group.line.is_some()).count() as u64;
        note.cause == "Operation not permitted" && note.count <= dirs && !self.strict
    }

    /// Whether the run did anything before it ended.
    fn began(&self) -> bool {
        self.report.fatal.is_none() || self.moved() || self.report.totals.failed > 0
    }

    /// Whether the run changed or compared anything that the next one does not have to do again.
    fn moved(&self) -> bool {
        let Totals { copied, made, linked, removed, same, sent_bytes, resumed_bytes, .. } =
            self.report.totals;
        // The directory that all entries are in may have been compared before the run was refused.
        let same = same.saturating_sub(1);
        [copied, made, linked, removed, same, sent_bytes, resumed_bytes].into_iter().any(|count| count > 0)
    }

    /// Whether another run may copy more. It finds no source that does not exist, has the same options and rights, and
    /// meets the same directory in the place of a file.
    fn may_resume(&self) -> bool {
        use ErrorKind::{NotEmpty, NotFound, PermissionDenied, Unsupported, Usage};
        let may_pass = |kind| !matches!(kind, NotFound | Usage | Unsupported | PermissionDenied | NotEmpty);
        match &self.report.fatal {
            _ if self.report.interrupted => true,
            Some(error) => may_pass(error.kind()),
            // Metadata that this user may not set stays as it is.
            None if self.report.totals.failed == 0 => self.unaccounted() > 0,
            None => self.groups.is_empty() || self.groups.iter().any(|group| may_pass(group.kind)),
        }
    }

    fn counts(&self, lines: &mut Vec<String>) {
        let Totals {
            copied,
            copied_bytes,
            sent_bytes,
            wire_bytes,
            resumed_bytes,
            matched_bytes,
            cloned_bytes,
            ..
        } = self.report.totals;
        let totals = &self.report.totals;
        let seconds = self.report.seconds;
        let files = count(copied, "file", "files");
        let nothing_sent = copied == 0 && sent_bytes == 0 && totals.failed == 0;
        let all_up_to_date =
            !self.dry_run && nothing_sent && totals.same > 0 && totals.removed_at_source == 0;
        let all_up_to_date = all_up_to_date && self.report.fatal.is_none();
        if all_up_to_date {
            let (same, time) = (entries(totals.same), duration(seconds));
            lines.push(format!("up to date: {same} ({}), checked in {time}", bytes(totals.same_bytes)));
        } else if self.dry_run {
            lines.push(format!("would copy {files}, {}", bytes(copied_bytes)));
        } else {
            let time = timed(copied_bytes, seconds);
            lines.push(format!("copied {files}, {} {time}", bytes(copied_bytes)));
            if sent_bytes != copied_bytes {
                lines.push(format!("  sent: {}", bytes(sent_bytes)));
            }
            // Shown only if compression or holes reduced the traffic.
            if wire_bytes > 0 && wire_bytes < sent_bytes {
                let times = sent_bytes as f64 / wire_bytes as f64;
                let times =
                    if self.is_uncompressed { String::new() } else { format!(", compressed {times:.1}×") };
                lines.push(format!("  on the wire: {}{times}", bytes(wire_bytes)));
            }
            if resumed_bytes > 0 {
                lines.push(format!("  resumed: {}", bytes(resumed_bytes)));
            }
            if cloned_bytes > 0 {
                lines.push(format!("  cloned by the file system: {}", bytes(cloned_bytes)));
            }
            if matched_bytes > 0 {
                lines.push(format!("  unchanged blocks, not sent: {}", bytes(matched_bytes)));
            }
        }
        self.entry_counts(all_up_to_date, lines);
        self.transfer_details(lines);
    }

    /// The number of entries for each action.
    fn entry_counts(&self, all_up_to_date: bool, lines: &mut Vec<String>) {
        let totals = &self.report.totals;
        let would = if self.dry_run { "would be " } else { "" };
        for (number, text) in [
            (totals.made, format!("{would}created (directories, links, special files)")),
            (totals.linked, format!("{would}hard-linked")),
            (totals.updated, format!("{would}updated (metadata only)")),
            (totals.removed, format!("{would}removed")),
            (totals.removed_at_source, format!("{would}removed at the source")),
            (totals.left, "skipped".to_owned()),
            (totals.excluded, "excluded".to_owned()),
        ] {
            if number > 0 {
                lines.push(format!("  {text}: {}", entries(number)));
            }
        }
        if totals.same > 0 && !all_up_to_date {
            lines.push(format!("  up to date: {}, {}", entries(totals.same), bytes(totals.same_bytes)));
        }
    }

    /// Use of the index, retransmissions and requests.
    fn transfer_details(&self, lines: &mut Vec<String>) {
        let totals = &self.report.totals;
        if let Some(index) = &self.index {
            let listed = count(index.listed, "directory", "directories");
            let known = count(index.from_index, "directory", "directories");
            let mut line = format!("  read: {listed}; from the index: {known}");
            if index.from_index > 0 {
                let ago = duration(index.oldest.as_secs_f64());
                line.push_str(&format!(", read up to {ago} ago (changes in place are not detected)"));
            }
            lines.push(line);
        }
        if totals.resent > 0 {
            let blocks = count(totals.resent, "block", "blocks");
            lines.push(format!("  retransmitted: {blocks} of up to 4 MiB"));
        }
        self.manifest_counts(lines);
        if let Some(estimate) = &self.estimate {
            lines.push(format!("  the run needs about {}", requests_text(estimate)));
        } else if let Some(requests) = &self.requests {
            lines.push(format!("  {}", requests_text(requests)));
        }
    }

    fn manifest_counts(&self, lines: &mut Vec<String>) {
        let Some(Ok(manifest)) = &self.manifest else { return };
        let files = count(manifest.files, "file", "files");
        let signed = if manifest.signed { ", signed" } else { "" };
        lines.push(format!("  manifest: {files} in {}{signed}", manifest.file.display()));
        if manifest.without_digest > 0 {
            let files = count(manifest.without_digest, "file", "files");
            let why = if self.command == SummaryCommand::Put {
                "the stored content is not the stream"
            } else {
                "this run did not verify it"
            };
            lines.push(format!("  not in the manifest, because {why}: {files}"));
        }
    }

    fn streamed(&self, lines: &mut Vec<String>) {
        let Totals { copied, copied_bytes, resumed_bytes, .. } = self.report.totals;
        if copied == 0 {
            return;
        }
        let is_put = self.command == SummaryCommand::Put;
        let (verb, objects) = match self.is_of_files {
            _ if self.command == SummaryCommand::Pipe => ("piped:", count(copied, "stream", "streams")),
            _ if self.is_unpacked => ("unpacked:", count(copied, "file", "files")),
            true => (if is_put { "written:" } else { "read:" }, count(copied, "file", "files")),
            false => (if is_put { "uploaded" } else { "downloaded" }, count(copied, "object", "objects")),
        };
        let time = timed(copied_bytes, self.report.seconds);
        lines.push(format!("{verb} {objects}, {} {time}", bytes(copied_bytes)));
        if let Some(digest) = &self.digest {
            lines.push(format!("  BLAKE3: {digest}"));
        }
        self.manifest_counts(lines);
        if let Some(stored) = &self.stored {
            lines.push(format!("  stored as {}: {}", stored.encoding, bytes(stored.bytes)));
        }
        if resumed_bytes > 0 {
            lines.push(format!("  resumed: {}", bytes(resumed_bytes)));
        }
        if let Some(requests) = &self.requests {
            lines.push(format!("  {}", requests_text(requests)));
        }
    }

    fn compared(&self, lines: &mut Vec<String>) {
        let Differences { missing, differs, metadata, extra } = self.differences;
        let totals = &self.report.totals;
        let time = duration(self.report.seconds);
        let mut equal = format!("equal: {} of {}", number(totals.same), entries(totals.found));
        // The lengths of the files of a manifest are not always known.
        if totals.same_bytes > 0 || totals.same == 0 {
            let _ = write!(equal, ", {}", bytes(totals.same_bytes));
        }
        lines.push(format!("{equal}, in {time}"));
        for (number, text) in [
            (missing, "missing"),
            (differs, "different"),
            (metadata, "different in metadata only"),
            (extra, "only at the destination"),
            (totals.left, "skipped"),
        ] {
            if number > 0 {
                lines.push(format!("{text}: {}", entries(number)));
            }
        }
    }

    fn notes(&self, lines: &mut Vec<String>) {
        let verifies = self.command == SummaryCommand::Verify;
        let notes = self.report.notes.iter().filter(|note| !self.is_of_refused_dirs(note));
        lines.extend(notes.filter_map(|note| metadata_note(note, verifies, !self.is_unpacked)));
        for note in &self.report.left_out {
            let what = format!("{} skipped on {}", note.what, entries(note.count));
            lines.push(format!("{what}: {} (first: `{}`)", note.cause, note.example));
        }
    }

    fn failures(&self) -> FailureLines<'_> {
        FailureLines {
            groups: &self.groups,
            failed: self.report.totals.failed,
            is_only_entry: self.only_entry_failed(),
            unseen: self.unseen,
            shown_live: self.shown_live,
            list: self.failed_list.as_ref().map(|(path, _)| path.as_path()),
        }
    }

    /// Whether a line before the last one says why the run is not complete.
    fn said_why(&self) -> bool {
        self.report.fatal.is_some() || self.report.totals.failed > 0
    }

    /// The files of options that could not be written, and why.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = String> {
        let manifest = self.manifest.as_ref().and_then(|written| written.as_ref().err());
        let files = [
            ("list of --failed", self.list_failure.as_ref()),
            ("log of --log-file", self.log_failure.as_ref()),
            ("manifest", manifest),
        ];
        let failed = files.into_iter().filter_map(|(file, cause)| Some((file, cause?)));
        failed.map(|(file, cause)| format!("haul: failed to write the {file}: {cause}"))
    }

    fn end(&self, lines: &mut Vec<String>) {
        lines.extend(self.unwritten());
        if let Some(why) = &self.report.not_removed {
            lines.push(format!("haul: {why}"));
        }
        if self.unaccounted() > 0 {
            let entries = entries(self.unaccounted());
            lines
                .push(format!("haul: {entries} found, but neither copied nor failed: this is a bug in haul"));
        }
        let was_shown = |error: &Error| {
            let cause = cause_of(error);
            self.failures().all_shown() && self.groups.iter().any(|group| group.cause == cause)
        };
        // The last line tells of an interrupt.
        let is_interrupt =
            |error: &Error| self.exit == Exit::Interrupted && error.kind() == ErrorKind::Cancelled;
        let fatal = self.report.fatal.as_ref();
        if let Some(error) = fatal.filter(|error| !was_shown(error) && !is_interrupt(error)) {
            lines.push(format!("haul: {error}"));
            lines.extend(error.hint().map(|hint| format!("hint: {hint}")));
        }
        let mut last = String::new();
        let again = "run the same command again to resume";
        let copies = matches!(self.command, SummaryCommand::Copy | SummaryCommand::Sync) && !self.dry_run;
        let advice =
            if copies && self.moved() && self.may_resume() { format!("; {again}") } else { String::new() };
        let _ = match self.exit {
            Exit::Done | Exit::Usage => Ok(()),
            Exit::Interrupted => write!(last, "haul: interrupted{advice}"),
            // Nothing was compared: the error says why.
            Exit::Mismatch
                if self.command == SummaryCommand::Verify && !self.began() && self.report.corrupt == 0 =>
            {
                Ok(())
            }
            Exit::Mismatch if self.command == SummaryCommand::Verify => {
                let Differences { missing, differs, .. } = self.differences;
                let all = entries(self.report.totals.found);
                write!(last, "haul: verification FAILED: {missing} missing, {differs} different of {all}")
            }
            Exit::Mismatch => write!(last, "haul: verification FAILED{advice}"),
            Exit::Full => {
                let left = still_to_copy(&self.report.totals);
                write!(last, "haul: the destination is full{left}; make room there{}", after(copies, again))
            }
            Exit::Incomplete if self.differences.metadata > 0 && !self.said_why() => {
                let all = entries(self.differences.metadata);
                write!(last, "haul: content is equal, metadata DIFFERS: {all}")
            }
            Exit::Unreachable | Exit::Incomplete if !self.began() || self.bad => Ok(()),
            // The failures were printed, and there is nothing to add.
            Exit::Unreachable | Exit::Incomplete if advice.is_empty() && self.said_why() => Ok(()),
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
                "hint: to copy only the failed paths, use the same options with --files-from {list} {retry}"
            ));
        }
    }
}

/// `in 2.0 s (512 B/s)`, without a rate if there were no bytes.
fn timed(bytes: u64, seconds: f64) -> String {
    let time = duration(seconds);
    if bytes == 0 || seconds <= 0.0 {
        return format!("in {time}");
    }
    format!("in {time} ({})", rate(bytes as f64 / seconds))
}

fn after(copies: bool, again: &str) -> String {
    if copies { format!(" and {again}") } else { String::new() }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;

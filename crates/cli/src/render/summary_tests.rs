//! Tests of the summary.

use super::*;
use haul_core::{ErrorKind, MetaNote, RelPath, Side};

fn summary(command: SummaryCommand, report: Report, exit: Exit) -> Summary {
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
fn a_summary_has_counts_failures_and_a_hint() {
    let report = Report { totals: totals(), seconds: 2.0, ..Report::default() };
    let mut summary = summary(SummaryCommand::Copy, report, Exit::Incomplete);
    summary.groups = vec![FailureGroup {
        line: None,
        cause: "failed to read (source): no".to_owned(),
        kind: ErrorKind::Io,
        hint: Some("be root".to_owned()),
        count: 3,
        names: vec![b"a\nb".to_vec(), b"c".to_vec()],
    }];
    let expected = "\
copied 2 files, 4.00 KiB in 2.0 s (2.00 KiB/s)
  sent: 1.00 KiB
  resumed: 3.00 KiB
  created (directories, links, special files): 2 entries
1 entry failed:
  failed to read (source): no (3 entries)
    a\\x0ab
    c
    … and 1 more
    hint: be root
haul: not complete; run the same command again to resume
";
    assert_eq!(summary.text(), expected);
    summary.quiet = true;
    assert!(summary.text().starts_with("1 entry failed:"));
}

#[test]
fn holes_are_not_told_as_compression() {
    let totals = Totals { sent_bytes: 4096, wire_bytes: 2048, failed: 0, ..totals() };
    let report = Report { totals, seconds: 2.0, ..Report::default() };
    let mut summary = summary(SummaryCommand::Copy, report, Exit::Done);
    assert!(summary.text().contains("  on the wire: 2.00 KiB, compressed 2.0×\n"), "{}", summary.text());
    summary.is_uncompressed = true;
    assert!(summary.text().contains("  on the wire: 2.00 KiB\n"), "{}", summary.text());
}

#[test]
fn a_rate_needs_copied_bytes() {
    let totals = Totals { copied: 0, copied_bytes: 0, sent_bytes: 9 << 20, failed: 1, ..Totals::default() };
    let report = Report { totals, seconds: 1.0, ..Report::default() };
    let text = summary(SummaryCommand::Copy, report, Exit::Incomplete).text();
    assert!(text.starts_with("copied 0 files, 0 B in 1.0 s\n  sent: 9.00 MiB\n"), "{text}");
}

#[test]
fn no_advice_to_go_on_where_that_cannot_help() {
    let again = |kind: Option<ErrorKind>, failed| {
        let fatal = kind.map(|kind| Error::new(kind, Side::Destination, "copy", "no"));
        let report = Report { totals: Totals { failed, ..totals() }, fatal, ..Report::default() };
        summary(SummaryCommand::Copy, report, Exit::Incomplete).text().contains("again")
    };
    assert!(again(None, 1) && again(Some(ErrorKind::Io), 0) && again(Some(ErrorKind::Unreachable), 0));
    assert!(!again(Some(ErrorKind::Unsupported), 0) && !again(Some(ErrorKind::Usage), 0));
    // With --strict, a warning is a failure, and the next run has it too.
    let note = MetaNote { what: "owner".into(), cause: "no".into(), count: 2, example: RelPath::root() };
    let totals = Totals { found: 4, failed: 0, ..totals() };
    let report = Report { totals, notes: vec![note], ..Report::default() };
    let text = summary(SummaryCommand::Copy, report, Exit::Incomplete).text();
    assert!(text.ends_with("haul: not complete\n"), "{text}");
}

#[test]
fn a_run_that_never_started_has_no_counts() {
    let error =
        Error::new(ErrorKind::Unreachable, Side::Wire, "log in to", "no route").on("h").with_hint("x");
    let report = Report { fatal: Some(error), ..Report::default() };
    let text = summary(SummaryCommand::Copy, report, Exit::Unreachable).text();
    assert_eq!(text, "haul: failed to log in to `h`: no route\nhint: x\n");
}

#[test]
fn an_interrupt_is_told_once() {
    let error = Error::new(ErrorKind::Cancelled, Side::Destination, "list", "interrupted").on("s3://b/x");
    let report = Report { fatal: Some(error), interrupted: true, ..Report::default() };
    assert_eq!(summary(SummaryCommand::Copy, report, Exit::Interrupted).text(), "haul: interrupted\n");
}

#[test]
fn an_unaccounted_entry_is_reported() {
    let lost = Totals { failed: 0, ..totals() };
    let report = Report { totals: lost, ..Report::default() };
    assert_eq!(summary(SummaryCommand::Copy, report.clone(), Exit::Incomplete).unaccounted(), 1);
    assert_eq!(summary(SummaryCommand::Verify, report.clone(), Exit::Done).unaccounted(), 0);
    let interrupted = Report { interrupted: true, ..report };
    assert_eq!(summary(SummaryCommand::Copy, interrupted, Exit::Interrupted).unaccounted(), 0);
}

#[test]
fn quiet_prints_errors_only() {
    let note = MetaNote { what: "owner".into(), cause: "no".into(), count: 2, example: RelPath::root() };
    let report = Report { notes: vec![note], ..Report::default() };
    let mut summary = summary(SummaryCommand::Copy, report, Exit::Done);
    assert!(summary.text().ends_with("owner could not be set on 2 entries: no (first: `.`)\n"));
    summary.quiet = true;
    assert_eq!(summary.text(), "");
    summary.strict = true;
    summary.exit = Exit::Incomplete;
    assert!(summary.text().starts_with("owner could not be set"));
}

#[test]
fn verify_says_how_many_of_all_entries_are_equal() {
    let totals = Totals { found: 1506, same: 1503, same_bytes: 2048, ..Totals::default() };
    let report = Report { totals, seconds: 1.0, ..Report::default() };
    let text = summary(SummaryCommand::Verify, report, Exit::Mismatch).text();
    assert!(text.contains("equal: 1,503 of 1,506 entries, 2.00 KiB, in 1.0 s"), "{text}");
}

#[test]
fn directories_that_refuse_entries_are_one_line_each_and_have_one_hint() {
    let refused = |cause: &str, count| FailureGroup {
        line: Some(format!("{cause}: {count} entries were not copied")),
        cause: cause.to_owned(),
        kind: ErrorKind::PermissionDenied,
        hint: Some("be root".to_owned()),
        count,
        names: vec![b"a".to_vec()],
    };
    let other = FailureGroup { line: None, hint: None, kind: ErrorKind::Io, ..refused("failed to read", 2) };
    let failed = Totals { failed: 9, ..totals() };
    let report = Report { totals: failed, seconds: 1.0, ..Report::default() };
    let mut summary = summary(SummaryCommand::Copy, report, Exit::Incomplete);
    summary.groups = vec![refused("dst: no", 4), refused("dst/d: no", 3), other];
    summary.shown_live = true;
    let expected = "9 entries failed:\n  dst: no: 4 entries were not copied\n  dst/d: no: 3 entries were not copied\n\
                    hint: be root\nfor the full list use --failed FILE or --json\n";
    assert!(summary.text().contains(expected), "{}", summary.text());
    summary.shown_live = false;
    assert!(summary.text().contains("  failed to read (2 entries)\n    a\n"), "{}", summary.text());
    assert_eq!(summary.text().matches("hint: be root").count(), 1, "{}", summary.text());
}

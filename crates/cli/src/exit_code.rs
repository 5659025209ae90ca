//! The exit codes.

use std::process::ExitCode;

use haul_core::{Error, ErrorKind, Report};

/// The exit code of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything was copied and verified.
    #[default]
    Done = 0,
    /// Some entries failed; each is listed.
    Incomplete = 1,
    /// Usage error.
    Usage = 2,
    /// Verification failed.
    Mismatch = 3,
    /// Connection or login failed.
    Unreachable = 4,
    /// The destination is full or over quota.
    Full = 5,
    /// Interrupted; rerun to resume.
    Interrupted = 130,
}

/// The facts that decide the exit code besides the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Circumstances {
    /// An entry failed because the destination is full.
    pub(crate) full: bool,
    /// Metadata errors are failures (`--strict`).
    pub(crate) strict: bool,
    /// A found entry is in none of the counts.
    pub(crate) unaccounted: bool,
    /// `probe --doctor` found a problem, or `plan` an invalid name.
    pub(crate) bad: bool,
    /// `verify` found entries of which only the metadata differs.
    pub(crate) metadata_differs: bool,
    /// Owners that `--chown` or a map gives could not be set.
    pub(crate) owners_lost: bool,
    /// Requested output could not be written to standard output or a file.
    pub(crate) output_lost: bool,
}

impl Exit {
    /// The exit code of a fatal error.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Corrupt | ErrorKind::BadPages => Self::Mismatch,
            ErrorKind::Unreachable | ErrorKind::Protocol => Self::Unreachable,
            ErrorKind::NoSpace => Self::Full,
            ErrorKind::Cancelled => Self::Interrupted,
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::SourceChanged
            | ErrorKind::Busy
            | ErrorKind::Unsupported
            | ErrorKind::Io
            | ErrorKind::NotEmpty
            | ErrorKind::InUse
            | ErrorKind::Locked => Self::Incomplete,
        }
    }

    /// The exit code of a finished run. A failed verification takes precedence over everything but an interruption.
    pub(crate) fn of_report(report: &Report, circumstances: Circumstances) -> Self {
        if report.interrupted {
            return Self::Interrupted;
        }
        if report.corrupt > 0 {
            return Self::Mismatch;
        }
        if let Some(error) = &report.fatal {
            return Self::of_error(error);
        }
        if circumstances.full {
            return Self::Full;
        }
        if report.refused {
            return Self::Usage;
        }
        let metadata_lost = circumstances.strict && !(report.notes.is_empty() && report.left_out.is_empty());
        let lost = metadata_lost || circumstances.unaccounted || circumstances.output_lost;
        let lost = lost || circumstances.owners_lost || circumstances.bad || circumstances.metadata_differs;
        if !report.is_complete() || lost {
            return Self::Incomplete;
        }
        Self::Done
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{MetaNote, RelPath, Side, Totals};

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, Side::Local, "test", "x")
    }

    fn of(report: &Report) -> u8 {
        Exit::of_report(report, Circumstances::default()) as u8
    }

    #[test]
    fn errors_have_the_promised_exit_codes() {
        for (kind, code) in [
            (ErrorKind::Usage, 2),
            (ErrorKind::Corrupt, 3),
            (ErrorKind::BadPages, 3),
            (ErrorKind::Unreachable, 4),
            (ErrorKind::Protocol, 4),
            (ErrorKind::NoSpace, 5),
            (ErrorKind::Cancelled, 130),
            (ErrorKind::NotFound, 1),
            (ErrorKind::PermissionDenied, 1),
            (ErrorKind::SourceChanged, 1),
            (ErrorKind::Busy, 1),
            (ErrorKind::Locked, 1),
            (ErrorKind::Unsupported, 1),
            (ErrorKind::Io, 1),
        ] {
            assert_eq!(Exit::of_error(&error(kind)) as u8, code, "{kind:?}");
            assert_eq!(of(&Report { fatal: Some(error(kind)), ..Report::default() }), code, "fatal {kind:?}");
        }
    }

    #[test]
    fn reports_have_the_promised_exit_codes() {
        let failed = Totals { failed: 1, ..Totals::default() };
        let one_failed = Report { totals: failed, ..Report::default() };
        assert_eq!(of(&Report::default()), 0);
        assert_eq!(of(&one_failed), 1);
        assert_eq!(of(&Report { corrupt: 1, ..one_failed.clone() }), 3);
        assert_eq!(of(&Report { interrupted: true, corrupt: 1, ..Report::default() }), 130);
        assert_eq!(of(&Report { not_removed: Some("x".to_owned()), ..Report::default() }), 1);
        let refused = Report { not_removed: Some("x".to_owned()), refused: true, ..Report::default() };
        assert_eq!(of(&refused), 2);
        let full = Circumstances { full: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&one_failed, full), Exit::Full);
        let unaccounted = Circumstances { unaccounted: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&Report::default(), unaccounted), Exit::Incomplete);
        let differs = Circumstances { metadata_differs: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&Report::default(), differs), Exit::Incomplete);
        let lost = Circumstances { output_lost: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&Report::default(), lost), Exit::Incomplete);
    }

    #[test]
    fn metadata_errors_fail_only_with_strict() {
        let note =
            MetaNote { what: "owner".to_owned(), cause: "x".to_owned(), count: 1, example: RelPath::root() };
        let left_out = Report { left_out: vec![note.clone()], ..Report::default() };
        let report = Report { notes: vec![note], ..Report::default() };
        assert_eq!(of(&report), 0);
        let strict = Circumstances { strict: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&report, strict), Exit::Incomplete);
        let owners_lost = Circumstances { owners_lost: true, ..Circumstances::default() };
        assert_eq!(Exit::of_report(&report, owners_lost), Exit::Incomplete);
        assert_eq!((of(&left_out), Exit::of_report(&left_out, strict)), (0, Exit::Incomplete));
    }
}

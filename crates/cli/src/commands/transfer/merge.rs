//! One report from the reports on the parts of a run.

use haul_core::{MetaNote, Report, Totals};

/// Adds the report on one part. Its time is not added: the whole is measured as such.
pub(super) fn merge(whole: &mut Report, part: Report) {
    let Report { totals, notes, left_out, fatal, interrupted, corrupt, not_removed, refused, seconds: _ } =
        part;
    whole.totals.add(&totals);
    add_notes(&mut whole.notes, notes);
    add_notes(&mut whole.left_out, left_out);
    whole.fatal = whole.fatal.take().or(fatal);
    whole.interrupted |= interrupted;
    whole.corrupt += corrupt;
    whole.refused |= refused;
    whole.not_removed = whole.not_removed.take().or(not_removed);
}

/// Adds notes to those of other parts, once for each kind.
fn add_notes(whole: &mut Vec<MetaNote>, part: Vec<MetaNote>) {
    for note in part {
        let same = |known: &&mut MetaNote| known.what == note.what && known.cause == note.cause;
        match whole.iter_mut().find(same) {
            Some(known) => known.count = known.count.saturating_add(note.count),
            None => whole.push(note),
        }
    }
}

/// One entry failed before its part began.
pub(super) fn add_failure(totals: &mut Totals) {
    totals.found += 1;
    totals.failed += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Error, ErrorKind, RelPath, Side};

    #[test]
    fn nothing_is_lost() {
        let note = |count| MetaNote {
            what: "owner".to_owned(),
            cause: "no".to_owned(),
            count,
            example: RelPath::root(),
        };
        let mut whole = Report::default();
        merge(&mut whole, Report { notes: vec![note(2)], corrupt: 1, ..Report::default() });
        let fatal = Some(Error::new(ErrorKind::Io, Side::Local, "x", "first"));
        let totals = Totals { copied: 3, failed: 1, ..Totals::default() };
        merge(&mut whole, Report { totals, notes: vec![note(3)], fatal: fatal.clone(), ..Report::default() });
        merge(&mut whole, Report { interrupted: true, totals, ..Report::default() });
        assert_eq!((whole.totals.copied, whole.totals.failed, whole.corrupt), (6, 2, 1));
        assert_eq!(whole.notes, [note(5)]);
        assert_eq!(whole.fatal, fatal);
        assert!(whole.interrupted);
    }
}

//! Joins the reports of the parts of a job.

use haul_core::{MetaNote, Report, Totals};

/// Adds the report of one part, without its time: the time of the whole is measured separately.
pub fn merge(whole: &mut Report, part: Report) {
    let Report {
        totals,
        notes,
        left_out,
        fatal,
        interrupted,
        corrupt,
        not_removed,
        kept,
        refused,
        pages,
        seconds: _,
    } = part;
    whole.totals.add(&totals);
    add_notes(&mut whole.notes, notes);
    add_notes(&mut whole.left_out, left_out);
    whole.fatal = whole.fatal.take().or(fatal);
    whole.interrupted |= interrupted;
    whole.corrupt += corrupt;
    whole.kept += kept;
    whole.refused |= refused;
    if let Some(pages) = pages {
        whole.pages.get_or_insert_default().add(&pages);
    }
    whole.not_removed = whole.not_removed.take().or(not_removed);
}

/// Adds metadata notes, joining those of the same kind and cause.
fn add_notes(whole: &mut Vec<MetaNote>, part: Vec<MetaNote>) {
    for note in part {
        let same = |known: &&mut MetaNote| known.what == note.what && known.cause == note.cause;
        match whole.iter_mut().find(same) {
            Some(known) => known.count = known.count.saturating_add(note.count),
            None => whole.push(note),
        }
    }
}

/// Counts an entry that failed before its part began.
pub(crate) fn add_failure(totals: &mut Totals) {
    totals.found += 1;
    totals.failed += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Error, ErrorKind, RelPath, Side};

    #[test]
    fn reports_are_joined_without_loss() {
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

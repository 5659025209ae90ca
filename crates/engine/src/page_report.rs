//! Reports the results of the checks of database pages.

use haul_core::{PageCounts, PageReport, Result};

use crate::meter::Meter;

/// Reports the bad pages by name, then how many pages were checked and which files were not. Returns the counts of both
/// reports: of the pages that this process read, and of those that a sink fetched.
pub(crate) fn report_pages(
    meter: &Meter<'_>,
    reports: [Result<Option<PageReport>>; 2],
) -> Option<PageCounts> {
    let mut all: Option<PageReport> = None;
    for report in reports {
        match report {
            Ok(None) => {}
            Ok(Some(report)) => join(all.get_or_insert_default(), report),
            Err(error) => {
                meter.abort(error);
                return None;
            }
        }
    }
    let PageReport { counts, mut named, unchecked } = all?;
    named.sort();
    named.dedup();
    named.iter().for_each(|page| meter.bad_page(page));
    let more = counts.bad.saturating_sub(named.len() as u64);
    if more > 0 {
        meter.warn(&format!("bad pages: {more} more"));
    }
    let PageCounts { innodb, postgres, bad, without_checksum } = counts;
    let mut text = format!("pages checked: {innodb} of InnoDB, {postgres} of PostgreSQL; bad: {bad}");
    if without_checksum > 0 {
        text.push_str(&format!("; without a checksum that can be checked: {without_checksum}"));
    }
    meter.note(&text);
    for note in unchecked {
        let files = if note.count == 1 { "file" } else { "files" };
        let (count, cause, example) = (note.count, &note.cause, &note.example);
        meter.note(&format!("pages not checked: {count} {files}, {cause} (first: `{example}`)"));
    }
    Some(counts)
}

fn join(all: &mut PageReport, other: PageReport) {
    all.counts.add(&other.counts);
    all.named.extend(other.named);
    for note in other.unchecked {
        match all.unchecked.iter_mut().find(|known| known.cause == note.cause) {
            Some(known) => known.count = known.count.saturating_add(note.count),
            None => all.unchecked.push(note),
        }
    }
}

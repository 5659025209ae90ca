//! Reports the results of the checks of database pages.

use haul_core::{Event, PageCounts, PageReport, Result};

use crate::meter::Meter;

/// Reports the findings of both ends: of the pages that this process read, and of those that a sink fetched. Returns
/// the counts.
pub(crate) fn report_pages(
    meter: &Meter<'_>,
    reports: [Result<Option<PageReport>>; 2],
) -> Option<PageCounts> {
    let mut all: Option<PageReport> = None;
    for report in reports {
        match report {
            Ok(None) => {}
            Ok(Some(report)) => all.get_or_insert_default().join(report),
            Err(error) => {
                meter.abort(error);
                return None;
            }
        }
    }
    Some(tell_pages(all?, &|event| meter.tell(event)))
}

/// Tells the bad pages by name, then how many pages were checked and which files were not. Returns the counts.
pub fn tell_pages(report: PageReport, tell: &dyn Fn(&Event<'_>)) -> PageCounts {
    let PageReport { counts, mut named, unchecked } = report;
    named.sort();
    named.dedup();
    named.iter().for_each(|page| tell(&Event::BadPage(page)));
    let more = counts.bad.saturating_sub(named.len() as u64);
    if more > 0 {
        tell(&Event::Warning(&format!("bad pages: {more} more")));
    }
    let PageCounts { innodb, postgres, bad, without_checksum } = counts;
    let mut text = format!("pages checked: {innodb} of InnoDB, {postgres} of PostgreSQL; bad: {bad}");
    if without_checksum > 0 {
        text.push_str(&format!("; without a checksum that can be checked: {without_checksum}"));
    }
    tell(&Event::Note(&text));
    for note in unchecked {
        let files = if note.count == 1 { "file" } else { "files" };
        let (count, cause, example) = (note.count, &note.cause, &note.example);
        let text = format!("pages not checked: {count} {files}, {cause} (first: `{example}`)");
        tell(&Event::Note(&text));
    }
    counts
}

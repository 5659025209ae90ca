//! Copies trees: the passes of a copy, in order.

use haul_core::{Phase, Report, Reporter};

use crate::cancel::Cancel;
use crate::locked::copy_locked;
use crate::make_links::make_all_links;
use crate::meter::Meter;
use crate::options::{CopyOptions, EndPair};
use crate::page_report::report_pages;
use crate::path_list::PathList;
use crate::pipeline::{pipeline, with_progress};
use crate::prune::prune;
use crate::run::Run;
use crate::scan::scan;
use crate::second_pass;

/// Copies each part in turn, and reports on all of them together.
pub fn copy(parts: &[EndPair], mut options: CopyOptions, reporter: &dyn Reporter, cancel: &Cancel) -> Report {
    let meter = Meter::with_pace(reporter, options.pace.clone());
    let mut report = Report::default();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        meter.set_scan_done(false);
        meter.outlook.set_more_follows(!is_last, options.delete.is_some() && part.view.is_some());
        meter.begin_phase(Phase::Copy);
        copy_part(part, &mut options, &meter, cancel, &mut report);
        if meter.fatal().is_some() || cancel.is_cancelled() {
            break;
        }
    }
    report.totals = *meter.totals();
    report.corrupt = meter.corrupt();
    report.fatal = meter.fatal();
    report.interrupted = cancel.is_cancelled();
    report.seconds = meter.seconds();
    report
}

/// Copies one part, in this order: content, files that other programs had open, hard links, deletion, deferred entries.
fn copy_part(
    part: &EndPair,
    options: &mut CopyOptions,
    meter: &Meter<'_>,
    cancel: &Cancel,
    report: &mut Report,
) {
    let rules = options.scan.rules.clone();
    let files_from = options.files_from.take();
    let options = &*options;
    let scan_options = &options.scan;
    let run = Run::new(part, options, &rules, meter, cancel);
    let goes_on = || meter.fatal().is_none() && !cancel.is_cancelled();
    // Deletion searches only the listed directories.
    let mut listed = (files_from.is_some() && options.delete.is_some()).then(PathList::default);
    pipeline(&run, options.workers, |found| scan(&run, scan_options, files_from, &mut listed, found));
    run.root_answered();
    copy_locked(&run, options.locked, options.workers, |is_last| {
        Run::second(part, options, &rules, meter, cancel).before_deletion(&run, is_last)
    });
    if goes_on() {
        meter.begin_phase(Phase::Link);
        let pass = || Run::second(part, options, &rules, meter, cancel).before_deletion(&run, true);
        make_all_links(&run, options.workers, &pass);
    }
    if goes_on()
        && let (Some(delete), Some(view)) = (options.delete, &part.view)
    {
        meter.begin_phase(Phase::Delete);
        let pruned = with_progress(&run, || prune(&run, &**view, scan_options, delete, listed));
        if let (Some(deferred), true) = (&run.deferred, goes_on()) {
            let pass = || Run::second(part, options, &rules, meter, cancel);
            second_pass::copy_deferred(&pass, deferred, &pruned, options.workers);
        }
        report.not_removed = pruned.refused;
        report.refused = run.guard.has_refused();
    }
    if meter.fatal().is_none() {
        meter.begin_phase(Phase::Finish);
        match with_progress(&run, || run.sink.finish()) {
            Ok(finished) => {
                report.notes.extend(finished.notes);
                if let Some(confirmed) = &run.confirmed {
                    confirmed.set_durable();
                }
            }
            Err(error) => meter.abort(error),
        }
    }
    if let Some(counts) = report_pages(meter, [part.source.page_report(), part.sink.page_report()]) {
        report.pages.get_or_insert_default().add(&counts);
    }
    report.left_out.extend(run.trust.rejected());
    let connections = run.connections();
    meter.outlook.set_over();
    meter.progress(&connections, run.open.count());
    connections.add_to(&mut meter.totals());
}

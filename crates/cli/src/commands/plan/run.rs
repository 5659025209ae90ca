//! Runs `haul plan`.

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use haul_core::{Error, ErrorKind, Links, Location, Report, Result, ScanOptions, Side, Totals};
use haul_engine::Cancel;
use haul_job::{Ends, Observer, OpenedSource, open_sources};
use haul_plan::{Collector, Plan, PlanOptions, Split};
use haul_probe::survey::TreeCounts;

use super::figures::Figures;
use super::lists::PlanLists;
use crate::args::PlanArgs;
use crate::commands::found::show_found;
use crate::commands::output::settings;
use crate::commands::start::{ends_of_run, start_run};
use crate::exit_code::Exit;
use crate::locations::parse_file_location;
use crate::render::{Console, Estimated, Planned, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, one_stdin, scan_options, usage};

/// Interval of progress updates.
const LOOK: Duration = Duration::from_millis(200);

/// Analyses a tree.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(in crate::commands) fn run(args: &PlanArgs) -> Result<Exit> {
    let at = parse_file_location(&args.source, &args.given)?;
    one_stdin(&args.filter, args.probe.as_deref())?;
    let scan = scan_options(&args.filter)?;
    let link = LinkSettings::resolve(&args.link, &args.given)?;
    let figures = args.probe.as_deref().map(Figures::read).transpose()?;
    let request =
        PlanOptions { top: args.top as usize, target: args.target_kind.map(Into::into), split: split(args) };
    if args.lists.is_some() && request.split.is_none() {
        let error = usage("write lists", "the number or size of the parts is not given");
        return Err(error.with_hint("use --parts N, --part-size SIZE or --part-files N"));
    }
    let lists = PlanLists::new(args.lists.as_deref(), args.unfit.as_deref(), args.filter.from0)?;
    let start = Start::new(SummaryCommand::Plan, at.to_string(), None);
    let (console, cancel) = start_run(settings(&args.output), &start)?;
    let ends = ends_of_run(link.config, &console, &cancel);
    let begun = Instant::now();
    let looked =
        Looker { at, scan, links: args.links.links(), request, console: &console, cancel: &cancel, begun }
            .look(ends, lists);
    let mut totals = Totals::default();
    let mut report = Report::default();
    let mut unfit = false;
    match looked {
        Ok(PlannedTree { plan, lists, scan_seconds }) => {
            totals.found = plan.tally.entries + plan.tally.errors;
            totals.found_bytes = plan.tally.bytes;
            totals.excluded = plan.tally.excluded;
            totals.failed = plan.tally.errors;
            unfit = !plan.unfit.is_empty();
            let estimate = figures.map(|figures| Estimated {
                estimate: figures.estimate(&counts(&plan), scan_seconds),
                from: figures.from,
            });
            let target = args.target_kind.and_then(|kind| kind.to_possible_value());
            let target = target.map(|kind| kind.get_name().to_owned());
            console.planned(&Planned { plan, target, lists, scan_seconds, estimate });
        }
        Err(error) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
        Err(error) => report.fatal = Some(error),
    }
    report.totals = totals;
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(SummaryCommand::Plan, report);
    summary.bad = unfit;
    Ok(console.finish(summary))
}

fn split(args: &PlanArgs) -> Option<Split> {
    match (args.parts, args.part_size, args.part_files) {
        (Some(count), ..) => Some(Split::Count(count as usize)),
        (None, None, None) => None,
        (None, bytes, entries) => Some(Split::Limit { bytes, entries }),
    }
}

/// The counts that a prediction needs.
fn counts(plan: &Plan) -> TreeCounts {
    let tally = &plan.tally;
    TreeCounts {
        entries: tally.entries,
        files: tally.files,
        bytes: tally.bytes.saturating_sub(tally.hole_bytes),
        small_files: tally.small_files,
        small_bytes: tally.small_bytes,
        largest: plan.largest_files.first().map_or(0, |file| file.figure),
        errors: tally.errors,
    }
}

/// Scans and analyses a tree.
struct Looker<'a> {
    at: Location,
    scan: ScanOptions,
    links: Links,
    request: PlanOptions,
    console: &'a Arc<Console>,
    cancel: &'a Cancel,
    begun: Instant,
}

struct PlannedTree {
    plan: Plan,
    /// The files of the lists.
    lists: Vec<String>,
    scan_seconds: f64,
}

/// State shared by the threads of a scan.
struct PlanState {
    collector: Collector,
    lists: PlanLists,
    shown: Instant,
    failure: Option<Error>,
}

impl Looker<'_> {
    fn open(&self, ends: &mut Ends) -> Result<OpenedSource> {
        let mut sources = open_sources(ends, &self.at, self.links)?;
        match (sources.len(), sources.pop()) {
            (1, Some(only)) => Ok(only),
            (many, _) => {
                let cause = format!("it matches entries in {many} directories, and one is expected");
                Err(usage("take the source", cause).on(self.at.to_string()))
            }
        }
    }

    fn look(self, mut ends: Ends, lists: PlanLists) -> Result<PlannedTree> {
        let source = self.open(&mut ends)?;
        if self.request.split.is_some() && !source.is_dir {
            return Err(usage("split into parts", "it is not a directory").on(self.at.to_string()));
        }
        let begun = Instant::now();
        let collector = Collector::new(self.request);
        let state = Mutex::new(PlanState { collector, lists, shown: begun, failure: None });
        source.scan(&self.scan, &|batch| {
            let mut state = state.lock();
            let PlanState { collector, lists, shown, failure } = &mut *state;
            for failed in &batch.errors {
                self.console.failed(failed.path.as_bytes(), &failed.error);
            }
            if let Err(error) = collector.add(&batch, lists) {
                failure.get_or_insert(error);
            }
            if shown.elapsed() >= LOOK {
                *shown = Instant::now();
                let (entries, bytes) = collector.so_far();
                show_found(self.console, self.begun, entries, bytes);
            }
            if failure.is_some() || self.cancel.is_cancelled() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let scan_seconds = begun.elapsed().as_secs_f64();
        if self.cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "scan the tree", "interrupted"));
        }
        let PlanState { collector, mut lists, failure, .. } = state.into_inner();
        if let Some(error) = failure {
            return Err(error);
        }
        let plan = collector.finish(&mut lists)?;
        let written = lists.finish(plan.parts.len(), self.console)?;
        Ok(PlannedTree { plan, lists: written, scan_seconds })
    }
}

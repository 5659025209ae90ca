//! What `copy` and `sync` do: open the ends, copy one group of sources after the other, tell how it ended.

mod index;
mod merge;
mod mounted;
mod nice;
mod plan;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{
    Compare, Delta, Error, ErrorKind, Location, Pace, Place, Report, Result, Side, SinkOptions, Source,
};
use haul_engine::{Cancel, CopyOptions, Delete, OnFull, OtherSource, Part, RateController};

use self::index::Wanted;
use self::merge::merge;
use self::mounted::Mounted;
use self::plan::{Planned, Planner};
use crate::args::{IndexArgs, LimitArgs};
use crate::ends::{Ends, Note, source_place};
use crate::exit_code::Exit;
use crate::jobs::Job;
use crate::render::{Command, Console, OutputSettings, PartReporter, RequestCounts, Start, Summary};
use crate::settings::{LinkSettings, Timetable, TransferSettings, read_paths, usage};
use crate::signals;

/// A copy that was asked for.
pub(super) struct Transfer {
    /// The command that asked.
    pub(super) command: Command,
    /// Where data is read from.
    pub(super) sources: Vec<Location>,
    /// Where it goes to.
    pub(super) destination: Location,
    /// The list of the paths to copy, and whether NUL ends them.
    pub(super) files_from: Option<(OsString, bool)>,
    /// How.
    pub(super) settings: TransferSettings,
    /// How ends are reached.
    pub(super) link: LinkSettings,
    /// What is done when the destination is full.
    pub(super) on_full: OnFull,
    /// How much it may take.
    pub(super) limits: LimitArgs,
    /// What is remembered of the source.
    pub(super) index: IndexArgs,
    /// What is shown.
    pub(super) output: OutputSettings,
    /// What is removed.
    pub(super) delete: Option<Delete>,
}

/// Runs a transfer.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(transfer: Transfer) -> Result<Exit> {
    let Transfer {
        command,
        sources,
        destination,
        files_from,
        mut settings,
        mut link,
        on_full,
        limits,
        index,
        output,
        delete,
    } = transfer;
    link.limit_operations(limits.iops);
    link.check_endpoint(sources.iter().chain([&destination]))?;
    refuse_truncating(files_from.as_ref(), &output)?;
    let wanted = Wanted::resolve(&index, &sources, &destination, files_from.is_some())?;
    let mounted = match (&delete, sources.as_slice()) {
        (Some(delete), [source]) => Mounted::check(source, &destination, delete.force)?,
        _ => None,
    };
    let paths = files_from.map(|(file, from0)| read_paths(&file, from0)).transpose()?;
    let verbose = output.verbose;
    let job = (!settings.sink.dry_run).then(|| Job::start().map(Arc::new)).transpose();
    let start = Start {
        job: job.as_ref().ok().cloned().flatten(),
        command,
        sources: sources.iter().map(ToString::to_string).collect(),
        destination: Some(destination.to_string()),
    };
    let console = Console::start(output, &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    for ops in [&link.ops.source, &link.ops.destination] {
        ops.until(cancel.flag());
    }
    let pace = link.peer.pace.clone();
    let table = limits.bwlimit;
    let governor =
        RateController::start(pace.clone(), Box::new(move || table.as_ref().and_then(Timetable::rate_now)))?;
    let kept = job.and_then(|job| job.map_or(Ok(()), |job| job.listen(governor.handle())));
    if let Some(error) = kept.err().filter(|_| verbose) {
        console.note(&format!("this run cannot be seen or changed with `haul jobs`: {error}"));
    }
    let is_local = |end: &Location| matches!(end, Location::Local(_));
    let all_here = is_local(&destination) && sources.iter().all(is_local);
    if all_here && settings.sink.delta == Delta::Alike {
        // Nothing is sent: to read the old file too is worth while only where that saves writing.
        settings.sink.delta = Delta::Sharing;
    }
    if !link.remote_only.is_empty() && all_here {
        let options = link.remote_only.join(", ");
        let verb = if link.remote_only.len() == 1 { "has" } else { "have" };
        console.note(&format!("{options} {verb} no effect: both ends are on this machine"));
    }
    let patience = Duration::from_secs(link.peer.ssh.timeout.into());
    let begun = Instant::now();
    let noted = Arc::clone(&console);
    let note: Note = Arc::new(move |text| noted.note(text));
    let mut ends = Ends::new(link, Arc::clone(&note), cancel.flag());
    let index = wanted.as_ref().map(|wanted| wanted.open(&console));
    ends.remember(index.clone());
    nice::settle(governor, limits.nice, note, &mut ends)?;
    let mut runner = Runner {
        ends,
        destination,
        settings,
        indexed: index.is_some(),
        on_full,
        patience,
        delete,
        console,
        cancel,
        pace,
        report: Report::default(),
        expected: None,
    };
    let planner = Planner {
        ends: &mut runner.ends,
        destination: &runner.destination,
        scan: &runner.settings.scan,
        prehashes: prehashes(&runner.settings.sink),
        removes: delete.is_some(),
        console: &runner.console,
        limit: &runner.pace.outbound,
        cancel: &runner.cancel,
        is_only: false,
        totals: &mut runner.report.totals,
    };
    let mut retry = None;
    let ended = planner.plan(&sources, paths).and_then(|planned| {
        if let [one] = planned.as_slice() {
            retry = one.retry.as_ref().map(|source| format!("{source} {}", runner.destination));
        }
        runner.copy_all(planned)
    });
    if let Err(error) = ended {
        runner.report.fatal.get_or_insert(error);
    }
    if let (Some(wanted), Some(index)) = (&wanted, &index)
        && runner.report.fatal.is_none()
        && !runner.report.interrupted
        && !runner.settings.sink.dry_run
    {
        wanted.save(index, &runner.console);
    }
    if let Some(mounted) = mounted
        && runner.report.fatal.is_none()
        && !runner.report.interrupted
        && !runner.report.refused
        && !runner.settings.sink.dry_run
    {
        mounted.remember();
    }
    runner.report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(command, runner.report);
    summary.retry = retry;
    summary.index = index.map(|index| index.used());
    summary.requests = runner.ends.requests();
    // A run asks what a dry one asks, and then what that has found out.
    summary.estimate = runner.expected.map(|mut expected| {
        expected.join(summary.requests.unwrap_or_default());
        expected
    });
    Ok(runner.console.finish(summary))
}

struct Runner {
    ends: Ends,
    destination: Location,
    settings: TransferSettings,
    /// An earlier run may have seen the source.
    indexed: bool,
    on_full: OnFull,
    patience: Duration,
    delete: Option<Delete>,
    console: Arc<Console>,
    cancel: Cancel,
    pace: Pace,
    report: Report,
    /// With `-n`, requests to stores that were not made.
    expected: Option<RequestCounts>,
}

impl Runner {
    fn copy_all(&mut self, planned: Vec<Planned>) -> Result<()> {
        let count = planned.len();
        let all: Vec<(Place, Arc<dyn Source>)> =
            planned.iter().map(|part| (part.place.clone(), Arc::clone(&part.source))).collect();
        for (at, part) in planned.into_iter().enumerate() {
            let others =
                all.iter().enumerate().filter(|(other, (place, _))| *other != at && *place == part.place);
            let rivals = others
                .map(|(other, (_, source))| OtherSource {
                    source: Arc::clone(source),
                    is_earlier: other < at,
                })
                .collect();
            if self.cancel.is_cancelled() {
                self.report.interrupted = true;
            }
            if self.report.fatal.is_some() || self.report.interrupted {
                break;
            }
            self.copy(part, rivals, at + 1 == count)?;
        }
        Ok(())
    }

    /// The destination to be looked at, if something may have to be removed there.
    fn view(&mut self, place: &Place) -> Result<Option<Arc<dyn Source>>> {
        if self.delete.is_none() {
            return Ok(None);
        }
        let view = self.ends.view(&self.destination, place)?;
        // Where there is nothing yet, nothing will have to go.
        Ok(view.root()?.map(|_| view))
    }

    /// Over SFTP files can only be replaced, and nothing there compares.
    fn may_change_in_place(&mut self) -> Result<()> {
        let in_place = self.settings.sink.in_place;
        if !in_place
            || matches!(self.destination, Location::Local(_))
            || self.ends.is_peer(&self.destination)?
        {
            return Ok(());
        }
        let why = "without haul there, files can only be replaced";
        let error = Error::new(ErrorKind::Unsupported, Side::Destination, "change in place", why);
        Err(error.on(self.destination.to_string()).with_hint("leave out --inplace, or install haul there"))
    }

    fn copy(&mut self, part: Planned, rivals: Vec<OtherSource>, last: bool) -> Result<()> {
        self.may_change_in_place()?;
        let from = (&part.at, &source_place(&part.at));
        let sink = self.ends.sink_of(from, &self.destination, &part.place, &self.settings.sink)?;
        let preview = if self.indexed {
            let dry_run = SinkOptions { dry_run: true, ..self.settings.sink.clone() };
            Some(self.ends.sink_of(from, &self.destination, &part.place, &dry_run)?)
        } else {
            None
        };
        let view = self.view(&part.place)?;
        let bill =
            if self.settings.sink.dry_run { self.ends.bill(&part.at, &self.destination) } else { None };
        let reporter = PartReporter {
            console: &self.console,
            root_name: &part.root_name,
            before: self.report.totals,
            last,
            listed: part.paths.is_some(),
            pace: Some(&self.pace),
            bill: bill.as_ref(),
        };
        let options = CopyOptions {
            scan: part.scan,
            files_from: part.paths,
            checksum: self.settings.sink.compare == Compare::Checksum,
            dry_run: self.settings.sink.dry_run,
            delta: self.settings.sink.delta != Delta::Never && !self.settings.sink.dry_run,
            in_place: self.settings.sink.in_place,
            ignore_existing: self.settings.sink.ignore_existing,
            delete: self.delete,
            trust: self.settings.trust.of(&part.at, &self.destination, me().as_deref()),
            on_full: self.on_full,
            timeout: self.patience,
            workers: 0,
        };
        let parts = [Part { source: part.source, sink, preview, view, other_sources: rivals }];
        let report = haul_engine::copy(&parts, options, &reporter, &self.cancel);
        merge(&mut self.report, report);
        if let Some(bill) = bill {
            self.expected.get_or_insert_default().expect(bill.cost());
        }
        Ok(())
    }
}

/// The name of who runs this.
fn me() -> Option<Vec<u8>> {
    uzers::get_current_username().map(std::os::unix::ffi::OsStringExt::into_vec)
}

/// Whether large files are there and have changed a little, by the words of the person: then what is hashed of the source
/// while the login goes on is not in vain.
fn prehashes(sink: &SinkOptions) -> bool {
    let compares = sink.delta != Delta::Never && !sink.dry_run;
    compares && (sink.in_place || sink.delta == Delta::Always)
}

/// The list of failed paths must not be written over the list that is being read.
fn refuse_truncating(files_from: Option<&(OsString, bool)>, output: &OutputSettings) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let (Some((read, _)), Some((written, _))) = (files_from, &output.failed) else { return Ok(()) };
    let (Ok(read), Ok(written)) = (std::fs::metadata(read), std::fs::metadata(written)) else {
        return Ok(());
    };
    if read.is_file() && (read.dev(), read.ino()) == (written.dev(), written.ino()) {
        let error = usage("obey --failed", "it is the list that --files-from reads");
        return Err(error.with_hint("write the failed paths to another file"));
    }
    Ok(())
}

//! Shared by `copy` and `sync`: runs a job and shows it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use haul_core::{Compare, Compress, Delta, Location, Result};
use haul_engine::{Delete, OnFull};
use haul_job::{CopyJob, IndexRequest, JobOutcome, JobRequest, Observer, RemoveSources};

use super::output::transfer_settings;
use super::start::start_run;
use crate::args::TransferArgs;
use crate::exit_code::Exit;
use crate::jobs::Job;
use crate::locations::{parse_location, parse_relative};
use crate::render::{Console, Items, OutputSettings, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, TransferSettings, read_paths, usage};
use crate::stop_time;
use crate::values::{ManifestFormat, Timetable};

/// A `copy` or `sync`, as given on the command line.
pub(super) struct Transfer<'a> {
    /// The command.
    pub(super) command: SummaryCommand,
    /// The sources.
    pub(super) sources: &'a [OsString],
    /// The destination.
    pub(super) destination: &'a OsString,
    /// More destinations, which get the same.
    pub(super) others: &'a [OsString],
    /// The file of `--files-from`.
    pub(super) files_from: Option<OsString>,
    /// The options.
    pub(super) args: &'a TransferArgs,
    /// The deletions of `sync`.
    pub(super) delete: Option<Delete>,
    /// Whether `copy` removes the source files.
    pub(super) remove_sources: Option<RemoveSources>,
}

/// Runs a `copy` or `sync`.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if the request is invalid, and errors of starting threads.
pub(super) fn run(transfer: &Transfer<'_>) -> Result<Exit> {
    let Transfer { command, files_from, args, .. } = transfer;
    let request = request(transfer)?;
    let sends = request.destinations().any(|at| !matches!(at, Location::Local(_)));
    let items = Items { sends, preserve: request.sink.preserve };
    let output = OutputSettings { items, ..transfer_settings(args) };
    let mut link = LinkSettings::resolve(&args.link, &args.given)?
        .explaining(output.verbose || output.json)
        .compressed(&args.compress, &args.given)
        .with_stores(&args.store, &args.given)
        .storing(&args.stored);
    link.config.limit_operations(args.limits.iops);
    link.check_endpoint(request.sources.iter().chain(request.destinations()))?;
    let timeout_note = link.timeout_note(request.sources.iter().chain(request.destinations()));
    refuse_truncating(files_from.as_ref(), &output)?;
    let sources = request.sources.iter().map(ToString::to_string).collect();
    let destinations: Vec<String> = request.destinations().map(ToString::to_string).collect();
    let destination = Some(destinations.join(", "));
    let job = CopyJob::check(request, files_from.is_some())?;
    let listed = files_from.as_ref().map(|file| read_paths(file, args.filter.from0)).transpose()?;
    let (paths, list) = listed.unzip();
    let verbose = output.verbose;
    let record = (!args.dry_run).then(|| Job::start().map(Arc::new)).transpose();
    let start =
        Start { job: record.as_ref().ok().cloned().flatten(), command: *command, sources, destination };
    let (console, cancel) = start_run(output, &start)?;
    stop_time::watch(&args.limits, &cancel, &console)?;
    timeout_note.iter().for_each(|text| console.note(text));
    if job.is_local() {
        note_useless(&link, &console);
    }
    let schedule = args.limits.bwlimit.clone();
    let rate = Box::new(move || schedule.as_ref().and_then(Timetable::rate_now));
    let listen = |handle| {
        let listening = record.and_then(|record| record.map_or(Ok(()), |record| record.listen(handle)));
        if let Some(error) = listening.err().filter(|_| verbose) {
            console.note(&format!("`haul jobs` will not list this run: {error}"));
        }
    };
    let observer: Arc<dyn Observer> = console.clone();
    let is_uncompressed = link.config.peer.compress == Compress::Never;
    let outcome = job.run(link.config, paths, (rate, listen), &observer, &cancel);
    let outcome = outcome.inspect_err(|error| console.ended_by(error))?;
    list.and_then(|list| list.warning(&outcome.report)).iter().for_each(|text| console.note(text));
    let mut summary = summary(*command, outcome);
    summary.is_uncompressed = is_uncompressed;
    Ok(console.finish(summary))
}

/// The request that the options make.
fn request(transfer: &Transfer<'_>) -> Result<JobRequest> {
    let args = transfer.args;
    let parse = |text| parse_location(text, &args.given);
    let source = |text| if args.relative { parse_relative(text, &args.given) } else { parse(text) };
    let sources = transfer.sources.iter().map(|text| source(text)).collect::<Result<_>>()?;
    let destination = parse(transfer.destination)?;
    let others = transfer.others.iter().map(|other| parse(other)).collect::<Result<Vec<_>>>()?;
    let TransferSettings { scan, mut sink, trust, changes } = TransferSettings::resolve(args)?;
    if transfer.remove_sources.is_some() {
        refuse_unproved(args)?;
        sink.compare = Compare::Checksum;
    }
    if !others.is_empty() {
        refuse_twice(&destination, &others)?;
        sink.delta = Delta::Never;
    }
    let index = args.index.index.clone();
    Ok(JobRequest {
        sources,
        destination,
        others,
        relative: args.relative,
        scan,
        links: args.links.links(),
        sink,
        trust,
        changes,
        // One that is full ends, and the others go on.
        on_full: if transfer.others.is_empty() { args.full.on_full } else { OnFull::Fail },
        locked: args.locked.retries(),
        nice: args.limits.nice,
        index: index.map(|file| IndexRequest { file, refresh: args.index.index_refresh }),
        delete: transfer.delete,
        pages: args.pages.checks(),
        digests: args.manifest.is_some(),
        trusts_clones: args.no_verify,
        sha256: args.manifest.is_some() && args.manifest_format == ManifestFormat::Sha256,
        remove_sources: transfer.remove_sources,
    })
}

/// Refuses a destination that is given twice. Two names of one directory fail by file: the second one finds it locked.
fn refuse_twice(destination: &Location, others: &[Location]) -> Result<()> {
    let mut names = HashSet::new();
    for at in [destination].into_iter().chain(others) {
        let name = at.to_string();
        if !names.insert(name.trim_end_matches('/').to_owned()) {
            return Err(usage("use --all-destinations", "this destination is given twice").on(name));
        }
    }
    Ok(())
}

/// Refuses options with which a file may be at the destination without proof. `mv` is no option, so the definition of
/// the command line does not find them.
fn refuse_unproved(args: &TransferArgs) -> Result<()> {
    let refused = [
        (args.no_fsync, "--no-fsync", "a crash could lose files that were removed at SRC"),
        (args.no_verify, "--no-verify", "it removes only files whose content was read at DST"),
        (args.links.copy_links, "--copy-links", "it does not remove the targets of links"),
        (args.dirlinks.keep_dirlinks, "--keep-dirlinks", "a symbolic link at DST may lead to SRC itself"),
        (args.size_only, "--size-only", "it removes only files whose content was compared"),
        (args.index.index.is_some(), "--index", "it removes only files that were looked at in this run"),
        (!args.older.link_dest.is_empty(), "--link-dest", "it removes only files whose content was compared"),
        (!args.older.compare_dest.is_empty(), "--compare-dest", "it removes only files that DST has"),
    ];
    match refused.into_iter().find(|(given, ..)| *given) {
        Some((_, option, why)) => Err(usage("move with", format!("{why}: omit {option}")).on(option)),
        None => Ok(()),
    }
}

fn summary(command: SummaryCommand, outcome: JobOutcome) -> Summary {
    let mut summary = Summary::new(command, outcome.report);
    summary.retry = outcome.retry;
    summary.index = outcome.index;
    summary.requests = outcome.requests;
    summary.estimate = outcome.estimate;
    summary
}

/// Reports options that have no effect on a local copy.
fn note_useless(link: &LinkSettings, console: &Console) {
    if link.remote_only.is_empty() {
        return;
    }
    let options = link.remote_only.join(", ");
    let verb = if link.remote_only.len() == 1 { "has" } else { "have" };
    console.note(&format!("{options} {verb} no effect: source and destination are local"));
}

/// Refuses to write the list of failed paths over the list that is being read.
fn refuse_truncating(files_from: Option<&OsString>, output: &OutputSettings) -> Result<()> {
    let (Some(read), Some((written, _))) = (files_from, &output.failed) else { return Ok(()) };
    let (Ok(read), Ok(written)) = (fs::metadata(read), fs::metadata(written)) else {
        return Ok(());
    };
    if read.is_file() && (read.dev(), read.ino()) == (written.dev(), written.ino()) {
        let error = usage("use --failed", "it is the file that --files-from reads");
        return Err(error.with_hint("write the failed paths to another file"));
    }
    Ok(())
}

//! Running a job: check the request, open everything, copy one part after the other, join the reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{
    BufferPool, Compare, DirLinks, Error, Links, Location, Note, Pace, PageChecks, Place, RelPath, Report,
    Result, ScanOptions, Side, SinkOptions, Source,
};
use haul_engine::RateHandle;
use haul_engine::{
    Cancel, ConfirmedEntries, Copied, CopyOptions, Delete, EndPair, LockedRetries, MetadataChanges, OnFull,
    OtherSource, RateController,
};

use super::delta::DeltaPlan;
use super::ends::Ends;
use super::ends_config::EndsConfig;
use super::fan_out::{open_all, split_pool};
use super::index::{IndexRequest, SourceIndex};
use super::merge::merge;
use super::mistakes::{at_destination, at_host, refuse_home};
use super::mounted::MountCheck;
use super::nice;
use super::observer::Observer;
use super::part::PartReporter;
use super::place::source_place;
use super::plan::{PlannedCopy, Planner};
use super::remove_sources::{CopiedPart, RemoveSources, check_ends, refuse_one_tree};
use super::replacing::check_replacing;
use super::requests::RequestCounts;
use super::sha256::{Verified, end_to_hash};
use super::trust::TrustRequest;
use haul_engine::Paths;

/// A copy or a sync.
pub struct JobRequest {
    /// Where data is read from.
    pub sources: Vec<Location>,
    /// Where data is written to.
    pub destination: Location,
    /// Destinations that get the same. The request has no [`JobRequest::delete`], [`JobRequest::remove_sources`],
    /// [`JobRequest::index`] and [`JobRequest::relative`] then.
    pub others: Vec<Location>,
    /// Keep the paths of the sources at the destination.
    pub relative: bool,
    /// Filters. The rules are relative to the transfer: see [`haul_core::filter::Rules::below`].
    pub scan: ScanOptions,
    /// How the sources treat symbolic links.
    pub links: Links,
    /// The options of the destination. [`haul_core::SinkOptions::delta`] is the user's wish, which the job adapts.
    pub sink: SinkOptions,
    /// Trust in the source.
    pub trust: TrustRequest,
    /// Changes of modes, owners and groups. Names at the destination are not resolved yet.
    pub changes: MetadataChanges,
    /// The action when the destination is full.
    pub on_full: OnFull,
    /// How files are copied that another program has open.
    pub locked: LockedRetries,
    /// Yield to other work on all hosts.
    pub nice: bool,
    /// Report the digest of each file. Requires [`Compare::Checksum`].
    pub digests: bool,
    /// Do not read files that the file system cloned.
    pub trusts_clones: bool,
    /// The sources check pages of database files.
    pub pages: Option<PageChecks>,
    /// Report the SHA-256 of each file, too. Requires `digests`.
    pub sha256: bool,
    /// Keep an index of the source.
    pub index: Option<IndexRequest>,
    /// Delete the entries that the source lacks.
    pub delete: Option<Delete>,
    /// Remove the entries of the sources that were copied.
    pub remove_sources: Option<RemoveSources>,
}

/// A request whose source, index and mount point were checked, before anything was changed or connected.
pub struct CopyJob {
    request: JobRequest,
    index: Option<SourceIndex>,
    mounted: Option<MountCheck>,
}

/// How a job ended.
#[derive(Default)]
pub struct JobOutcome {
    /// The joined report of all parts.
    pub report: Report,
    /// SRC and DST of a command that copies only the failed paths, if there is one.
    pub retry: Option<String>,
    /// How much of the index was used.
    pub index: Option<haul_index::Use>,
    /// Requests to object stores.
    pub requests: Option<RequestCounts>,
    /// In a dry run, the requests that the run itself needs.
    pub estimate: Option<RequestCounts>,
}

impl CopyJob {
    /// Checks a request. `listed`: the paths to copy come from a list.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the source cannot have an index, or was unmounted since the last run.
    pub fn check(request: JobRequest, listed: bool) -> Result<Self> {
        let JobRequest { sources, destination, index, delete, .. } = &request;
        let index = match index {
            Some(index) => SourceIndex::resolve(index, sources, destination, listed)?,
            None => None,
        };
        if delete.is_some_and(|delete| !delete.force && delete.max.is_none()) {
            request.destinations().try_for_each(|destination| refuse_home(sources, destination))?;
        }
        let mounted = match (delete, sources.as_slice()) {
            (Some(delete), [source]) => MountCheck::check(source, destination, delete.force)?,
            _ => None,
        };
        Ok(Self { request, index, mounted })
    }

    /// Whether source and destination are local.
    pub fn is_local(&self) -> bool {
        let is_local = |end: &Location| matches!(end, Location::Local(_));
        self.request.destinations().all(is_local) && self.request.sources.iter().all(is_local)
    }

    /// Runs the job. `rate` is the rate limit over time; `with_handle` gets a handle that changes it during the run.
    ///
    /// # Errors
    /// If a thread cannot be started. Other errors are in the report.
    pub fn run(
        self,
        mut config: EndsConfig,
        paths: Option<Paths>,
        (rate, with_handle): (haul_engine::PlannedRate, impl FnOnce(RateHandle)),
        observer: &Arc<dyn Observer>,
        cancel: &Cancel,
    ) -> Result<JobOutcome> {
        for ops in [&config.ops.source, &config.ops.destination] {
            ops.until(cancel.flag());
        }
        let pace = config.peer.pace.clone();
        let controller = RateController::start(pace.clone(), rate)?;
        controller.add(config.pace_of_stores());
        with_handle(controller.handle());
        let delta = DeltaPlan::of(&self.request.sink, self.is_local());
        let Self { request, index, mounted } = self;
        let timeout = Duration::from_secs(config.peer.ssh.timeout.into());
        let begun = Instant::now();
        let noted = Arc::clone(observer);
        let note: Note = Arc::new(move |text| noted.note(text));
        let copies = split_pool(&mut config.pool, 1 + request.others.len());
        let mut ends = Ends::new(config, Arc::clone(&note), cancel.flag());
        let opened = index.as_ref().map(|index| index.open(&**observer));
        ends.use_index(opened.clone());
        ends.check_pages(request.pages);
        if request.digests {
            ends.read_all_content();
        }
        nice::watch(controller, request.nice, Arc::clone(&note), &mut ends)?;
        let mut runner = JobRunner {
            ends,
            request: &request,
            copies,
            note,
            sink: SinkOptions { delta: delta.mode, ..request.sink.clone() },
            delta,
            indexed: opened.is_some(),
            timeout,
            observer: &**observer,
            cancel,
            pace,
            report: Report::default(),
            expected: None,
            copied: Vec::new(),
        };
        let retry = runner.plan_and_copy(paths);
        let fatal = runner.report.fatal.take();
        runner.report.fatal = fatal.map(|error| request.named(error));
        runner.report.seconds = begun.elapsed().as_secs_f64();
        runner.remember(index.as_ref().zip(opened.as_deref()), mounted.as_ref());
        let requests = runner.ends.requests();
        let mut estimate = runner.expected;
        if let Some(expected) = &mut estimate {
            // The run makes the requests of the dry run, and then those that the dry run estimated.
            expected.join(requests.unwrap_or_default());
        }
        let index = opened.map(|index| index.used());
        Ok(JobOutcome { report: runner.report, retry, index, requests, estimate })
    }
}

impl JobRequest {
    /// An error of the run. Several destinations name their hosts themselves.
    fn named(&self, error: Error) -> Error {
        if self.others.is_empty() { at_host(error, Side::Destination, &self.destination) } else { error }
    }

    /// All destinations.
    pub fn destinations(&self) -> impl Iterator<Item = &Location> {
        [&self.destination].into_iter().chain(&self.others)
    }
}

/// The state of a running job.
struct JobRunner<'a> {
    ends: Ends,
    request: &'a JobRequest,
    /// Buffers for the copies of content that the other destinations get.
    copies: BufferPool,
    note: Note,
    /// The options of the destination, with the delta mode of this job.
    sink: SinkOptions,
    delta: DeltaPlan,
    /// Entries of the source may come from an index.
    indexed: bool,
    timeout: Duration,
    observer: &'a dyn Observer,
    cancel: &'a Cancel,
    pace: Pace,
    report: Report,
    /// In a dry run, requests to stores that were not made.
    expected: Option<RequestCounts>,
    /// The parts whose entries are removed at the source.
    copied: Vec<CopiedPart>,
}

impl JobRunner<'_> {
    /// Copies everything. Returns SRC and DST of a command that copies only the failed paths.
    fn plan_and_copy(&mut self, paths: Option<Paths>) -> Option<String> {
        let planner = Planner {
            ends: &mut self.ends,
            destination: &self.request.destination,
            others: &self.request.others,
            scan: &self.request.scan,
            links: self.request.links,
            prehashes: self.delta.prehashes,
            relative: self.request.relative,
            deletes: self.request.delete.is_some(),
            observer: self.observer,
            is_only: false,
            first: None,
            totals: &mut self.report.totals,
        };
        let mut retry = None;
        let ended = planner.plan(&self.request.sources, paths).and_then(|planned| {
            if let [one] = planned.as_slice() {
                let destinations: Vec<_> = self.request.destinations().map(ToString::to_string).collect();
                let option = if destinations.len() > 1 { " --all-destinations" } else { "" };
                retry = one.retry.as_ref().map(|from| format!("{from} {}{option}", destinations.join(" ")));
            }
            self.copy_all(planned)
        });
        if let Err(error) = ended {
            self.report.fatal.get_or_insert(error);
        }
        retry
    }

    fn copy_all(&mut self, planned: Vec<PlannedCopy>) -> Result<()> {
        let count = planned.len();
        let confirmed = planned.iter().map(|part| self.prepare_removal(part)).collect::<Result<Vec<_>>>()?;
        let all: Vec<_> = planned
            .iter()
            .map(|part| (part.place.clone(), Arc::clone(&part.source), part.selection.clone()))
            .collect();
        for (at, (part, confirmed)) in planned.into_iter().zip(confirmed).enumerate() {
            let others =
                all.iter().enumerate().filter(|(other, (place, ..))| *other != at && *place == part.place);
            let rivals = others
                .map(|(other, (_, source, selection))| OtherSource {
                    source: Arc::clone(source),
                    selection: selection.clone(),
                    is_earlier: other < at,
                })
                .collect();
            if self.cancel.is_cancelled() {
                self.report.interrupted = true;
            }
            if self.report.fatal.is_some() || self.report.interrupted {
                break;
            }
            self.copy(part, rivals, confirmed, at + 1 == count)?;
        }
        self.remove_sources()
    }

    /// Removes the copied entries at the sources, if the whole run came to its end.
    fn remove_sources(&mut self) -> Result<()> {
        let copied = std::mem::take(&mut self.copied);
        let Some(options) = self.request.remove_sources else { return Ok(()) };
        if self.report.fatal.is_some() || self.report.interrupted {
            return Ok(());
        }
        if options.strict && !self.report.notes.is_empty() {
            let why = "no source file was removed, because not all metadata could be set at the destination";
            self.report.not_removed = Some(why.to_owned());
            return Ok(());
        }
        for part in copied {
            let CopiedPart { source, at, place, entries, root_name, listed } = part;
            let dry_run = self.sink.dry_run;
            let bill = if dry_run { self.ends.bill(&at, &self.request.destination) } else { None };
            let view = if dry_run { None } else { Some(self.ends.view(&self.request.destination, &place)?) };
            let reporter = PartReporter {
                observer: self.observer,
                root_name: &root_name,
                source: Some(&at),
                destination: Some(&self.request.destination),
                before: self.report.totals,
                last: true,
                listed,
                bill: bill.as_ref(),
            };
            let copied = Copied { source, view, entries };
            merge(&mut self.report, haul_engine::remove_sources(&copied, &reporter, self.cancel));
            if let Some(bill) = bill {
                self.expected.get_or_insert_default().add_cost(bill.cost());
            }
            if self.report.fatal.is_some() || self.report.interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Checks that files may be removed at the source of a part. Returns the list of those that were copied.
    fn prepare_removal(&mut self, part: &PlannedCopy) -> Result<Option<Arc<ConfirmedEntries>>> {
        if self.request.remove_sources.is_none() {
            return Ok(None);
        }
        let destination = &self.request.destination;
        let is_local = matches!(destination, Location::Local(_) | Location::Object(_));
        if !is_local && !self.ends.is_peer(destination)? {
            // No haul on that host checks the content that arrives.
            self.sink.verify_disk = true;
        }
        let source = (&part.at, &source_place(&part.at), self.request.links);
        let sink = self.ends.sink_of(source, destination, &part.place, &self.sink)?;
        check_ends(&*part.source, &*sink)?;
        let mut has_inodes = |end: &Location| match end {
            Location::Local(_) => Ok(true),
            Location::Ssh { .. } => self.ends.is_peer(end),
            Location::Sftp { .. } | Location::Smb { .. } | Location::Object(_) => Ok(false),
        };
        let told_by_inodes = has_inodes(&part.at)? && has_inodes(destination)?;
        if !self.sink.dry_run && !told_by_inodes {
            let open = &mut || self.ends.sink_of(source, destination, &part.place, &self.sink);
            refuse_one_tree(&*part.source, open)?;
        }
        Ok(Some(Arc::default()))
    }

    fn copy(
        &mut self,
        part: PlannedCopy,
        rivals: Vec<OtherSource>,
        confirmed: Option<Arc<ConfirmedEntries>>,
        last: bool,
    ) -> Result<()> {
        for destination in self.request.destinations() {
            check_replacing(&mut self.ends, destination, &self.sink)?;
        }
        if let Some(entries) = &confirmed {
            self.copied.push(CopiedPart {
                source: Arc::clone(&part.source),
                at: part.at.clone(),
                place: part.place.clone(),
                entries: Arc::clone(entries),
                root_name: part.root_name.clone(),
                listed: part.paths.is_some(),
            });
        }
        let destination = &self.request.destination;
        let from = (&part.at, &source_place(&part.at), self.request.links);
        let options = SinkOptions { source_time_unit: part.source.caps().time_unit, ..self.sink.clone() };
        let is_only = self.request.others.is_empty();
        let (sink, keeps_rate) = if is_only {
            (self.ends.sink_of(from, destination, &part.place, &options)?, part.keeps_rate)
        } else {
            let places = [&part.place].into_iter().chain(&part.other_places);
            let all: Vec<_> = self.request.destinations().zip(places).collect();
            open_all(&mut self.ends, from, &all, &options, (&self.copies, &self.note))?
        };
        let preview = if self.indexed {
            let dry_run = SinkOptions { dry_run: true, ..options };
            Some(self.ends.sink_of(from, destination, &part.place, &dry_run)?)
        } else {
            None
        };
        let view = self.view(&part.place)?;
        let bill = if self.sink.dry_run { self.ends.bill(&part.at, destination) } else { None };
        let reporter = PartReporter {
            observer: self.observer,
            root_name: &part.root_name,
            source: Some(&part.at),
            // Several destinations name their hosts themselves.
            destination: is_only.then_some(destination),
            before: self.report.totals,
            last,
            listed: part.paths.is_some(),
            bill: bill.as_ref(),
        };
        let options = CopyOptions {
            scan: part.scan,
            links: self.request.links,
            files_from: part.paths,
            checksum: self.sink.compare == Compare::Checksum,
            digests: self.request.digests,
            trusts_clones: self.request.trusts_clones,
            confirmed,
            dry_run: self.sink.dry_run,
            delta: self.delta.compares,
            in_place: self.sink.in_place,
            ignore_existing: self.sink.ignore_existing,
            delete: self.request.delete,
            trust: self.request.trust.between(&part.at, destination),
            backups: self.sink.backup.as_ref().and_then(|backup| backup.names(&part.place)),
            changes: self.ends.resolve(&self.request.changes, &part.at, destination)?,
            on_full: self.request.on_full,
            locked: self.request.locked,
            is_only: self.request.sources.len() == 1,
            timeout: self.timeout,
            pace: self.pace.clone(),
            keeps_rate,
            workers: 0,
        };
        let source = Arc::clone(&part.source);
        let named = |mut report: Report| {
            report.fatal = report.fatal.map(|error| at_host(error, Side::Source, &part.at));
            // Notes name the root as it is named in the transfer, above all if it is the only file.
            if let Ok(name) = RelPath::new(&part.root_name) {
                let notes = report.notes.iter_mut().chain(&mut report.left_out);
                notes.filter(|note| note.example.is_root()).for_each(|note| note.example = name.clone());
            }
            report
        };
        let parts = [EndPair { source: part.source, sink, preview, view, other_sources: rivals }];
        if self.request.sha256 {
            let verified = Verified::new(&reporter);
            merge(&mut self.report, named(haul_engine::copy(&parts, options, &verified, self.cancel)));
            drop(parts);
            if self.report.fatal.is_none() && !self.report.interrupted {
                let there = (destination, &part.place);
                let dirlinks = if self.sink.keep_dirlinks { DirLinks::Entered } else { DirLinks::Kept };
                let end = end_to_hash(&mut self.ends, (&part.at, &source), there, dirlinks)?;
                verified.hash(&*end, self.cancel)?;
            }
        } else {
            merge(&mut self.report, named(haul_engine::copy(&parts, options, &reporter, self.cancel)));
        }
        if let Some(bill) = bill {
            self.expected.get_or_insert_default().add_cost(bill.cost());
        }
        Ok(())
    }

    /// The destination as a source, if entries may have to be deleted there.
    fn view(&mut self, place: &Place) -> Result<Option<Arc<dyn Source>>> {
        if self.request.delete.is_none() {
            return Ok(None);
        }
        let destination = &self.request.destination;
        let view = self.ends.view(destination, place)?;
        let root = view.root().map_err(|error| at_destination(error, destination))?;
        // A destination that does not exist yet has nothing to delete.
        Ok(root.map(|_| view))
    }

    /// Saves the index and the mount point for the next run, if this one came to its end.
    fn remember(&self, index: Option<(&SourceIndex, &haul_index::Index)>, mounted: Option<&MountCheck>) {
        let report = &self.report;
        if report.fatal.is_some() || report.interrupted || self.sink.dry_run {
            return;
        }
        if let Some((file, index)) = index {
            file.save(index, self.observer);
        }
        if let Some(mounted) = mounted
            && !report.refused
        {
            mounted.remember();
        }
    }
}

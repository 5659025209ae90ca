//! The state that all threads of one pass of a copy share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use haul_core::event::{Action, Content, Done};
use haul_core::filter::Rules;
use haul_core::{
    BackupNames, Changes, Entry, Error, ErrorKind, Limiter, RelPath, Result, Side, Sink, SinkCaps, Source,
    SourceCaps,
};
use haul_threads::caught;

use crate::bottleneck::Moment;
use crate::cancel::Cancel;
use crate::changes::Changer;
use crate::confirmed::{ConfirmedBy, ConfirmedEntries};
use crate::deferred::Deferred;
use crate::delete_guard::DeleteGuard;
use crate::disk_full::{DiskFullGate, GatePass};
use crate::hard_links::HardLinks;
use crate::in_flight::InFlight;
use crate::meter::{ConnectionStates, Meter};
use crate::open_files::OpenFiles;
use crate::options::{CopyOptions, EndPair, OtherSource};
use crate::queue::Queue;
use crate::repeat;
use crate::root_gate::RootGate;
use crate::scan_budget::ScanBudget;
use crate::trust::TrustFilter;

/// The largest number of worker threads, and of comparer threads.
const MAX_WORKERS: usize = 40;
/// How often progress is reported.
pub(crate) const PROGRESS: Duration = Duration::from_millis(200);

/// The state of one pass.
pub(crate) struct Run<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) source_caps: SourceCaps,
    pub(crate) sink_caps: SinkCaps,
    pub(crate) preview: Option<&'a dyn Sink>,
    pub(crate) other_sources: &'a [OtherSource],
    /// The filter rules of every source.
    pub(crate) rules: &'a Rules,
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) queue: Queue,
    pub(crate) in_flight: InFlight,
    pub(crate) open: OpenFiles,
    pub(crate) links: HardLinks,
    pub(crate) scan_budget: ScanBudget,
    pub(crate) disk_full: DiskFullGate,
    pub(crate) guard: DeleteGuard<'a>,
    pub(crate) trust: TrustFilter,
    pub(crate) backups: Option<BackupNames>,
    changer: Changer,
    /// The entries of this pass were changed in an earlier one.
    is_changed: bool,
    /// Entries that wait for a directory to be emptied; `None` in a pass that no deletion follows.
    pub(crate) deferred: Option<Arc<Deferred>>,
    /// Entries that another program has open; `None` in a pass that no other one follows.
    pub(crate) locked: Option<Deferred>,
    /// Collects the entries that the destination has, in a run that removes them at the source.
    pub(crate) confirmed: Option<Arc<ConfirmedEntries>>,
    pub(crate) timeout: Duration,
    /// The rate limit, if this run keeps it.
    limit: Option<Arc<Limiter>>,
    pub(crate) checksum: bool,
    /// The caller wants the digest of every file.
    pub(crate) digests: bool,
    /// Files that the file system cloned are read and hashed.
    pub(crate) reads_clones: bool,
    pub(crate) dry_run: bool,
    pub(crate) in_place: bool,
    pub(crate) ignore_existing: bool,
    /// If the root cannot be created, the run ends.
    pub(crate) is_only: bool,
    root_gate: RootGate,
    /// Whether large files are compared with the files that they replace. Cleared if no comparer thread can be started.
    pub(crate) delta: AtomicBool,
    /// Whether to ask the file system to clone files. Cleared once it cannot.
    pub(crate) try_clone: AtomicBool,
    /// The scan and the feeders have ended: only files that are sent again are queued.
    pub(crate) fed: AtomicBool,
    /// Whether the scan had errors.
    pub(crate) scan_failed: AtomicBool,
    aborted: AtomicBool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        part: &'a EndPair,
        options: &CopyOptions,
        rules: &'a Rules,
        meter: &'a Meter<'a>,
        cancel: &'a Cancel,
    ) -> Self {
        let (from, to) = (part.source.caps(), part.sink.caps());
        Self {
            source: &*part.source,
            sink: &*part.sink,
            source_caps: from,
            sink_caps: to,
            preview: part.preview.as_deref(),
            other_sources: &part.other_sources,
            rules,
            meter,
            cancel,
            queue: Queue::default(),
            in_flight: InFlight::default(),
            open: OpenFiles::default(),
            links: HardLinks::new(options.links),
            scan_budget: ScanBudget::default(),
            disk_full: DiskFullGate::new(options.on_full),
            guard: DeleteGuard::new(options.delete, part.view.as_deref()),
            trust: TrustFilter::new(options.trust),
            backups: options.backups.clone(),
            changer: Changer::new(&options.changes),
            is_changed: false,
            deferred: (options.delete.is_some() && part.view.is_some()).then(Arc::default),
            locked: (options.locked.times > 0 && !options.dry_run).then(Deferred::default),
            confirmed: options.confirmed.clone(),
            timeout: options.timeout,
            limit: options.keeps_rate.then(|| Arc::clone(&options.pace.outbound)),
            checksum: options.checksum,
            digests: options.digests,
            reads_clones: options.digests || !options.trusts_clones,
            dry_run: options.dry_run,
            in_place: options.in_place,
            ignore_existing: options.ignore_existing,
            is_only: options.is_only,
            root_gate: RootGate::default(),
            delta: AtomicBool::new(options.delta && from.delta && to.delta),
            try_clone: AtomicBool::new(!options.dry_run && from.local_files && to.clones),
            fed: AtomicBool::new(false),
            scan_failed: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
        }
    }

    /// The state of a second pass, after the deletion: it defers nothing and deletes nothing.
    pub(crate) fn second(
        part: &'a EndPair,
        options: &CopyOptions,
        rules: &'a Rules,
        meter: &'a Meter<'a>,
        cancel: &'a Cancel,
    ) -> Self {
        let guard = DeleteGuard::new(None, None);
        let (deferred, locked) = (None, None);
        Self { guard, deferred, locked, is_changed: true, ..Self::new(part, options, rules, meter, cancel) }
    }

    /// This pass, over entries that another program had open in the pass `first`. The deletion follows.
    pub(crate) fn before_deletion(self, first: &Self, is_last: bool) -> Self {
        let locked = (!is_last).then(Deferred::default);
        Self { deferred: first.deferred.clone(), locked, ..self }
    }

    /// Does the work of a thread. A panic in it ends the run.
    pub(crate) fn guarded(&self, work: impl FnOnce()) {
        if let Err(error) = caught(work) {
            self.abort(error);
        }
    }

    /// Waits until the rate limit allows `bytes` of content, if this run keeps it.
    pub(crate) fn keep_rate(&self, bytes: usize) {
        let Some(limit) = &self.limit else { return };
        // After an interruption, content that was already read passes: the run ends when it is written.
        limit.pass(bytes, &|| self.cancel.is_cancelled());
    }

    /// Whether no new work may begin.
    pub(crate) fn stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.aborted.load(Ordering::Relaxed)
    }

    /// Ends the run because of an error that concerns all of it.
    pub(crate) fn abort(&self, error: Error) {
        self.meter.abort(error);
        self.stop();
    }

    /// Ends the run without an error of its own.
    pub(crate) fn stop(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        self.queue.close();
    }

    /// Counts and reports a failed entry. A full disk ends the run: if the run waited for space, the error would not
    /// have come this far. The entries that meet the full disk after that one are not done, and do not count as failed.
    pub(crate) fn fail(&self, path: &RelPath, error: Error) {
        if error.kind() == ErrorKind::NoSpace {
            let is_later = self.aborted.swap(true, Ordering::Relaxed);
            self.abort(error.clone());
            if is_later {
                self.links.refuse_links_to(path);
                return;
            }
        }
        self.report_failure(path, error);
    }

    /// Counts and reports a failed entry, once the root is answered.
    pub(crate) fn report_failure(&self, path: &RelPath, error: Error) {
        self.links.refuse_links_to(path);
        if let Some(error) = self.root_gate.keep(path, error) {
            self.meter.fail(path, error);
        }
    }

    /// The root was found: failures wait for its answer.
    pub(crate) fn expect_root(&self) {
        if self.is_only {
            self.root_gate.close();
        }
    }

    /// The destination has answered about the root: reports the failures so far.
    pub(crate) fn root_answered(&self) {
        for (path, error) in self.root_gate.open() {
            self.meter.fail(&path, error);
        }
    }

    /// The root cannot be created, which is all that has to be said.
    pub(crate) fn root_refused(&self) {
        self.root_gate.refuse();
    }

    /// The list of deferred entries, if this error defers an entry.
    pub(crate) fn deferred_for(&self, error: &Error) -> Option<&Deferred> {
        self.deferred.as_deref().filter(|_| error.kind() == ErrorKind::NotEmpty)
    }

    /// The list of entries that another program has open, if this error adds an entry to it.
    pub(crate) fn locked_for(&self, error: &Error) -> Option<&Deferred> {
        self.locked.as_ref().filter(|_| error.kind() == ErrorKind::Locked)
    }

    /// Defers the entry if a directory that is not empty is in its place, or if another program has it open. A deferred
    /// entry is neither copied nor failed yet.
    pub(crate) fn defer(&self, entry: &Entry, error: &Error) -> bool {
        let Some(deferred) = self.deferred_for(error).or_else(|| self.locked_for(error)) else {
            return false;
        };
        if let Err(error) = deferred.add(entry, error) {
            self.abort(error);
        }
        true
    }

    /// An entry of the scan as it is to be copied. `None` if it was rejected; then it has been counted.
    pub(crate) fn admit_scanned(&self, entry: Entry) -> Option<Entry> {
        if self.is_changed { self.trusted(entry) } else { self.admit(entry) }
    }

    /// An entry of the source as it is to be copied. `None` if it was rejected; then it has been counted.
    pub(crate) fn admit(&self, entry: Entry) -> Option<Entry> {
        let entry = self.trusted(entry)?;
        let path = entry.path.clone();
        self.changer.change(entry).map_err(|error| self.report_failure(&path, error)).ok()
    }

    fn trusted(&self, entry: Entry) -> Option<Entry> {
        if let Err(why) = entry.check() {
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "copy", why);
            self.report_failure(&entry.path, error.on(entry.path.as_bytes()));
            return None;
        }
        if self.backups.as_ref().is_some_and(|names| names.hold(&entry.path)) {
            let cause = "its name belongs to the backups of the destination";
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "copy", cause);
            let hint = "choose another --suffix or --backup-dir, or exclude it";
            self.report_failure(&entry.path, error.on(entry.path.as_bytes()).with_hint(hint));
            return None;
        }
        let (path, len) = (entry.path.clone(), entry.len);
        let admitted = self.trust.admit(entry);
        if admitted.is_none() {
            self.meter.totals().left += 1;
            let (kind, changes, content) = (None, Changes::NONE, Content::Unknown);
            self.meter.done(&path, Done { action: Action::Left, kind, changes, len, content });
        }
        admitted
    }

    /// The destination has the entry.
    pub(crate) fn confirm(&self, entry: &Entry, proof: ConfirmedBy) {
        if let Some(confirmed) = &self.confirmed {
            confirmed.add(entry, proof).unwrap_or_else(|error| self.abort(error));
        }
    }

    /// The destination has the entry as a further name of the one at `to`.
    pub(crate) fn confirm_link(&self, entry: &Entry, to: &RelPath, proof: ConfirmedBy) {
        if let Some(confirmed) = &self.confirmed {
            confirmed.add_link(entry, to, proof).unwrap_or_else(|error| self.abort(error));
        }
    }

    /// Waits while the destination is full. `false` if the run has ended.
    pub(crate) fn wait_for_space(&self) -> bool {
        match self.disk_full.pass(|| self.stopped()) {
            GatePass::Go => true,
            GatePass::Stopped => false,
            GatePass::Over(error) => {
                self.abort(error);
                false
            }
        }
    }

    /// Asks the sink, and asks again about each question that met a full disk or a temporary error.
    ///
    /// # Errors
    /// The error of `ask`.
    pub(crate) fn ask_sink<Q: Clone, A>(
        &self,
        questions: &[Q],
        ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
    ) -> Result<Vec<Result<A>>> {
        let pause = |wait| {
            thread::sleep(wait);
            !self.stopped()
        };
        let repeated = |questions: &[Q]| repeat::ask(questions, pause, &ask);
        self.disk_full.ask(self.meter, questions, || self.wait_for_space(), repeated)
    }

    /// The number of workers that keeps the connections busy: while a worker sends one batch another one reads the
    /// next, and requests to a remote source overlap.
    pub(crate) fn workers(&self, wanted: usize) -> usize {
        let (from, to) = (self.source.streams() as usize, self.writers() as usize);
        let auto = if from + to == 0 { 4 } else { 2 * from + to + 2 };
        if wanted == 0 { auto.min(MAX_WORKERS) } else { wanted.min(MAX_WORKERS) }
    }

    /// How many batches should be written at once.
    fn writers(&self) -> u32 {
        let per_stream = self.sink_caps.writers_per_stream.saturating_mul(self.sink.streams());
        per_stream.saturating_add(self.sink_caps.writers)
    }

    /// Looks at the activities and limits of the run, which has this many workers.
    pub(crate) fn look(&self, workers: usize) {
        self.meter.look(|| {
            let is_starving = !self.fed.load(Ordering::Relaxed) && self.queue.is_empty();
            Moment {
                by_iops: self.source.is_held_by_iops() || self.sink.is_held_by_iops(),
                starving: if is_starving { workers } else { 0 },
                ..Moment::default()
            }
        });
    }

    /// Reports the progress.
    pub(crate) fn show_progress(&self) {
        self.meter.show_in_flight(self.in_flight.current());
        self.meter.progress(&self.connections(), self.open.count());
    }

    /// The state of the connections, if there are any.
    pub(crate) fn connections(&self) -> ConnectionStates {
        let (from, to) = (self.source.streams(), self.sink.streams());
        let (received, sent) = (self.source.traffic(), self.sink.traffic());
        ConnectionStates {
            streams: from + to,
            reads: from > 0,
            writes: to > 0,
            wire_bytes: received.wire_bytes + sent.wire_bytes,
            matched_bytes: received.matched_bytes + sent.matched_bytes,
            resumed_bytes: sent.resumed_bytes,
            relayed_bytes: if to > 0 { received.wire_bytes } else { 0 },
            method: sent.method.or(received.method),
            tcp: sent.tcp.or(received.tcp),
        }
    }
}

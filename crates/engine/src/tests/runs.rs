//! Runs a copy between two ends in memory, and records its events.

use std::sync::Arc;
use std::time::Duration;

use haul_core::event::{Action, Content};
use haul_core::sync::Mutex;
use haul_core::{
    Digest, Entry, ErrorKind, Event, Pace, RelPath, Report, Reporter, ScanOptions, Sink, Source, Totals,
};

use super::faults::PlannedErrors;
use super::memory::{MemorySink, MemorySource, MemoryTree, SinkView, tree};
use crate::{Cancel, CopyOptions, EndPair, LockedRetries, MetadataChanges, OnFull, OtherSource, Trust, copy};

/// The events of a run.
#[derive(Default)]
pub(super) struct Events {
    pub(super) actions: Mutex<Vec<(Action, String)>>,
    /// The digests of files, by name.
    pub(super) digests: Mutex<Vec<(String, Digest)>>,
    pub(super) failures: Mutex<Vec<(String, ErrorKind)>>,
    pub(super) warnings: Mutex<Vec<String>>,
    pub(super) notes: Mutex<Vec<String>>,
    /// The bytes of each report of a run that only reads.
    pub(super) checked: Mutex<Vec<u64>>,
}

impl Reporter for Events {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Entry { path, done } => {
                self.actions.lock().push((done.action, path.to_string()));
                if let Content::Digest(digest) = done.content {
                    self.digests.lock().push((path.to_string(), digest));
                }
            }
            Event::Failed(failure) => {
                self.failures.lock().push((failure.path.to_string(), failure.error.kind()));
            }
            Event::Warning(text) => self.warnings.lock().push((*text).to_owned()),
            Event::Full { error, then } => {
                self.warnings.lock().push(format!("the destination is full: {error}; {then}"));
            }
            Event::Note(text) => self.notes.lock().push((*text).to_owned()),
            Event::Progress(progress) => self.checked.lock().extend(progress.checked_bytes),
            Event::InFlight(_) | Event::BadPage(_) => {}
        }
    }
}

/// Two ends, and how to copy.
pub(super) struct Setup {
    pub(super) source: Arc<MemorySource>,
    pub(super) sink: Arc<MemorySink>,
    pub(super) faults: Arc<PlannedErrors>,
    pub(super) events: Events,
    pub(super) cancel: Cancel,
    pub(super) other_sources: Vec<OtherSource>,
    pub(super) preview: Option<Arc<dyn Sink>>,
    pub(super) view: bool,
}

impl Setup {
    pub(super) fn new(source: impl IntoIterator<Item = Entry>, old: impl IntoIterator<Item = Entry>) -> Self {
        Self::with_sink(source, MemorySink { tree: Mutex::new(tree(old)), ..MemorySink::default() })
    }

    pub(super) fn with_sink(source: impl IntoIterator<Item = Entry>, sink: MemorySink) -> Self {
        let faults = Arc::clone(&sink.faults);
        let source = MemorySource {
            tree: Mutex::new(tree(source)),
            faults: Arc::clone(&faults),
            ..MemorySource::default()
        };
        Self {
            source: Arc::new(source),
            sink: Arc::new(sink),
            faults,
            events: Events::default(),
            cancel: Cancel::default(),
            other_sources: Vec::new(),
            preview: None,
            view: true,
        }
    }

    pub(super) fn run(&mut self, options: CopyOptions) -> Report {
        let view = self.view.then(|| Arc::new(SinkView(Arc::clone(&self.sink))) as Arc<dyn Source>);
        let part = EndPair {
            source: self.source.clone(),
            sink: self.sink.clone(),
            preview: self.preview.clone(),
            view,
            other_sources: std::mem::take(&mut self.other_sources),
        };
        copy(&[part], options, &self.events, &self.cancel)
    }

    /// Runs with the default options, and returns the totals of a run that is not aborted.
    pub(super) fn copy(&mut self) -> Totals {
        let report = self.run(options());
        assert_eq!((report.fatal, report.interrupted), (None, false));
        assert_eq!(counted(&report.totals), report.totals.found);
        report.totals
    }

    pub(super) fn old(&self) -> MemoryTree {
        self.sink.tree.lock().clone()
    }

    pub(super) fn has(&self, at: &str) -> bool {
        self.sink.tree.lock().contains_key(&RelPath::new(at.as_bytes()).unwrap())
    }

    pub(super) fn failures(&self) -> Vec<(String, ErrorKind)> {
        let mut failures = self.events.failures.lock().clone();
        failures.sort_by(|a, b| a.0.cmp(&b.0));
        failures
    }

    pub(super) fn actions(&self) -> Vec<(Action, String)> {
        let mut actions = self.events.actions.lock().clone();
        actions.sort_by(|a, b| a.1.cmp(&b.1));
        actions
    }
}

/// Every counter that ends an entry.
pub(super) fn counted(totals: &Totals) -> u64 {
    totals.copied + totals.made + totals.updated + totals.same + totals.left + totals.linked + totals.failed
}

pub(super) fn options() -> CopyOptions {
    CopyOptions {
        scan: ScanOptions::default(),
        links: haul_core::Links::Kept,
        files_from: None,
        checksum: false,
        digests: false,
        trusts_clones: false,
        confirmed: None,
        dry_run: false,
        delete: None,
        delta: false,
        in_place: false,
        trust: Trust::default(),
        changes: MetadataChanges::default(),
        backups: None,
        ignore_existing: false,
        is_only: true,
        on_full: OnFull::Fail,
        locked: LockedRetries::default(),
        timeout: Duration::from_secs(60),
        pace: Pace::default(),
        keeps_rate: false,
        workers: 0,
    }
}

//! The state of a probe, shared by measuring and examining.

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::probe::{ProbeResult, ProbeTask, ReadFigures, WriteFigures};
use haul_core::{EntryKind, Error, ErrorKind, Links, Location, Place, Result, ScanOptions, Side, Source};
use haul_engine::Cancel;
use haul_job::{Ends, Landing, Smb, destination_place, not_found, root_name, source_place};
use haul_probe::cpu;
use haul_probe::survey::{Survey, TreeCounts};
use haul_remote::Peer;

use crate::commands::found::show_found;
use crate::render::Console;

/// Interval of progress updates.
const LOOK: Duration = Duration::from_millis(200);

/// The state of a probe.
pub(super) struct Probe {
    pub(super) ends: Ends,
    pub(super) scan: ScanOptions,
    /// The maximum time to count the source.
    pub(super) quick: Option<Duration>,
    /// The value of `--streams`.
    pub(super) streams: Option<u32>,
    pub(super) console: Arc<Console>,
    pub(super) cancel: Cancel,
    pub(super) begun: Instant,
}

/// A location with its session.
pub(super) struct Spot {
    pub(super) at: Location,
    pub(super) place: Place,
    /// The remote haul; `None` if the location is local or on a share.
    pub(super) peer: Option<Arc<Peer>>,
    /// The session with the share, if it is on one.
    pub(super) share: Option<Arc<Smb>>,
}

impl Spot {
    /// Runs a task on the host of the location, or on this one for a share.
    pub(super) fn run(&self, task: &ProbeTask) -> Result<ProbeResult> {
        match (&self.share, &self.peer) {
            (Some(share), _) => self.run_on_share(share, task),
            (None, Some(peer)) => peer.probe(task),
            (None, None) => haul_probe::run(task, &resolve_here),
        }
    }

    /// A share is read and written from here, so the CPU is the one of this host.
    fn run_on_share(&self, share: &Arc<Smb>, task: &ProbeTask) -> Result<ProbeResult> {
        match task {
            ProbeTask::Read { place, samples } => {
                let (figures, kept) = share.probe_reads(place, samples)?;
                Ok(ProbeResult::Read(ReadFigures { cpu: cpu::measure(&kept, true), ..figures }))
            }
            ProbeTask::Write { place } => {
                let figures = share.probe_writes(place)?;
                Ok(ProbeResult::Write(WriteFigures { cpu: cpu::measure(&[], false), ..figures }))
            }
            ProbeTask::Facts { .. } | ProbeTask::Clock | ProbeTask::Work => {
                let why = "a share is no host with haul, so there is nothing to examine";
                let error = Error::new(ErrorKind::Unsupported, Side::Wire, "examine", why);
                Err(error.on(self.at.to_string()).with_hint("`haul probe SRC DST` measures shares"))
            }
        }
    }
}

/// The path of a local place.
pub(super) fn resolve_here(place: &Place) -> Result<PathBuf> {
    haul_local::resolve(place, false)
}

/// A counted tree.
pub(super) struct CountedTree {
    pub(super) survey: Survey,
    pub(super) counts: TreeCounts,
    pub(super) seconds: f64,
    /// Whether the whole tree was counted.
    pub(super) complete: bool,
}

impl Probe {
    pub(super) fn spot(&mut self, at: &Location, place: Place) -> Result<Spot> {
        let share = self.ends.share_of(at)?;
        Ok(Spot { at: at.clone(), place, peer: self.ends.peer_of(at)?, share })
    }

    /// Opens the source, and finds its place at the destination.
    pub(super) fn open(
        &mut self,
        source: &Location,
        destination: &Location,
    ) -> Result<(Arc<dyn Source>, Place)> {
        let opened = self.ends.source(source, &source_place(source), Links::Kept)?;
        let Some(root) = opened.root()? else { return Err(not_found(source, Side::Source)) };
        let landing = Landing { is_dir: root.kind == EntryKind::Dir, several: false, listed: false };
        let name = root_name(source, landing).unwrap_or_default();
        self.scan.rules = self.scan.rules.below(name);
        Ok((opened, destination_place(source, destination, landing)))
    }

    /// Counts a tree.
    pub(super) fn count(&self, source: &dyn Source) -> Result<CountedTree> {
        struct SurveyState {
            survey: Survey,
            shown: Instant,
            complete: bool,
        }
        let begun = Instant::now();
        let state = Mutex::new(SurveyState { survey: Survey::default(), shown: begun, complete: true });
        let lock = || state.lock();
        // Not `self`: the sessions with other machines belong to one thread.
        let (console, cancel, quick, since) = (&self.console, &self.cancel, self.quick, self.begun);
        source.scan(&self.scan, &|batch| {
            let mut state = lock();
            state.survey.add(&batch);
            if state.shown.elapsed() >= LOOK {
                state.shown = Instant::now();
                let counts = state.survey.counts();
                show_found(console, since, counts.entries, counts.bytes);
            }
            let late = quick.is_some_and(|limit| begun.elapsed() >= limit);
            if late || cancel.is_cancelled() {
                state.complete = false;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.go_on()?;
        let SurveyState { survey, complete, .. } = state.into_inner();
        let counts = survey.counts();
        Ok(CountedTree { counts, survey, seconds: begun.elapsed().as_secs_f64(), complete })
    }

    /// Returns an error if the run was interrupted.
    pub(super) fn go_on(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "measure", "interrupted"));
        }
        Ok(())
    }
}

/// The error of an unexpected reply.
pub(super) fn strange() -> Error {
    Error::new(ErrorKind::Protocol, Side::Wire, "measure", "the remote haul sent an unexpected reply")
}

//! `haul probe`: what a copy will meet.

mod doctor;
mod measure;
mod rerun;

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{EntryKind, Error, ErrorKind, Location, Place, Report, Result, ScanOptions, Side, Source};
use haul_engine::Cancel;
use haul_probe::survey::{Counts, Survey};
use haul_remote::Peer;

use super::found::show_found;
use super::output::settings;
use crate::args::ProbeArgs;
use crate::ends::{Ends, Landing, destination_place, parse_file_end, root_name, source_place};
use crate::exit_code::Exit;
use crate::render::{Command, Console, Start, Summary};
use crate::settings::{LinkSettings, one_stdin, scan_options, usage};
use crate::signals;

/// Time between two looks at the progress of a scan.
const LOOK: Duration = Duration::from_millis(200);

/// Measures the ends and the link, or looks for faults.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(args: &ProbeArgs) -> Result<Exit> {
    let (source, destination) = match args.ends.as_slice() {
        [source, destination] => (parse_file_end(source)?, Some(parse_file_end(destination)?)),
        [one] if args.doctor => (parse_file_end(one)?, None),
        _ => return Err(usage("probe", "there must be two ends, SRC and DST; one will do with --doctor")),
    };
    one_stdin(&args.filter, None)?;
    let scan = scan_options(&args.filter)?;
    let link = LinkSettings::resolve(&args.link)?;
    let start = Start {
        command: Command::Probe,
        sources: vec![source.to_string()],
        destination: destination.as_ref().map(ToString::to_string),
        job: None,
    };
    let console = Console::start(settings(&args.output), &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    let noted = Arc::clone(&console);
    let ends = Ends::new(link, Arc::new(move |text| noted.note(text)), cancel.flag());
    let quick = args.quick.map(|seconds| Duration::from_secs(seconds.into()));
    let streams = args.link.streams;
    let mut probe = Probe { ends, scan, quick, streams, console, cancel, begun: Instant::now() };
    let ended = match &destination {
        Some(destination) if !args.doctor => probe.measure(&source, destination).map(|()| false),
        destination => probe.examine(&source, destination.as_ref()),
    };
    let seconds = probe.begun.elapsed().as_secs_f64();
    let (report, bad) = match ended {
        Ok(bad) => (Report { seconds, ..Report::default() }, bad),
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            (Report { interrupted: true, seconds, ..Report::default() }, false)
        }
        Err(error) => (Report { fatal: Some(error), seconds, ..Report::default() }, false),
    };
    let mut summary = Summary::new(Command::Probe, report);
    summary.bad = bad;
    Ok(probe.console.finish(summary))
}

/// What a probe works with.
struct Probe {
    ends: Ends,
    scan: ScanOptions,
    /// How long the source is counted.
    quick: Option<Duration>,
    /// What `--streams` says.
    streams: Option<u32>,
    console: Arc<Console>,
    cancel: Cancel,
    begun: Instant,
}

/// One end: the machine that it is on, and where it is there.
struct Spot {
    at: Location,
    place: Place,
    /// The remote haul; `None` where the end is on this machine.
    peer: Option<Arc<Peer>>,
}

impl Spot {
    /// Has something measured where the end is.
    fn run(&self, task: &ProbeTask) -> Result<ProbeResult> {
        match &self.peer {
            Some(peer) => peer.probe(task),
            None => haul_probe::run(task, &resolve_here),
        }
    }
}

/// Where a place on this machine is.
fn resolve_here(place: &Place) -> Result<PathBuf> {
    haul_local::resolve(place, false)
}

/// A tree that was counted.
struct Counted {
    survey: Survey,
    counts: Counts,
    seconds: f64,
    /// Whether it was counted to its end.
    complete: bool,
}

impl Probe {
    fn spot(&mut self, at: &Location, place: Place) -> Result<Spot> {
        Ok(Spot { at: at.clone(), place, peer: self.ends.peer_of(at)? })
    }

    /// Opens the source and finds where it would land.
    fn open(&mut self, source: &Location, destination: &Location) -> Result<(Arc<dyn Source>, Place)> {
        let opened = self.ends.source(source, &source_place(source))?;
        let Some(root) = opened.root()? else {
            let error = Error::new(ErrorKind::NotFound, Side::Source, "find", "no such file or directory");
            return Err(error.on(source.to_string()));
        };
        let landing = Landing { is_dir: root.kind == EntryKind::Dir, several: false, listed: false };
        let name = root_name(source, landing).unwrap_or_default();
        self.scan.rules = self.scan.rules.iter().map(|rule| rule.below(name)).collect();
        Ok((opened, destination_place(source, destination, landing)))
    }

    /// Counts a tree.
    fn count(&self, source: &dyn Source) -> Result<Counted> {
        struct State {
            survey: Survey,
            shown: Instant,
            complete: bool,
        }
        let begun = Instant::now();
        let state = Mutex::new(State { survey: Survey::default(), shown: begun, complete: true });
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
        let State { survey, complete, .. } = state.into_inner();
        let counts = survey.counts();
        Ok(Counted { counts, survey, seconds: begun.elapsed().as_secs_f64(), complete })
    }

    /// Ends it here if the person wants that.
    fn go_on(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "measure", "it was interrupted"));
        }
        Ok(())
    }
}

/// The remote end answered something else than what it was asked.
fn strange() -> Error {
    Error::new(ErrorKind::Protocol, Side::Wire, "measure", "the far end answered something else")
}

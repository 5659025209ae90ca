//! One measured run.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::link::{EmulatedLink, LinkTraffic};
use crate::measure::{HostProcesses, ProcessWatch};
use crate::process::{CommandPlace, RunningCommand, await_listener, last_lines, run_aside_at};
use crate::record::{BenchPass, LinkRecord, RunOutcome, RunRecord};
use crate::stop::Stop;
use crate::tool::{CopyCommands, NC_PORT};

/// The pause between two looks at the processes, at least.
const LOOK: Duration = Duration::from_millis(20);
/// Looking takes at most one part in so many of the time.
const LOOK_SHARE: u32 = 50;
/// The time between two values of the throughput.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long the far processes have to go after the near ones have gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where runs take place.
pub(crate) struct RunStage<'a> {
    /// The link; none for copies within one machine.
    pub(crate) link: Option<&'a EmulatedLink>,
    /// The processes of the near machine.
    pub(crate) near: &'a HostProcesses,
    /// The processes of the far machine, and the one that stays.
    pub(crate) far: Option<(&'a HostProcesses, u32)>,
    /// The wish to stop.
    pub(crate) stop: &'a Stop,
    /// The file for the output of the tools.
    pub(crate) log: PathBuf,
    /// A run that takes longer is ended.
    pub(crate) timeout: Duration,
}

/// Runs a plan once. Errors are those of the harness; those of the tool are an outcome.
pub(crate) fn timed(stage: &RunStage, plan: &CopyCommands) -> Result<RunRecord> {
    let _ = fs::remove_file(&stage.log);
    let place = |netns, side| CommandPlace { netns, side: Some(side), log: &stage.log };
    if let Some(text) = &plan.before {
        run_aside_at(text, place(stage.link.map(EmulatedLink::near), stage.near), stage.stop)?;
    }
    let listener = match (&plan.listener, stage.link, stage.far) {
        (Some(text), Some(link), Some((far, _))) => {
            let mut running = RunningCommand::shell(text, place(Some(link.far()), far))?;
            await_listener(&mut running, NC_PORT, stage.stop)?;
            Some(running)
        }
        _ => None,
    };
    let mut meters = Meters::start(stage);
    let start = Instant::now();
    let near = RunningCommand::shell(&plan.near, place(stage.link.map(EmulatedLink::near), stage.near))?;
    let ended = watch(stage, start, near, listener, &mut meters);

    if let Some((far, sshd)) = stage.far {
        let gone = matches!(ended, Ok(TimedEnd::Done(_))) && far.wait_quiet(Some(sshd), FAREWELL);
        if !gone {
            far.kill_all(Some(sshd));
        }
    }
    stage.near.kill_all(None);
    let (seconds, outcome) = match ended? {
        TimedEnd::Done(when) => (when - start, RunOutcome::Ok),
        TimedEnd::TooLong => (start.elapsed(), RunOutcome::Timeout),
        TimedEnd::Bad(when, status) => {
            let said = fs::read_to_string(&stage.log).unwrap_or_default();
            (when - start, RunOutcome::Failed(format!("{status}: {}", last_lines(&said))))
        }
    };
    Ok(meters.finish(seconds, outcome))
}

enum TimedEnd {
    Done(Instant),
    Bad(Instant, ExitStatus),
    TooLong,
}

/// Waits for the end and keeps the meters going.
fn watch(
    stage: &RunStage,
    start: Instant,
    mut near: RunningCommand,
    mut listener: Option<RunningCommand>,
    meters: &mut Meters,
) -> Result<TimedEnd> {
    loop {
        stage.stop.check()?;
        if start.elapsed() > stage.timeout {
            return Ok(TimedEnd::TooLong);
        }
        let pause = meters.look();
        let Some((when, status)) = near.wait_for(pause)? else {
            continue;
        };
        if !status.success() {
            return Ok(TimedEnd::Bad(when, status));
        }
        let Some(listener) = &mut listener else {
            return Ok(TimedEnd::Done(when));
        };
        if let Some((later, status)) = listener.wait_for(pause)? {
            let last = when.max(later);
            return Ok(if status.success() { TimedEnd::Done(last) } else { TimedEnd::Bad(last, status) });
        }
    }
}

/// All that is measured during a run.
struct Meters<'a> {
    near: ProcessWatch<'a>,
    far: Option<ProcessWatch<'a>>,
    link: Option<&'a EmulatedLink>,
    link_cpu: f64,
    traffic: [LinkTraffic; 2],
    series: [Vec<u64>; 2],
    last: [u64; 2],
    next_look: Instant,
    next_value: Instant,
}

impl<'a> Meters<'a> {
    fn start(stage: &RunStage<'a>) -> Self {
        let traffic = stage.link.map(EmulatedLink::traffic).unwrap_or_default();
        let now = Instant::now();
        Self {
            near: ProcessWatch::start(stage.near),
            far: stage.far.map(|(far, _)| ProcessWatch::start(far)),
            link: stage.link,
            link_cpu: stage.link.map_or(0.0, EmulatedLink::cpu_seconds),
            traffic,
            series: Default::default(),
            last: traffic.map(|way| way.bytes),
            next_look: now,
            next_value: now + INTERVAL,
        }
    }

    /// Samples the traffic and the processes, each when it is due. Returns the time until the next sample.
    fn look(&mut self) -> Duration {
        let now = Instant::now();
        let mut passed = 0;
        while now >= self.next_value {
            passed += 1;
            self.next_value += INTERVAL;
        }
        if passed > 0 {
            self.note_traffic(passed);
        }
        if now >= self.next_look {
            self.near.sample();
            if let Some(far) = &mut self.far {
                far.sample();
            }
            self.next_look = now + LOOK.max(now.elapsed() * LOOK_SHARE);
        }
        let next = match self.link {
            Some(_) => self.next_look.min(self.next_value),
            None => self.next_look,
        };
        next.saturating_duration_since(Instant::now())
    }

    /// Notes the bytes that were delivered in the `passed` intervals since the last call, evenly divided among them.
    fn note_traffic(&mut self, passed: u64) {
        let Some(link) = self.link else {
            return;
        };
        for (way, traffic) in link.traffic().iter().enumerate() {
            let bytes = traffic.bytes - self.last[way];
            let each = |at: u64| bytes * (at + 1) / passed - bytes * at / passed;
            self.series[way].extend((0..passed).map(each));
            self.last[way] = traffic.bytes;
        }
    }

    fn finish(mut self, time: Duration, outcome: RunOutcome) -> RunRecord {
        self.note_traffic(1);
        let link = self.link.map(|link| {
            let [there, back] = link.traffic();
            let [there_series, back_series] = self.series;
            LinkRecord {
                cpu_seconds: link.cpu_seconds() - self.link_cpu,
                there: there.since(self.traffic[0]),
                back: back.since(self.traffic[1]),
                interval: INTERVAL.as_secs_f64(),
                there_series,
                back_series,
            }
        });
        let run = RunRecord::new(0, BenchPass::First, outcome, time.as_secs_f64());
        RunRecord { near: self.near.finish(), far: self.far.map(ProcessWatch::finish), link, ..run }
    }
}

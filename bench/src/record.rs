//! The raw results, as they are written to JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::dataset::TreeSize;
use crate::link::{LinkSpec, LinkTraffic, TcpSpec};
use crate::measure::Usage;
use crate::units::show_date;

/// Everything of one invocation.
#[derive(Debug, Serialize)]
pub(crate) struct BenchRecord {
    /// The machine.
    pub(crate) host: BenchHost,
    /// Whether the sizes are those of a smoke test.
    pub(crate) quick: bool,
    /// Rounds asked for.
    pub(crate) rounds: usize,
    /// TCP in both namespaces.
    pub(crate) tcp: TcpSpec,
    /// Whether CPU times are those of cgroups, or sampled.
    pub(crate) cgroups: bool,
    /// The cases in the order they were run.
    pub(crate) cases: Vec<CaseRecord>,
}

/// The machine.
#[derive(Debug, Serialize)]
pub(crate) struct BenchHost {
    /// When the runs began.
    pub(crate) date: String,
    /// Release of the kernel.
    pub(crate) kernel: String,
    /// Model of the CPU.
    pub(crate) cpu: String,
    /// How many CPUs.
    pub(crate) cores: usize,
    /// Bytes of memory.
    pub(crate) memory: u64,
}

/// One case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseRecord {
    /// Its name.
    pub(crate) case: String,
    /// The description of the case.
    pub(crate) about: String,
    /// Direction, rate and round-trip time in words.
    pub(crate) way: String,
    /// The link.
    pub(crate) link: Option<LinkSpec>,
    /// Bytes that wait before packets are dropped.
    pub(crate) queue_bytes: Option<u64>,
    /// Where the trees were.
    pub(crate) directory: String,
    /// Name of the data set.
    pub(crate) data: String,
    /// The size of the data set.
    pub(crate) extent: TreeSize,
    /// The delay of each request to the slow side, in seconds.
    pub(crate) delay: Option<f64>,
    /// Whether only tools of the same promise are compared.
    pub(crate) by_promise: bool,
    /// The tools in the order they were run.
    pub(crate) tools: Vec<ToolRecord>,
    /// Tools that were left out and why.
    pub(crate) skipped: Vec<(String, String)>,
}

/// One tool in one case.
#[derive(Debug, Serialize)]
pub(crate) struct ToolRecord {
    /// Its name.
    pub(crate) tool: String,
    /// The version that it prints.
    pub(crate) version: String,
    /// Whether it is a peer.
    pub(crate) peer: bool,
    /// Whether the copy is on the disk when it ends.
    pub(crate) durable: bool,
    /// The command.
    pub(crate) command: String,
    /// The command that waits on the far machine.
    pub(crate) listener: Option<String>,
    /// The runs.
    pub(crate) runs: Vec<RunRecord>,
}

/// Whether the target was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BenchPass {
    /// It was not.
    First,
    /// It was complete.
    Again,
    /// It was not, and the run only served to make it.
    Prepare,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "is", content = "why")]
pub(crate) enum RunOutcome {
    /// Copied and compared.
    Ok,
    /// Ended since it took too long.
    Timeout,
    /// The tool failed.
    Failed(String),
    /// The copy is not like the original.
    Mismatch(String),
}

#[cfg(test)]
impl ToolRecord {
    /// One of which nothing but its runs matters.
    pub(crate) fn of_runs(name: &str, peer: bool, runs: Vec<RunRecord>) -> Self {
        Self {
            tool: name.to_owned(),
            version: String::new(),
            peer,
            durable: false,
            command: String::new(),
            listener: None,
            runs,
        }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRecord {
    /// Round, from 1.
    pub(crate) round: usize,
    /// Whether the target was there.
    pub(crate) pass: BenchPass,
    /// How it ended.
    pub(crate) outcome: RunOutcome,
    /// Seconds from the start of the command to the end of its last process.
    pub(crate) seconds: f64,
    /// The near machine.
    pub(crate) near: Usage,
    /// The far machine.
    pub(crate) far: Option<Usage>,
    /// The link.
    pub(crate) link: Option<LinkRecord>,
    /// The number of requests to the slow file system, by kind.
    pub(crate) requests: Option<BTreeMap<String, u64>>,
}

impl RunRecord {
    /// A run that took so long, of which nothing else was measured.
    pub(crate) fn new(round: usize, pass: BenchPass, outcome: RunOutcome, seconds: f64) -> Self {
        Self { round, pass, outcome, seconds, near: Usage::default(), far: None, link: None, requests: None }
    }

    /// The number of all requests to the slow file system.
    pub(crate) fn all_requests(&self) -> Option<u64> {
        Some(self.requests.as_ref()?.values().sum())
    }
}

/// The link in one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkRecord {
    /// CPU seconds of the emulation, which include the receiving network stack.
    pub(crate) cpu_seconds: f64,
    /// From near to far.
    pub(crate) there: LinkTraffic,
    /// From far to near.
    pub(crate) back: LinkTraffic,
    /// Seconds between two values of the series.
    pub(crate) interval: f64,
    /// Bytes delivered from near to far in each interval.
    pub(crate) there_series: Vec<u64>,
    /// Bytes delivered from far to near in each interval.
    pub(crate) back_series: Vec<u64>,
}

impl BenchHost {
    /// This machine, now.
    pub(crate) fn here() -> Self {
        let field = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map_or(String::new(), |(_, value)| value.trim().to_owned())
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let kilobytes = field("/proc/meminfo", "MemTotal");
        Self {
            date: show_date(now.as_secs()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kilobytes.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024,
        }
    }
}

impl BenchRecord {
    /// Writes it to a file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether something went wrong that is not just a slow peer.
    pub(crate) fn has_failures(&self) -> bool {
        let tools = self.cases.iter().flat_map(|case| &case.tools);
        let mut runs = tools.flat_map(|tool| tool.runs.iter().map(move |run| (tool.peer, &run.outcome)));
        runs.any(|(peer, outcome)| match outcome {
            RunOutcome::Ok => false,
            RunOutcome::Timeout => !peer,
            RunOutcome::Failed(_) | RunOutcome::Mismatch(_) => true,
        })
    }
}

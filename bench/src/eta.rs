//! How true the time left is that haul shows: real copies over a link, and the prediction after a fifth of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::dataset::{Dataset, GIBIBYTE, MIXED, SMALL};
use crate::leftovers::BenchScratch;
use crate::link::{EmulatedLink, LinkSpec, TcpSpec};
use crate::measure::HostProcesses;
use crate::process::{run_aside, run_aside_in};
use crate::run::utf8;
use crate::sshd::BenchSshd;
use crate::stop::Stop;
use crate::units::{parse_rate, parse_time};

/// Many small files, one large file, and both; each with a rate of the link that makes its copy take about a minute. In a
/// run of seconds the start counts for too much.
const TREES: [(&Dataset, u64); 3] = [(&SMALL, 20_000_000), (&GIBIBYTE, 100_000_000), (&MIXED, 100_000_000)];
/// The name of the run that deletes the tree of small files.
const DELETION: &str = "deletion";
/// The operations in a second at which it takes about a minute.
const DELETION_IOPS: u32 = 4000;
/// The share of a run after which its prediction is judged.
const JUDGED: f64 = 0.2;

/// The copies to make, or the events of an earlier one.
#[derive(Args)]
pub(crate) struct EtaArgs {
    /// Bits per second of the link [default: for each tree, so that its copy takes about a minute].
    #[arg(long, value_parser = parse_rate)]
    rate: Option<u64>,
    /// Round-trip time of the link.
    #[arg(long, default_value = "10ms", value_parser = parse_time)]
    rtt: Duration,
    /// Judge the output of `haul copy --json` in this file; make no copies.
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Write the events of each copy to a file in this directory.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Only these trees: small, gibibyte, mixed; and deletion, which deletes a copy of the small one.
    #[arg(long, value_delimiter = ',')]
    trees: Vec<String>,
    /// Directory of the data.
    #[arg(long, default_value = "/var/tmp/haul-bench")]
    dir: PathBuf,
    /// The program haul [default: target/release/haul, or on the path].
    #[arg(long)]
    pub(crate) haul: Option<PathBuf>,
    /// More options for haul, such as "--bwlimit 5M".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    haul_args: String,
}

/// Judges the events in a file.
pub(crate) fn judge_file(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    head();
    PredictedRun::parse(&text)?.print(&path.display().to_string());
    Ok(())
}

/// Pushes and pulls each tree, deletes one, and prints a line for each run.
pub(crate) fn run(args: &EtaArgs, haul: &str, stop: &Stop) -> Result<()> {
    if let Some(dir) = &args.save {
        fs::create_dir_all(dir)?;
    }
    let chosen = |name: &str| args.trees.is_empty() || args.trees.iter().any(|tree| tree == name);
    head();
    for (tree, rate) in TREES {
        if chosen(tree.name) {
            run_tree(args, haul, stop, tree, args.rate.unwrap_or(rate))?;
        }
    }
    if chosen(DELETION) { run_deletion(args, haul, stop) } else { Ok(()) }
}

/// Deletes a copy of the tree of small files, with so many operations in a second that it takes about a minute.
fn run_deletion(args: &EtaArgs, haul: &str, stop: &Stop) -> Result<()> {
    let made = SMALL.prepare(&args.dir, stop)?;
    let scratch = BenchScratch::new(&args.dir)?;
    let [log, source, copy] = ["tool.log", "source", "copy"].map(|name| scratch.path().join(name));
    fs::create_dir(&source)?;
    // haul takes a source without any file for one that is not mounted.
    fs::write(source.join("kept"), "")?;
    let (tree, source, copy) = (utf8(&made.path)?, utf8(&source)?, utf8(&copy)?);
    run_aside(&format!("cp -a {tree} {copy}"), &log, stop)?;
    let options = format!("--json --force-delete --iops {DELETION_IOPS} {}", args.haul_args);
    let events = run_aside(&format!("{haul} sync {options} {source}/ {copy}/"), &log, stop)?;
    if let Some(dir) = &args.save {
        fs::write(dir.join("deletion.jsonl"), &events)?;
    }
    PredictedRun::parse(&events)?.print("small, deleted");
    Ok(())
}

fn run_tree(args: &EtaArgs, haul: &str, stop: &Stop, tree: &Dataset, rate: u64) -> Result<()> {
    let made = tree.prepare(&args.dir, stop)?;
    let scratch = BenchScratch::new(&args.dir)?;
    let link = EmulatedLink::new(&LinkSpec::new(rate, args.rtt), &TcpSpec::default())?;
    let remote = HostProcesses::new(None, "far");
    let sshd = BenchSshd::start(&scratch.path().join("far"), &link, &remote, stop)?;
    let (log, shell, host) = (scratch.path().join("tool.log"), sshd.access.command(), &sshd.access.host);
    for route in ["push", "pull"] {
        // Copies stay until the end, and nothing of an earlier one is written during the next: both would slow the start
        // of a run and not its rest.
        rustix::fs::syncfs(fs::File::open(scratch.path())?)?;
        let copy = scratch.path().join(route);
        let (source, copy) = (utf8(&made.path)?, utf8(&copy)?);
        let (from, to) = match route {
            "push" => (source.to_owned(), format!("root@{host}:{copy}")),
            _ => (format!("root@{host}:{source}"), copy.to_owned()),
        };
        let options = format!("--json {} -e '{shell}' --remote-haul {haul}", args.haul_args);
        let events = run_aside_in(link.near(), &format!("{haul} copy {options} {from}/ {to}/"), &log, stop)?;
        if let Some(dir) = &args.save {
            fs::write(dir.join(format!("{}-{route}.jsonl", tree.name)), &events)?;
        }
        PredictedRun::parse(&events)?.print(&format!("{}, {route}", tree.name));
    }
    Ok(())
}

fn head() {
    println!("predicted / left: the time left that haul showed after a fifth of the run, and the real one");
    println!("at the end: the time that was left, at the most, while haul showed at most 1 s");
    println!(
        "{:24} {:>8} {:>10} {:>8} {:>6} {:>11}  limit",
        "copy", "seconds", "predicted", "left", "ratio", "at the end"
    );
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RunEvent {
    Progress {
        seconds: f64,
        eta_seconds: Option<f64>,
        limit: Option<String>,
    },
    Summary {
        seconds: f64,
    },
    #[serde(other)]
    Other,
}

/// The predictions of a run.
struct PredictedRun {
    seconds: f64,
    /// The first line after a fifth of the run: its time, its prediction, and the limit that it names.
    judged: Option<(f64, Option<f64>, String)>,
    /// The time that was left, at the most, while at most a second was shown.
    at_the_end: f64,
}

impl PredictedRun {
    fn parse(text: &str) -> Result<Self> {
        let events = text.lines().filter(|line| line.starts_with('{'));
        let events: Vec<RunEvent> = events.map(serde_json::from_str).collect::<Result<_, _>>()?;
        let end = events.iter().find_map(|event| match event {
            RunEvent::Summary { seconds } => Some(*seconds),
            _ => None,
        });
        let seconds = end.context("the run has no summary")?;
        let (mut judged, mut at_the_end) = (None, 0.0_f64);
        for event in events {
            let RunEvent::Progress { seconds: at, eta_seconds, limit } = event else { continue };
            if eta_seconds.is_some_and(|eta| eta <= 1.0) {
                at_the_end = at_the_end.max(seconds - at);
            }
            if at >= seconds * JUDGED && judged.is_none() {
                judged = Some((at, eta_seconds, limit.unwrap_or_default()));
            }
        }
        Ok(Self { seconds, judged, at_the_end })
    }

    fn print(&self, name: &str) {
        let (predicted, left, ratio, limit) = match &self.judged {
            None => ("no line".to_owned(), String::new(), String::new(), ""),
            Some((at, None, limit)) => {
                ("unknown".to_owned(), format!("{:.1}", self.seconds - at), String::new(), limit.as_str())
            }
            Some((at, Some(eta), limit)) => {
                let left = self.seconds - at;
                (format!("{eta:.1}"), format!("{left:.1}"), format!("{:.2}", eta / left), limit.as_str())
            }
        };
        let (seconds, end) = (self.seconds, self.at_the_end);
        println!("{name:24} {seconds:8.1} {predicted:>10} {left:>8} {ratio:>6} {end:>11.1}  {limit}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_after_a_fifth_is_judged_and_so_is_the_end() {
        let text = "{\"type\":\"start\",\"schema\":1}\n\
            {\"type\":\"progress\",\"seconds\":1.0,\"eta_seconds\":null,\"limit\":\"source\"}\n\
            {\"type\":\"progress\",\"seconds\":2.5,\"eta_seconds\":6.0,\"limit\":\"link\"}\n\
            {\"type\":\"progress\",\"seconds\":7.0,\"eta_seconds\":0.5,\"limit\":null}\n\
            {\"type\":\"progress\",\"seconds\":9.5,\"eta_seconds\":0.5,\"limit\":null}\n\
            a line for people\n\
            {\"type\":\"summary\",\"seconds\":10.0}\n";
        let run = PredictedRun::parse(text).unwrap();
        assert_eq!((run.seconds, run.at_the_end), (10.0, 3.0));
        assert_eq!(run.judged, Some((2.5, Some(6.0), "link".to_owned())));
        assert!(PredictedRun::parse("{\"type\":\"start\"}\n").is_err());
    }
}

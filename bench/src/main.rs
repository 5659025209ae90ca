//! Benchmarks of haul and its peers: real programs, a real sshd, an emulated link.
//!
//! ```text
//! haul-bench list
//! haul-bench run wan1g lan --rounds 3 --json results.json --markdown
//! haul-bench stream --size 60G
//! haul-bench stages
//! haul-bench link --rate 1g --rtt 60ms -- ping -c 3 10.77.0.2
//! ```

mod bucket;
mod cases;
mod clients;
mod dataset;
mod eta;
mod kill;
mod leftovers;
mod link;
mod listing;
mod measure;
mod peers;
mod picture;
mod pipes;
mod process;
mod programs;
mod record;
mod report;
mod run;
mod share;
mod share_clients;
mod sshd;
mod stages;
mod stop;
mod stream;
mod timed;
mod tool;
mod tool_sets;
mod units;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};

use crate::cases::{BenchCase, CASES, Passes, TreePlace};
use crate::link::{EmulatedLink, FAR_IP, LinkSpec, NEAR_IP, TcpSpec};
use crate::measure::Cgroups;
use crate::peers::{TOOLS, tool_named};
use crate::programs::which;
use crate::record::{BenchHost, BenchRecord};
use crate::run::{BenchSettings, run_case, utf8};
use crate::stop::Stop;
use crate::units::{parse_chance, parse_rate, parse_size, parse_time, show_rate, show_time};

/// Benchmarks of haul and its peers over an emulated link.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Join two new network namespaces by an emulated link until a command or a signal ends it.
    Link(EmulatedLinkArgs),
    /// Run cases and print a table.
    Run(RunArgs),
    /// Move a long stream of zeros and noise into an object store in this process, and watch the memory.
    Stream(stream::StreamArgs),
    /// List very many keys of an object store in this process.
    Listing(listing::ListingArgs),
    /// Compare the time left that haul shows with the real one: small files, a large one, and both.
    Eta(eta::EtaArgs),
    /// Measure each stage of a copy alone, and predict the rate with more cores and faster links.
    Stages(stages::StageArgs),
    /// Show the cases and the tools.
    List,
}

#[derive(Args)]
struct EmulatedLinkArgs {
    /// Bits per second in each direction, such as 100m, 1g, 5g.
    #[arg(long, default_value = "1g", value_parser = parse_rate)]
    rate: u64,
    /// Round-trip time, such as 60ms or 0.
    #[arg(long, default_value = "60ms", value_parser = parse_time)]
    rtt: Duration,
    /// Probability of losing a segment, such as 0.1%.
    #[arg(long, default_value = "0", value_parser = parse_chance)]
    loss: f64,
    /// Longest packet in bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Queue size in bytes [default: rate × RTT, at least 4M].
    #[arg(long, value_parser = parse_size)]
    queue: Option<u64>,
    #[command(flatten)]
    tcp: TcpArgs,
    /// A command to run in the near namespace; the link lasts as long as it does.
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct TcpArgs {
    /// Congestion control in both namespaces.
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    cc: String,
}

#[derive(Args)]
struct RunArgs {
    /// Names of cases (see `list`), or `all`.
    #[arg(required = true, value_name = "CASE")]
    cases: Vec<String>,
    /// Rounds; in each, every tool runs once [default: 3, with --quick 1].
    #[arg(long)]
    rounds: Option<usize>,
    /// Small data and short delays: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Copy the data of another case, such as text100m.
    #[arg(long, value_name = "CASE")]
    data: Option<String>,
    /// Directory of the data in memory [default: /dev/shm/haul-bench, or /var/tmp/haul-bench].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Directory of the data on a disk.
    #[arg(long, default_value = "/var/tmp/haul-bench")]
    disk_dir: PathBuf,
    /// The program haul [default: target/release/haul, or on the path].
    #[arg(long)]
    haul: Option<PathBuf>,
    /// Another build of haul: each row of haul is measured with it as well, in the same rounds, as one of its peers.
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// More options for haul, such as "--streams 16".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    haul_args: String,
    /// Only these tools.
    #[arg(long, value_delimiter = ',')]
    tools: Vec<String>,
    /// Seconds after which a single copy is ended, instead of the limits of the cases.
    #[arg(long)]
    timeout: Option<u64>,
    /// Write the raw results to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the throughput over time of each case as a picture, CASE.svg, in a directory.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Print the table in Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    tcp: TcpArgs,
}

impl TcpArgs {
    fn spec(&self) -> TcpSpec {
        TcpSpec { congestion: self.cc.clone(), ..TcpSpec::default() }
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Link(args) => run_link(args),
        Verb::Run(args) => run_cases(&args),
        Verb::Stream(args) => run_stream(&args),
        Verb::Listing(args) => run_listing(&args),
        Verb::Eta(args) => run_eta(&args),
        Verb::Stages(args) => {
            Stop::on_signals().and_then(|stop| stages::run(&args, &stop)).map(|()| ExitCode::SUCCESS)
        }
        Verb::List => {
            let _ = list();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("haul-bench: {error:#}");
        ExitCode::from(2)
    })
}

/// Lists the cases and tools.
fn list() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "Cases:")?;
    for case in CASES {
        writeln!(out, "  {:16} {} ({})", case.name, case.about, case.way(false))?;
    }
    writeln!(out, "Tools:")?;
    for tool in TOOLS {
        let state = match tool.missing() {
            Some(program) => format!("{program} is not on the path"),
            None => tool.needs.join(", "),
        };
        writeln!(out, "  {:24} {state}", tool.name)?;
    }
    Ok(())
}

fn run_link(args: EmulatedLinkArgs) -> Result<ExitCode> {
    need_root()?;
    let stop = Stop::on_signals()?;
    let spec = LinkSpec { rate: args.rate, rtt: args.rtt, loss: args.loss, mtu: args.mtu, queue: args.queue };
    let link = EmulatedLink::new(&spec, &args.tcp.spec())?;
    let (near, far) = (link.near().name(), link.far().name());
    eprintln!("{} there and back {}: near {NEAR_IP} far {FAR_IP}", show_rate(spec.rate), show_time(spec.rtt));
    let code = if let Some((program, rest)) = args.command.split_first() {
        let mut child = Command::new("ip")
            .args(["netns", "exec", near, program])
            .args(rest)
            .env("HAUL_BENCH_NEAR", near)
            .env("HAUL_BENCH_FAR", far)
            .spawn()
            .context("cannot run ip netns exec")?;
        loop {
            if let Some(status) = child.try_wait()? {
                break ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            if stop.is_set() {
                child.kill()?;
                child.wait()?;
                break ExitCode::FAILURE;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    } else {
        println!("ip netns exec {near} COMMAND    # near, {NEAR_IP}");
        println!("ip netns exec {far} COMMAND    # far, {FAR_IP}");
        while !stop.is_set() {
            std::thread::sleep(Duration::from_millis(50));
        }
        ExitCode::SUCCESS
    };
    for (way, traffic) in ["near to far", "far to near"].iter().zip(link.traffic()) {
        eprintln!(
            "{way}: {:.3} MB in {} packets, {} dropped by the queue, {} lost",
            traffic.bytes as f64 / 1e6,
            traffic.packets,
            traffic.dropped,
            traffic.lost
        );
    }
    eprintln!("CPU of the link: {:.2} s", link.cpu_seconds());
    Ok(code)
}

fn run_stream(args: &stream::StreamArgs) -> Result<ExitCode> {
    let haul = find_haul(args.haul.as_deref())?.context("haul was not found: say --haul PATH")?;
    stream::run(args, &haul, &Stop::on_signals()?)?;
    Ok(ExitCode::SUCCESS)
}

fn run_listing(args: &listing::ListingArgs) -> Result<ExitCode> {
    let haul = find_haul(args.haul.as_deref())?.context("haul was not found: say --haul PATH")?;
    listing::run(args, &haul, &Stop::on_signals()?)?;
    Ok(ExitCode::SUCCESS)
}

fn run_eta(args: &eta::EtaArgs) -> Result<ExitCode> {
    if let Some(path) = &args.events {
        eta::judge_file(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    need_root()?;
    let haul = find_haul(args.haul.as_deref())?.context("haul was not found: say --haul PATH")?;
    eta::run(args, &haul, &Stop::on_signals()?)?;
    Ok(ExitCode::SUCCESS)
}

fn run_cases(args: &RunArgs) -> Result<ExitCode> {
    let cases = chosen_cases(&args.cases)?;
    for name in &args.tools {
        ensure!(tool_named(name).is_some(), "no tool is named {name}; see `haul-bench list`");
    }
    if BenchSettings::needs_root(&cases) {
        need_root()?;
    }
    let settings = settings(args, &cases)?;
    let cgroups = match Cgroups::new() {
        Ok(cgroups) => Some(cgroups),
        Err(error) => {
            eprintln!("haul-bench: CPU times are sampled, since there is no cgroup: {error:#}");
            None
        }
    };
    let mut record = BenchRecord {
        host: BenchHost::here(),
        quick: settings.quick,
        rounds: settings.rounds,
        tcp: settings.tcp.clone(),
        cgroups: cgroups.is_some(),
        cases: Vec::new(),
    };
    let mut ended = Ok(());
    for case in cases {
        match run_case(case, &settings, cgroups.as_ref()) {
            Ok(result) => record.cases.push(result),
            Err(error) => {
                ended = Err(error.context(format!("case {}", case.name)));
                break;
            }
        }
        // After each case, so that an interrupted series keeps its results.
        if let Some(path) = &args.json {
            record.write(path)?;
        }
        if let Some(dir) = &args.pictures {
            picture::write(&record, dir)?;
        }
    }
    let table = if args.markdown { report::markdown(&record) } else { report::plain(&record) };
    print!("{table}");
    ended?;
    Ok(if record.has_failures() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn settings(args: &RunArgs, cases: &[&BenchCase]) -> Result<BenchSettings> {
    let haul = find_haul(args.haul.as_deref())?;
    let data = args.data.as_deref().map(case_named).transpose()?;
    Ok(BenchSettings {
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 3 }),
        quick: args.quick,
        data,
        dir: match &args.dir {
            Some(dir) => absolute(dir)?,
            None => memory_dir(cases, data, args.quick),
        },
        disk_dir: absolute(&args.disk_dir)?,
        haul,
        before: args.before.as_deref().map(program).transpose()?,
        haul_args: args.haul_args.clone(),
        tools: args.tools.clone(),
        timeout: args.timeout.map(Duration::from_secs),
        tcp: args.tcp.spec(),
        stop: Stop::on_signals()?,
    })
}

fn chosen_cases(names: &[String]) -> Result<Vec<&'static BenchCase>> {
    if names.iter().any(|name| name == "all") {
        return Ok(CASES.iter().collect());
    }
    names.iter().map(|name| case_named(name)).collect()
}

fn case_named(name: &str) -> Result<&'static BenchCase> {
    BenchCase::named(name).with_context(|| format!("no case is named {name}; see `haul-bench list`"))
}

fn need_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "only root can make network namespaces and mount");
    Ok(())
}

/// The path of haul; `None`: only the peers run.
fn find_haul(given: Option<&Path>) -> Result<Option<String>> {
    let built = PathBuf::from("target/release/haul");
    match given
        .map(Path::to_owned)
        .or_else(|| Some(built).filter(|path| path.is_file()))
        .or_else(|| which("haul"))
    {
        Some(path) => program(&path).map(Some),
        None => {
            eprintln!("haul-bench: haul was not found (say --haul PATH): only its peers are run");
            Ok(None)
        }
    }
}

/// The absolute path of a program.
fn program(path: &Path) -> Result<String> {
    ensure!(path.is_file(), "{} is not a program", path.display());
    Ok(utf8(&fs::canonicalize(path)?)?.to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    utf8(&path)?;
    Ok(path)
}

/// A directory in memory if the data fits, else on disk.
fn memory_dir(cases: &[&BenchCase], other: Option<&BenchCase>, quick: bool) -> PathBuf {
    let mut sets: Vec<(&str, u64)> = Vec::new();
    let mut copies = 0;
    for case in cases.iter().filter(|case| case.store == TreePlace::Memory) {
        let data = other.unwrap_or(case).data(quick);
        if !sets.iter().any(|(name, _)| *name == data.name) {
            sets.push((data.name, data.footprint()));
        }
        let at_once = match case.passes {
            Passes::Again => case.tools.len() as u64,
            // The old version and the new one.
            Passes::Changed => 2,
            Passes::First | Passes::Both => 1,
        };
        copies = copies.max(at_once * data.footprint());
    }
    let need = sets.iter().map(|(_, size)| size).sum::<u64>() + copies;
    let free = free_bytes("/dev/shm").min(available_memory() / 10 * 8);
    let base = if free > need { "/dev/shm" } else { "/var/tmp" };
    Path::new(base).join("haul-bench")
}

fn free_bytes(path: &str) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
}

fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        assert!(chosen_cases(&["wan1g".to_owned(), "wrong".to_owned()]).is_err());
        assert_eq!(chosen_cases(&["all".to_owned()]).unwrap().len(), CASES.len());
    }
}

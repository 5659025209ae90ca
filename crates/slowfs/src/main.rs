//! Mounts a slow file system until a signal ends it, then prints the number of requests as JSON.
#![allow(clippy::print_stdout, reason = "its output")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use haul_slowfs::{FaultEffect, FsFault, MountOptions, Op, SlowMount};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// FUSE passthrough with injected latency and faults, which counts requests.
///
/// SIGUSR1 prints the number of requests since the last print, SIGUSR2 answers hanging requests, SIGINT and SIGTERM
/// unmount.
#[derive(Parser)]
struct Cli {
    /// The directory to pass requests to.
    behind: PathBuf,
    /// The mount point.
    at: PathBuf,
    /// Delay of each request in milliseconds.
    #[arg(long, default_value_t = 2.0)]
    meta: f64,
    /// Delay of reads, writes and syncs in milliseconds [default: as --meta].
    #[arg(long)]
    data: Option<f64>,
    /// How long the kernel may cache names and attributes, in milliseconds.
    #[arg(long, default_value_t = 0.0)]
    cache: f64,
    /// Return attributes with listings, as NFS does.
    #[arg(long)]
    plus: bool,
    /// No extended attributes, as NFS before version 4.2.
    #[arg(long)]
    no_xattrs: bool,
    /// Inject a fault: OP[:END-OF-PATH[:NTH]]=EIO|ESTALE|EAGAIN|ENOSPC|EDQUOT|EACCES|hang; OP may be `any`.
    /// NTH selects one request, counted from 1 [default: all].
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let time = |ms: f64| {
        Duration::try_from_secs_f64(ms / 1000.0).context("a delay must be a number of milliseconds")
    };
    let options = MountOptions {
        meta: time(cli.meta)?,
        data: time(cli.data.unwrap_or(cli.meta))?,
        cache: time(cli.cache)?,
        plus: cli.plus,
        xattrs: !cli.no_xattrs,
        ..MountOptions::default()
    };
    let faults = cli.fault.iter().map(|text| fault(text)).collect::<Result<Vec<_>>>()?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let mount = SlowMount::new(&cli.behind, &cli.at, options)
        .with_context(|| format!("cannot mount {} at {}", cli.behind.display(), cli.at.display()))?;
    faults.into_iter().for_each(|fault| mount.faults().add(fault));
    let mut printed = mount.counts();
    for signal in signals.forever() {
        let now = mount.counts();
        match signal {
            SIGUSR1 => println!("{}", now.since(&printed).json()),
            SIGUSR2 => println!("{{\"released\":{}}}", mount.release()),
            _ => {
                println!("{}", now.json());
                break;
            }
        }
        printed = now;
    }
    Ok(())
}

fn fault(text: &str) -> Result<FsFault> {
    let (what, action) = text.split_once('=').with_context(|| format!("{text} has no ="))?;
    let action = match action {
        "hang" => FaultEffect::Hang,
        "EIO" => FaultEffect::Fail(Errno::IO),
        "ESTALE" => FaultEffect::Fail(Errno::STALE),
        "EAGAIN" => FaultEffect::Fail(Errno::AGAIN),
        "ENOSPC" => FaultEffect::Fail(Errno::NOSPC),
        "EDQUOT" => FaultEffect::Fail(Errno::DQUOT),
        "EACCES" => FaultEffect::Fail(Errno::ACCESS),
        other => bail!("unknown fault {other}; see --help"),
    };
    let mut parts = what.splitn(3, ':');
    let op = match parts.next().unwrap_or_default() {
        "any" => None,
        name => Some(Op::named(name).with_context(|| format!("unknown kind of request {name}"))?),
    };
    let path = parts.next().unwrap_or_default().to_owned();
    let (skip, times) = match parts.next() {
        None => (0, u64::MAX),
        Some(nth) => {
            (nth.parse::<u64>().ok().and_then(|nth| nth.checked_sub(1)).context("NTH starts at 1")?, 1)
        }
    };
    Ok(FsFault { op, path, skip, times, action })
}

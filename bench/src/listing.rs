//! A listing of very many keys: how long it takes, and how much memory.
//!
//! The store is inside this process, and thinks about each request for as long as it takes to get to one elsewhere.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use haul_testkit::store::{Habits, SmallStore};

use crate::programs::which;
use crate::stop::Stop;
use crate::stream::watched;
use crate::units::parse_time;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The keys to list, and the delay of the store.
#[derive(Args)]
pub(crate) struct ListingArgs {
    /// How many keys.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// How many of them are in one directory.
    #[arg(long, default_value_t = 1000)]
    directory: usize,
    /// How long the store takes for a request, such as 20ms.
    #[arg(long, default_value = "20ms", value_parser = parse_time)]
    delay: Duration,
    /// The program haul [default: target/release/haul, or on the path].
    #[arg(long)]
    pub(crate) haul: Option<std::path::PathBuf>,
}

/// Lists them with each client, and prints a table.
pub(crate) fn run(args: &ListingArgs, haul: &str, stop: &Stop) -> Result<()> {
    ensure!(args.directory > 0, "a directory has at least one key");
    let store = SmallStore::start(Habits { delay: args.delay, ..Habits::default() });
    for key in 0..args.keys {
        store.put(&format!("/bench/keys/{:06}/{:06}", key / args.directory, key % args.directory), b"x", &[]);
    }
    let endpoint = store.endpoint();
    let rclone =
        format!("':s3,provider=Other,env_auth=true,list_version=2,endpoint=\"{endpoint}\":bench/keys'");
    let host = endpoint.trim_start_matches("http://");
    let ways = [
        ("haul ls -r", format!("{haul} ls -r s3://bench/keys/")),
        ("haul copy -n", format!("{haul} copy -n s3://bench/keys/ /nowhere/at/all")),
        (
            "rclone lsf -R --checkers 64",
            format!("rclone lsf -R --files-only --checkers 64 --fast-list {rclone}"),
        ),
        ("s5cmd ls", "s5cmd ls 's3://bench/keys/*'".to_owned()),
        ("mc ls -r", format!("MC_HOST_bench=http://x:x@{host} mc ls -r bench/bench/keys/")),
        ("aws s3 ls --recursive", "aws s3 ls --recursive s3://bench/keys/".to_owned()),
    ];
    println!("{} keys in directories of {}, {:?} for each request", args.keys, args.directory, args.delay);
    println!("{:28} {:>9} {:>10} {:>10}", "client", "seconds", "peak MiB", "keys");
    for (name, command) in &ways {
        let program = name.split(' ').next().unwrap_or_default();
        if program != "haul" && which(program).is_none() {
            println!("{name:28} {program} is not on the path");
            continue;
        }
        let (seconds, peak, lines) = list(command, &endpoint, stop).with_context(|| command.clone())?;
        println!("{name:28} {seconds:>9.2} {:>10} {lines:>10}", peak >> 20);
    }
    Ok(())
}

/// Seconds, the most memory of the client in bytes, and lines that it wrote.
fn list(command: &str, endpoint: &str, stop: &Stop) -> Result<(f64, u64, usize)> {
    let begun = Instant::now();
    let mut child = Command::new("sh")
        .env("HAUL_CONFIG", "")
        .args(["-c", &format!("exec env {command}")])
        .envs([("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "us-east-1")])
        .envs([("AWS_ENDPOINT_URL", endpoint), ("S3_ENDPOINT_URL", endpoint), ("RCLONE_CONFIG", "/dev/null")])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run sh")?;
    let output = child.stdout.take().context("it has no output")?;
    let counting = std::thread::spawn(move || {
        use std::io::BufRead;
        std::io::BufReader::new(output).split(b'\n').map_while(Result::ok).count()
    });
    let mut peak = 0;
    let ended = watched(&mut child, LOOK, stop, |resident| peak = peak.max(resident))?;
    let elapsed = begun.elapsed().as_secs_f64();
    let lines = counting.join().ok().context("the reader panicked")?;
    ensure!(ended.success(), "it ended with {ended}");
    Ok((elapsed, peak, lines))
}

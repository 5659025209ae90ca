//! A long stream into an object store at full speed, to see whether memory grows.
//!
//! The store is inside this process. It checks the content and forgets it, so a stream may be longer than any disk.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use haul_testkit::content;
use haul_testkit::store::{Habits, SmallStore};

use crate::stop::Stop;
use crate::units::parse_size;

/// Bytes of zeros, and then of noise, and so on.
const STRETCH: u64 = 64 << 20;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How a stream is made.
#[derive(Args)]
pub(crate) struct StreamArgs {
    /// Its length.
    #[arg(long, default_value = "60G", value_parser = parse_size)]
    size: u64,
    /// The program haul [default: target/release/haul, or on the path].
    #[arg(long)]
    pub(crate) haul: Option<std::path::PathBuf>,
    /// More options for `haul put`, such as "--compress zstd".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    haul_args: String,
}

/// Moves the stream, and prints its time, its rate and the peaks of memory.
pub(crate) fn run(args: &StreamArgs, haul: &str, stop: &Stop) -> Result<()> {
    let store = SmallStore::start(Habits { forgets: true, md5: false, ..Habits::default() });
    let begun = Instant::now();
    let mut child = Command::new(haul)
        .args(["put", "-q", "--endpoint", &store.endpoint()])
        .args(args.haul_args.split_whitespace())
        .arg("s3://bench/stream")
        .env("HAUL_CONFIG", "")
        .envs([("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x")])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run haul")?;
    let mut input = child.stdin.take().context("it has no input")?;
    let size = args.size;
    let producer = thread::spawn(move || produce(size, &mut input));
    // The peak of memory in each second.
    let mut seconds: Vec<u64> = Vec::new();
    let ended = watched(&mut child, LOOK, stop, |resident| {
        let second = begun.elapsed().as_secs() as usize;
        seconds.resize(seconds.len().max(second + 1), 0);
        seconds[second] = seconds[second].max(resident);
    })?;
    let elapsed = begun.elapsed().as_secs_f64();
    let produced = producer.join().ok().context("the producer panicked")?;
    ensure!(ended.success(), "haul ended with {ended}");
    produced.context("the stream was not taken to its end")?;
    let (len, parts) = store.object("/bench/stream").context("there is no object")?;
    let whole = args.haul_args.contains("--compress") || args.haul_args.contains("--encrypt") || len == size;
    ensure!(whole, "the object has {len} bytes");
    let tenth = seconds.len().div_ceil(10);
    let peaks = seconds.chunks(tenth).map(|part| part.iter().copied().max().unwrap_or_default());
    let peaks: Vec<String> = peaks.map(|peak| (peak >> 20).to_string()).collect();
    println!("stream: {size} bytes, object: {len} bytes in {parts} parts");
    println!("{elapsed:.1} s, {:.0} MB/s", size as f64 / elapsed / 1e6);
    println!("peak memory, MiB: {}", seconds.iter().copied().max().unwrap_or_default() >> 20);
    println!("peaks of each tenth of the time, MiB: {}", peaks.join(" "));
    Ok(())
}

/// Waits for the end of a process; `seen` is told from time to time how many bytes of it are in memory.
pub(crate) fn watched(
    child: &mut Child,
    every: Duration,
    stop: &Stop,
    mut seen: impl FnMut(u64),
) -> Result<ExitStatus> {
    let status = format!("/proc/{}/status", child.id());
    loop {
        if let Some(ended) = child.try_wait()? {
            return Ok(ended);
        }
        if stop.is_set() {
            child.kill()?;
        }
        seen(resident(&status));
        thread::sleep(every);
    }
}

/// Bytes of a process that are in memory; 0 when it has ended.
fn resident(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn produce(size: u64, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < size {
        if at / STRETCH % 2 == 1 {
            content::fill(1, at, &mut buffer);
        } else if at % STRETCH == 0 {
            buffer.fill(0);
        }
        let len = (size - at).min(buffer.len() as u64);
        to.write_all(&buffer[..len as usize])?;
        at += len;
    }
    Ok(())
}

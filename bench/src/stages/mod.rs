//! Measures each stage of a copy alone, with haul's own code, and predicts the rate with more cores and faster links.

mod connection;
mod figures;
mod model;
mod work;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::stop::Stop;
use crate::units::parse_time;
use figures::StageFigures;
use model::CoreModel;

/// How the stages are measured.
#[derive(Args)]
pub(crate) struct StageArgs {
    /// A directory in memory, for reading and writing.
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// A directory on a disk, for syncing.
    #[arg(long, default_value = "/var/tmp")]
    disk_dir: PathBuf,
    /// CPU time of each measurement.
    #[arg(long, default_value = "1s", value_parser = parse_time)]
    time: Duration,
    /// Compare the model with the runs of the case `lan` in the results of `haul-bench run --json FILE`.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

/// Measures, and prints the tables.
pub(crate) fn run(args: &StageArgs, stop: &Stop) -> Result<()> {
    let threads = std::thread::available_parallelism()?.get();
    let figures = StageFigures::measure(&args.dir, &args.disk_dir, args.time, threads, stop)?;
    print!("{}", figures.table(threads));
    let model = CoreModel::of(&figures);
    print!("\n{}", model.table(threads));
    if let Some(file) = &args.check {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        print!("\n{}", model.check(&serde_json::from_str(&text)?)?);
    }
    Ok(())
}

//! The figures of a probe as JSON.

use haul_core::probe::{CompressFigures, CpuFigures, ReadFigures, WriteFigures};
use haul_probe::survey::Counts;
use haul_probe::{doctor, model};
use haul_remote::Direction;
use serde::Serialize;

use crate::render::probe::{Measurement, NamedLink, level, stage};

#[derive(Serialize)]
struct Cpu {
    cores: u32,
    hash: u64,
    aes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compress: Vec<Compress>,
}

impl Cpu {
    fn new(cpu: &CpuFigures) -> Self {
        let CpuFigures { cores, hash, aes, .. } = *cpu;
        Self { cores, hash, aes, compress: cpu.compress.iter().map(Compress::new).collect() }
    }
}

#[derive(Serialize)]
struct Compress {
    method: String,
    bytes_per_second: u64,
    ratio: f64,
}

impl Compress {
    fn new(way: &CompressFigures) -> Self {
        let ratio = f64::from(way.permille) / 1000.0;
        Self { method: way.method.to_string(), bytes_per_second: way.bytes_per_second, ratio }
    }
}

#[derive(Serialize)]
pub(super) struct Source {
    sampled_bytes: u64,
    bytes_per_second: Option<u64>,
    files_per_second: Option<u64>,
    cpu: Cpu,
}

impl Source {
    pub(super) fn new(read: &ReadFigures) -> Self {
        let ReadFigures { sampled_bytes, bytes_per_second, files_per_second, .. } = *read;
        Self { sampled_bytes, bytes_per_second, files_per_second, cpu: Cpu::new(&read.cpu) }
    }
}

#[derive(Serialize)]
pub(super) struct Destination<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'a str>,
    bytes_per_second: Option<u64>,
    files_per_second: Option<u64>,
    sync_seconds: Option<f64>,
    cpu: Cpu,
}

impl<'a> Destination<'a> {
    pub(super) fn new(written: &'a WriteFigures) -> Self {
        Self {
            skipped: written.skipped.as_deref(),
            bytes_per_second: written.bytes_per_second,
            files_per_second: written.files_per_second,
            sync_seconds: written.sync_micros.map(|micros| micros as f64 / 1e6),
            cpu: Cpu::new(&written.cpu),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Link<'a> {
    host: &'a str,
    direction: &'static str,
    round_trip_seconds: f64,
    one_stream: f64,
    all_streams: f64,
    streams: u32,
    ramp_seconds: f64,
    busy_here: f64,
    busy_there: f64,
}

impl<'a> Link<'a> {
    pub(super) fn new(link: &'a NamedLink) -> Self {
        Self {
            host: &link.host,
            direction: if link.direction == Direction::There { "to" } else { "from" },
            round_trip_seconds: link.rate.round_trip,
            one_stream: link.rate.one,
            all_streams: link.rate.all,
            streams: link.rate.streams,
            ramp_seconds: link.rate.ramp,
            busy_here: link.rate.busy[0],
            busy_there: link.rate.busy[1],
        }
    }
}

#[derive(Serialize)]
pub(super) struct Tree<'a> {
    complete: bool,
    #[serde(flatten)]
    counts: &'a Counts,
    scan_seconds: f64,
}

impl<'a> Tree<'a> {
    pub(super) fn new(measurement: &'a Measurement) -> Self {
        let Measurement { complete, counts, scan_seconds, .. } = measurement;
        Self { complete: *complete, counts, scan_seconds: *scan_seconds }
    }
}

#[derive(Serialize)]
pub(super) struct Estimate {
    limit: Option<&'static str>,
    low_seconds: f64,
    high_seconds: f64,
    stages: Vec<Stage>,
}

#[derive(Serialize)]
struct Stage {
    stage: &'static str,
    seconds: f64,
}

impl Estimate {
    pub(super) fn new(estimate: &model::Estimate) -> Self {
        let stages = estimate.stages.iter();
        Self {
            limit: estimate.limit.map(stage),
            low_seconds: estimate.low_seconds,
            high_seconds: estimate.high_seconds,
            stages: stages.map(|(of, seconds)| Stage { stage: stage(*of), seconds: *seconds }).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Choice {
    streams: u32,
    compress: Option<String>,
}

impl Choice {
    pub(super) fn new(measurement: &Measurement) -> Self {
        let streams = measurement.links.iter().map(|link| link.rate.streams);
        Self {
            streams: streams.max().unwrap_or(0),
            compress: measurement.compress.map(|way| way.method.to_string()),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Finding<'a> {
    level: &'static str,
    end: &'a str,
    what: &'static str,
    found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

impl<'a> Finding<'a> {
    pub(super) fn new(end: &'a str, finding: &'a doctor::Finding) -> Self {
        Self {
            level: level(finding.level),
            end,
            what: finding.what,
            found: &finding.found,
            fix: finding.fix.as_deref(),
        }
    }
}

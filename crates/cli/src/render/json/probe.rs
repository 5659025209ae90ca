//! The figures of a probe as JSON.

use haul_core::probe::{CompressFigures, CpuFigures, ReadFigures, WriteFigures};
use haul_probe::survey::TreeCounts;
use serde::{Deserialize, Serialize};

use crate::render::probe::Measurement;

/// The figures of the CPUs of an end.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cpu {
    pub(crate) cores: u32,
    pub(crate) hash: u64,
    pub(crate) aes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) compress: Vec<CompressLine>,
}

impl Cpu {
    fn new(cpu: &CpuFigures) -> Self {
        let CpuFigures { cores, hash, aes, .. } = *cpu;
        Self { cores, hash, aes, compress: cpu.compress.iter().map(CompressLine::new).collect() }
    }
}

/// The compression rate of one core.
#[derive(Serialize, Deserialize)]
pub(crate) struct CompressLine {
    pub(crate) method: String,
    pub(crate) bytes_per_second: u64,
    pub(crate) ratio: f64,
}

impl CompressLine {
    fn new(way: &CompressFigures) -> Self {
        let ratio = f64::from(way.permille) / 1000.0;
        Self { method: way.method.to_string(), bytes_per_second: way.bytes_per_second, ratio }
    }
}

#[derive(Serialize)]
pub(super) struct SourceLine {
    sampled_bytes: u64,
    bytes_per_second: Option<u64>,
    files_per_second: Option<u64>,
    cpu: Cpu,
}

impl SourceLine {
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
pub(super) struct TreeLine<'a> {
    complete: bool,
    #[serde(flatten)]
    counts: &'a TreeCounts,
    scan_seconds: f64,
}

impl<'a> TreeLine<'a> {
    pub(super) fn new(measurement: &'a Measurement) -> Self {
        let Measurement { complete, counts, scan_seconds, .. } = measurement;
        Self { complete: *complete, counts, scan_seconds: *scan_seconds }
    }
}

#[derive(Serialize)]
pub(super) struct ChoiceLine {
    streams: u32,
    compress: Option<String>,
}

impl ChoiceLine {
    pub(super) fn new(measurement: &Measurement) -> Self {
        let streams = measurement.links.iter().map(|link| link.rate.streams);
        Self {
            streams: streams.max().unwrap_or(0),
            compress: measurement.compress.map(|way| way.method.to_string()),
        }
    }
}

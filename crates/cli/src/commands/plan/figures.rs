//! The figures of an earlier `haul probe --json`.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use haul_core::path::printable;
use haul_core::probe::{CompressFigures, CpuFigures, ProbedMethod, ReadFigures, WriteFigures};
use haul_core::{Error, Result, Side};
use haul_probe::model::{self, Estimate, LinkRate, Measured};
use haul_probe::survey::TreeCounts;
use serde::Deserialize;

use crate::render::Cpu;
use crate::settings::{open_list, usage};

/// Maximum number of bytes read.
const MOST: u64 = 16 * 1024 * 1024;

/// Shows the result of a probe.
pub(super) struct Figures {
    source: ReadFigures,
    destination: WriteFigures,
    links: Vec<LinkRate>,
    compress: Option<CompressFigures>,
    /// The file.
    pub(super) from: String,
}

/// The fields of the line `probe` of `docs/JSON.md` that a prediction needs.
#[derive(Deserialize)]
struct ProbeLine {
    source: EndFigures,
    destination: EndFigures,
    links: Vec<LinkRate>,
    choice: ProbeChoice,
}

#[derive(Deserialize)]
struct EndFigures {
    bytes_per_second: Option<u64>,
    files_per_second: Option<u64>,
    cpu: Cpu,
}

#[derive(Deserialize)]
struct ProbeChoice {
    compress: Option<String>,
}

impl Figures {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if it is not the output of a probe; errors of reading.
    pub(super) fn read(file: &OsStr) -> Result<Self> {
        let mut text = Vec::new();
        let read = open_list(file)?.take(MOST).read_to_end(&mut text);
        read.map_err(|e| Error::io(Side::Local, "read the figures", &e).on(file.as_bytes()))?;
        let text = String::from_utf8_lossy(&text);
        Self::parse(&text, printable(file.as_bytes())).ok_or_else(|| {
            let error = usage("read the figures", "it is not the output of `haul probe --json`");
            error.on(file.as_bytes()).with_hint("create it with: haul probe --json SRC DST > FILE")
        })
    }

    fn parse(text: &str, from: String) -> Option<Self> {
        let line: ProbeLine = text.lines().find_map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            (value.get("type")? == "probe").then(|| serde_json::from_value(value).ok())?
        })?;
        let compress = line.choice.compress.and_then(|chosen| {
            let way = line.source.cpu.compress.iter().find(|way| way.method == chosen)?;
            let permille = (way.ratio * 1000.0).round().clamp(1.0, 10_000.0) as u32;
            let method = method(&chosen)?;
            Some(CompressFigures { method, bytes_per_second: way.bytes_per_second, permille })
        });
        let cpu = |cpu: &Cpu| {
            let Cpu { cores, hash, aes, .. } = *cpu;
            CpuFigures { cores, hash, aes, compress: Vec::new() }
        };
        Some(Self {
            source: ReadFigures {
                bytes_per_second: line.source.bytes_per_second,
                files_per_second: line.source.files_per_second,
                cpu: cpu(&line.source.cpu),
                ..ReadFigures::default()
            },
            destination: WriteFigures {
                bytes_per_second: line.destination.bytes_per_second,
                files_per_second: line.destination.files_per_second,
                cpu: cpu(&line.destination.cpu),
                ..WriteFigures::default()
            },
            links: line.links,
            compress,
            from,
        })
    }

    /// Predicts the time of a copy of a tree whose scan took `scan_seconds`.
    pub(super) fn estimate(&self, counts: &TreeCounts, scan_seconds: f64) -> Estimate {
        let measured = Measured { source: &self.source, destination: &self.destination, links: &self.links };
        model::estimate(counts, scan_seconds, &measured, self.compress)
    }
}

fn method(word: &str) -> Option<ProbedMethod> {
    match word.strip_prefix("zstd:") {
        Some(level) => level.parse().ok().map(ProbedMethod::Zstd),
        None => (word == "lz4").then_some(ProbedMethod::Lz4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_probe_are_read_back() {
        let cpu = r#"{"cores":4,"hash":2000000000,"aes":2000000000,"compress":[{"method":"zstd:3","bytes_per_second":400000000,"ratio":0.5}]}"#;
        let text = format!(
            r#"{{"type":"start","schema":1}}
{{"type":"probe","source":{{"sampled_bytes":1,"bytes_per_second":500000000,"files_per_second":1000,"cpu":{cpu}}},"links":[{{"host":"h","direction":"to","round_trip_seconds":0.06,"one_stream":1e7,"all_streams":1e8,"streams":8,"ramp_seconds":1.0,"busy_here":0.1,"busy_there":0.1}}],"destination":{{"bytes_per_second":null,"files_per_second":500,"sync_seconds":0.01,"cpu":{cpu}}},"tree":{{}},"estimate":{{}},"choice":{{"streams":8,"compress":"zstd:3"}},"run":"x"}}
"#
        );
        let figures = Figures::parse(&text, "f".to_owned()).unwrap();
        let counts = TreeCounts { entries: 100, files: 100, bytes: 20_000_000_000, ..TreeCounts::default() };
        let estimate = figures.estimate(&counts, 1.0);
        // 20 GB, compressed by half, over 100 MB/s.
        assert_eq!(estimate.limit, Some(model::Stage::Link));
        assert!((100.0..110.0).contains(&estimate.low_seconds), "{estimate:?}");
        assert!(Figures::parse("{\"type\":\"start\"}\nnonsense\n", String::new()).is_none());
    }
}

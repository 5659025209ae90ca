//! Predicts from the figures of a probe how long a copy will take, and which stage will limit it.
//!
//! A copy is a pipeline: finding files, reading, hashing and encrypting, the link, checking and writing run
//! concurrently. So it takes at least as long as its slowest stage ([`Estimate::low_seconds`]). Stages that share a
//! resource (a disk that is read and written, cores) slow each other down, at worst as if the two slowest did not
//! overlap at all ([`Estimate::high_seconds`]); if the link alone keeps the CPUs busy ([`BUSY`]), as if no stages
//! overlapped. The duration of each stage:
//!
//! * finding: the duration of the scan.
//! * a disk: the bytes of large files at its throughput, and small files at their rate; at the destination their
//!   bytes too.
//! * a CPU: every byte is hashed, and encrypted if there is a link, on all cores.
//! * a link: the bytes, and [`ENTRY_BYTES`] for each entry.
//!
//! The setup of the streams, and the time until they are at full speed, are added.
//!
//! The rates come from a few seconds on hosts that may have been busy; a disk with a large cache slows down once the
//! cache is full.

use haul_core::probe::{CompressFigures, CpuFigures, ReadFigures, WriteFigures};
use serde::{Deserialize, Serialize, Serializer};

use crate::survey::TreeCounts;

/// Bytes on the link for the metadata of an entry, both ways.
pub const ENTRY_BYTES: u64 = 300;
/// Seconds for login, setup and teardown, besides round trips.
const SETUP: f64 = 0.5;
/// Round trips before the first content and after the last.
const SETUP_TRIPS: f64 = 12.0;
/// The least speedup of a link that makes compression worthwhile.
const WORTH: f64 = 1.1;

/// CPUs that are busy for more than this share of the time limit the throughput.
pub const BUSY: f64 = 0.9;

/// A link, measured in the direction of the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRate {
    /// Round trip time in seconds.
    #[serde(rename = "round_trip_seconds")]
    pub round_trip: f64,
    /// Bytes per second on one stream.
    #[serde(rename = "one_stream")]
    pub one: f64,
    /// Bytes per second on all streams together.
    #[serde(rename = "all_streams")]
    pub all: f64,
    /// Number of streams.
    pub streams: u32,
    /// Seconds lost until all streams are open and at full speed.
    #[serde(rename = "ramp_seconds")]
    pub ramp: f64,
    /// How busy the local CPUs were meanwhile, 0 to 1, other work included.
    pub busy_here: f64,
    /// The same of the remote CPUs.
    pub busy_there: f64,
}

impl LinkRate {
    /// Whether the CPUs of an end were fully busy.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy_here.max(self.busy_there) >= BUSY
    }
}

/// The measured figures.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The source.
    pub source: &'a ReadFigures,
    /// The destination.
    pub destination: &'a WriteFigures,
    /// The links that content crosses; none if both ends are local.
    pub links: &'a [LinkRate],
}

/// A stage of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Finding the files.
    Scan,
    /// Reading at the source.
    SourceDisk,
    /// Hashing, encrypting and compressing at the source.
    SourceCpu,
    /// A link.
    Link,
    /// Decrypting and checking at the destination.
    DestinationCpu,
    /// Writing and syncing at the destination.
    DestinationDisk,
}

/// The predicted duration of a copy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The slowest stage.
    pub limit: Option<Stage>,
    /// Lower bound in seconds.
    pub low_seconds: f64,
    /// Probable upper bound in seconds.
    pub high_seconds: f64,
    /// The duration of each stage by itself in seconds, where known.
    #[serde(serialize_with = "with_names")]
    pub stages: Vec<(Stage, f64)>,
}

fn with_names<S: Serializer>(stages: &[(Stage, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct NamedStage {
        stage: Stage,
        seconds: f64,
    }
    serializer
        .collect_seq(stages.iter().map(|(stage, seconds)| NamedStage { stage: *stage, seconds: *seconds }))
}

/// Estimates the copy of a tree whose scan took `scan_seconds`. `compress` is the compression on the link.
#[must_use]
pub fn estimate(
    counts: &TreeCounts,
    scan_seconds: f64,
    measured: &Measured<'_>,
    compress: Option<CompressFigures>,
) -> Estimate {
    let Measured { source, destination, links } = measured;
    let bytes = counts.bytes as f64;
    let large_bytes = counts.bytes.saturating_sub(counts.small_bytes) as f64;
    let small = counts.small_files as f64;
    let over = |amount: f64, rate: Option<u64>| rate.map(|rate| amount / rate.max(1) as f64);
    let mut stages = vec![(Stage::Scan, scan_seconds)];
    // A part that was not measured because it is empty takes no time.
    let sum = |parts: [Option<f64>; 2]| match parts {
        [None, None] => None,
        parts => Some(parts.into_iter().flatten().sum::<f64>()),
    };
    let reading = [over(large_bytes, source.bytes_per_second), over(small, source.files_per_second)];
    stages.extend(sum(reading).map(|seconds| (Stage::SourceDisk, seconds)));
    let writing = [over(bytes, destination.bytes_per_second), over(small, destination.files_per_second)];
    stages.extend(sum(writing).map(|seconds| (Stage::DestinationDisk, seconds)));
    let cpu = |cpu: &CpuFigures, compress: Option<CompressFigures>| {
        let mut rates = vec![cpu.hash];
        if !links.is_empty() {
            rates.push(cpu.aes);
        }
        rates.extend(compress.map(|way| way.bytes_per_second));
        let per_byte: f64 = rates.iter().filter(|rate| **rate > 0).map(|rate| 1.0 / *rate as f64).sum();
        bytes * per_byte / f64::from(cpu.cores.max(1))
    };
    stages.push((Stage::SourceCpu, cpu(&source.cpu, compress)));
    if !links.is_empty() {
        stages.push((Stage::DestinationCpu, cpu(&destination.cpu, None)));
    }
    let sent = bytes * compress.map_or(1.0, |way| f64::from(way.permille) / 1000.0);
    let metadata = (counts.entries * ENTRY_BYTES) as f64;
    stages.extend(
        links.iter().filter(|link| link.all > 0.0).map(|link| (Stage::Link, (sent + metadata) / link.all)),
    );
    let mut times: Vec<(Stage, f64)> = stages.clone();
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let trips: f64 = links.iter().map(|link| link.round_trip * SETUP_TRIPS + SETUP + link.ramp).sum();
    let first = times.first().map_or(0.0, |(_, seconds)| *seconds);
    let all: f64 = times.iter().filter(|(stage, _)| *stage != Stage::Scan).map(|(_, seconds)| *seconds).sum();
    let all = all.max(first);
    let second = times.get(1).map_or(0.0, |(_, seconds)| *seconds);
    Estimate {
        limit: times.first().map(|(stage, _)| *stage),
        low_seconds: first + trips,
        high_seconds: trips + if links.iter().any(LinkRate::is_busy) { all } else { first + second },
        stages,
    }
}

/// The compression with the highest throughput on a link of this rate, and that throughput; `None` if compression is
/// not worthwhile.
#[must_use]
pub fn best_compression(cpu: &CpuFigures, link: f64) -> Option<(CompressFigures, f64)> {
    let cores = f64::from(cpu.cores.max(1));
    let carried = |way: &CompressFigures| {
        let through = link * 1000.0 / f64::from(way.permille.max(1));
        through.min(way.bytes_per_second as f64 * cores)
    };
    let ways = cpu.compress.iter().map(|way| (*way, carried(way)));
    let best = ways.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best.1 >= link * WORTH).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::probe::ProbedMethod;

    const MB: u64 = 1_000_000;

    fn cpu(cores: u32) -> CpuFigures {
        let way = |method, rate, permille| CompressFigures { method, bytes_per_second: rate * MB, permille };
        CpuFigures {
            cores,
            hash: 2000 * MB,
            aes: 2000 * MB,
            compress: vec![
                way(ProbedMethod::Lz4, 700, 550),
                way(ProbedMethod::Zstd(1), 400, 400),
                way(ProbedMethod::Zstd(3), 200, 360),
            ],
        }
    }

    fn ends(read: u64, write: u64) -> (ReadFigures, WriteFigures) {
        let source = ReadFigures {
            bytes_per_second: Some(read * MB),
            files_per_second: Some(1000),
            cpu: cpu(8),
            ..ReadFigures::default()
        };
        let destination = WriteFigures {
            bytes_per_second: Some(write * MB),
            files_per_second: Some(500),
            cpu: cpu(8),
            ..WriteFigures::default()
        };
        (source, destination)
    }

    fn tree(files: u64, bytes: u64) -> TreeCounts {
        TreeCounts { entries: files, files, bytes, largest: bytes, ..TreeCounts::default() }
    }

    fn link(all: u64) -> LinkRate {
        LinkRate {
            round_trip: 0.060,
            one: 50e6,
            all: (all * MB) as f64,
            streams: 16,
            ramp: 2.0,
            busy_here: 0.5,
            busy_there: 0.5,
        }
    }

    #[test]
    fn the_slowest_stage_is_the_limit() {
        let of = |read, write, all| {
            let (source, destination) = ends(read, write);
            let links = [link(all)];
            let measured = Measured { source: &source, destination: &destination, links: &links };
            estimate(&tree(10, 1000 * 1000 * MB), 0.1, &measured, None)
        };
        let estimate = of(2000, 1500, 500);
        assert_eq!(estimate.limit, Some(Stage::Link));
        assert!((2000.0..2010.0).contains(&estimate.low_seconds), "{estimate:?}");
        assert!(estimate.high_seconds > estimate.low_seconds + 600.0 && estimate.high_seconds < 2700.0);
        assert_eq!(of(100, 1500, 500).limit, Some(Stage::SourceDisk));
        assert_eq!(of(2000, 200, 500).limit, Some(Stage::DestinationDisk));
        assert_eq!(of(90_000, 90_000, 90_000).limit, Some(Stage::SourceCpu));
    }

    #[test]
    fn stages_do_not_overlap_on_busy_cpus() {
        let (source, destination) = ends(500, 500);
        let of = |[busy_here, busy_there]: [f64; 2]| {
            let links = [LinkRate { busy_here, busy_there, ..link(500) }];
            let measured = Measured { source: &source, destination: &destination, links: &links };
            estimate(&tree(1, 100_000 * MB), 0.1, &measured, None)
        };
        let (idle, busy) = (of([0.2, 0.5]), of([0.2, 1.0]));
        assert!((idle.low_seconds - busy.low_seconds).abs() < 1e-9);
        assert!((idle.high_seconds - idle.low_seconds - 200.0).abs() < 1.0, "{idle:?}");
        assert!(busy.high_seconds > busy.low_seconds + 400.0, "{busy:?}");
    }

    #[test]
    fn many_small_files_cost_per_file_time() {
        let (source, destination) = ends(1000, 1000);
        let measured = Measured { source: &source, destination: &destination, links: &[] };
        let counts = TreeCounts {
            entries: 122_000,
            files: 122_000,
            bytes: 122 * MB,
            small_files: 122_000,
            small_bytes: 122 * MB,
            ..TreeCounts::default()
        };
        let estimate = estimate(&counts, 2.0, &measured, None);
        assert_eq!(estimate.limit, Some(Stage::DestinationDisk));
        assert!((243.0..246.0).contains(&estimate.low_seconds), "{estimate:?}");
    }

    #[test]
    fn unmeasured_stages_are_omitted() {
        let (source, mut destination) = ends(1000, 1000);
        (destination.bytes_per_second, destination.files_per_second) = (None, None);
        let measured = Measured { source: &source, destination: &destination, links: &[] };
        let estimate = estimate(&tree(1, 1000 * MB), 0.0, &measured, None);
        assert!(estimate.stages.iter().all(|(stage, _)| *stage != Stage::DestinationDisk));
        assert!(estimate.low_seconds.is_finite());
    }

    #[test]
    fn compression_is_chosen_if_the_link_is_slower_than_the_cores() {
        let best =
            |cores, link: u64| best_compression(&cpu(cores), (link * MB) as f64).map(|(way, _)| way.method);
        assert_eq!(best(8, 12), Some(ProbedMethod::Zstd(3)));
        assert_eq!(best(2, 200), Some(ProbedMethod::Zstd(1)));
        assert_eq!(best(2, 600), Some(ProbedMethod::Lz4));
        assert_eq!(best(2, 1400), None);
        let (_, carried) = best_compression(&cpu(8), 12.0e6).unwrap();
        assert!((33.0e6..34.0e6).contains(&carried));
        assert_eq!(best_compression(&CpuFigures::default(), 1e6), None);
    }

    #[test]
    fn compression_shortens_the_link_stage_and_lengthens_the_cpu_stage() {
        let (source, destination) = ends(5000, 5000);
        let links = [link(12)];
        let measured = Measured { source: &source, destination: &destination, links: &links };
        let counts = tree(1, 1000 * MB);
        let (way, _) = best_compression(&source.cpu, links[0].all).unwrap();
        let plain = estimate(&counts, 0.0, &measured, None);
        let small = estimate(&counts, 0.0, &measured, Some(way));
        assert!(small.low_seconds < plain.low_seconds * 0.5);
        let of = |estimate: &Estimate| {
            estimate.stages.iter().find(|(stage, _)| *stage == Stage::SourceCpu).unwrap().1
        };
        assert!(of(&small) > of(&plain));
    }
}

//! Measures the speed of one core.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use haul_core::probe::{CompressFigures, CpuFigures, CpuTicks, ProbedMethod};

/// The duration of each measurement.
const TIME: Duration = Duration::from_millis(250);
/// Bytes processed between two looks at the clock: few, so that a slow core hardly exceeds [`TIME`].
const STEP: usize = 1024 * 1024;
/// The largest TLS record in bytes (RFC 8446, 5.1).
const RECORD: usize = 16 * 1024;

/// The compression methods that are measured.
pub const METHODS: [ProbedMethod; 4] =
    [ProbedMethod::Lz4, ProbedMethod::Zstd(-3), ProbedMethod::Zstd(1), ProbedMethod::Zstd(3)];

/// Measures hashing and encryption on `sample`, and compression if `compress` is set. Without a sample, random bytes
/// are used and compression is not measured.
#[must_use]
pub fn measure(sample: &[Vec<u8>], compress: bool) -> CpuFigures {
    let steps: Vec<&[u8]> = sample.iter().flat_map(|part| part.chunks(STEP)).collect();
    let mut random = vec![0; 4 * STEP];
    let with_content = !steps.is_empty();
    let steps: Vec<&[u8]> = if with_content {
        steps
    } else {
        crate::random::fill_random(&mut random, 1);
        random.chunks(STEP).collect()
    };
    let methods: &[ProbedMethod] = if compress && with_content { &METHODS } else { &[] };
    CpuFigures {
        cores: cores(),
        hash: rate(&steps, |step| {
            std::hint::black_box(blake3::hash(step));
        }),
        aes: aes(&steps),
        compress: methods.iter().filter_map(|method| compressed(*method, &steps)).collect(),
    }
}

/// Cores that this process may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// The time that the CPUs have worked.
pub(crate) fn work() -> CpuTicks {
    parse_work(&std::fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
}

/// Parses the first line of /proc/stat, see proc_stat(5): `cpu`, then the time of user, nice, system, idle, iowait,
/// irq, softirq and steal. The further fields are included in user and nice.
fn parse_work(text: &str) -> Option<CpuTicks> {
    let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let total = times.iter().sum::<u64>();
    Some(CpuTicks { busy: total - times.get(3)? - times.get(4)?, total })
}

/// Calls `work` with one part after the other until the time is up; returns bytes per second.
fn rate(steps: &[&[u8]], mut work: impl FnMut(&[u8])) -> u64 {
    let begun = Instant::now();
    let mut bytes = 0;
    for step in steps.iter().cycle() {
        work(step);
        bytes += step.len() as u64;
        if begun.elapsed() >= TIME {
            break;
        }
    }
    crate::rate::per_second(bytes, begun.elapsed().as_secs_f64()).unwrap_or(0)
}

fn aes(steps: &[&[u8]]) -> u64 {
    let Ok(key) = UnboundKey::new(&AES_128_GCM, &[7; 16]) else { return 0 };
    let key = LessSafeKey::new(key);
    let mut record = vec![0; RECORD];
    rate(steps, |step| {
        for part in step.chunks(RECORD) {
            let record = &mut record[..part.len()];
            record.copy_from_slice(part);
            // The nonce may repeat: nothing of this is ever sent.
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let _ = std::hint::black_box(key.seal_in_place_separate_tag(nonce, Aad::empty(), record));
        }
    })
}

fn compressed(method: ProbedMethod, steps: &[&[u8]]) -> Option<CompressFigures> {
    let (mut taken, mut given) = (0_u64, 0_u64);
    let mut out =
        vec![0; lz4_flex::block::get_maximum_output_size(STEP).max(zstd::zstd_safe::compress_bound(STEP))];
    let mut zstd = match method {
        ProbedMethod::Zstd(level) => Some(zstd::bulk::Compressor::new(level).ok()?),
        ProbedMethod::Lz4 => None,
    };
    let bytes_per_second = rate(steps, |step| {
        let len = match &mut zstd {
            Some(zstd) => zstd.compress_to_buffer(step, &mut out[..]).ok(),
            None => lz4_flex::block::compress_into(step, &mut out).ok(),
        };
        taken += step.len() as u64;
        // Content that grows is sent uncompressed.
        given += len.unwrap_or(step.len()).min(step.len()) as u64;
    });
    let permille = u32::try_from(given.saturating_mul(1000) / taken.max(1)).unwrap_or(1000);
    Some(CompressFigures { method, bytes_per_second, permille })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_all_time_but_idle_time() {
        let text = "cpu  100 10 50 800 40 5 5 20 7 0\ncpu0 1 2 3\n";
        assert_eq!(parse_work(text), Some(CpuTicks { busy: 190, total: 1030 }));
        for bad in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5"] {
            assert_eq!(parse_work(bad), None, "{bad}");
        }
        let before = CpuTicks { busy: 100, total: 1000 };
        assert!((CpuTicks { busy: 150, total: 1200 }.share_since(&before) - 0.25).abs() < 1e-9);
        assert!(work().total > 0);
    }

    #[test]
    fn text_compresses_and_noise_does_not() {
        let text: Vec<u8> = (0..200_000).flat_map(|n: u32| format!("line {n}\n").into_bytes()).collect();
        let figures = measure(&[text], true);
        assert!(figures.hash > 0 && figures.aes > 0 && figures.cores > 0);
        assert_eq!(figures.compress.len(), METHODS.len());
        assert!(figures.compress.iter().all(|way| way.permille < 600), "{figures:?}");
        let mut noise = vec![0; STEP];
        crate::random::fill_random(&mut noise, 3);
        assert!(measure(&[noise], true).compress.iter().all(|way| way.permille >= 990));
        assert!(measure(&[], true).compress.is_empty(), "random bytes say nothing about the content");
    }
}

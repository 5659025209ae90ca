//! Measures the conditions of a copy, and diagnoses common problems.
//!
//! [`run`] measures a host: each task takes a few seconds at most, reads a sample of the real files
//! ([`read`](mod@read)), writes unlinked files ([`write`](mod@write)), and measures one core ([`cpu`]). [`model`]
//! estimates the copy from the figures of both ends and of the link; [`doctor`] diagnoses an end. Nothing here prints
//! or uses the network.

pub mod cpu;
pub mod doctor;
pub mod facts;
pub mod model;
pub mod read;
pub mod survey;
pub mod write;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{Place, Result, Timestamp};

/// Runs a task. `resolve` maps a location to a local path.
///
/// # Errors
/// Those of `resolve`. What cannot be measured is missing from the figures.
pub fn run(task: &ProbeTask, resolve: &dyn Fn(&Place) -> Result<PathBuf>) -> Result<ProbeResult> {
    Ok(match task {
        ProbeTask::Read { place, samples } => ProbeResult::Read(read::measure(&resolve(place)?, samples)),
        ProbeTask::Write { place } => ProbeResult::Write(write::measure(existing_folder(&resolve(place)?))),
        ProbeTask::Facts { place, other } => {
            let folder = resolve(place)?;
            ProbeResult::Facts(Box::new(facts::gather(existing_folder(&folder), other.as_deref())))
        }
        ProbeTask::Clock => ProbeResult::Clock(clock()),
        ProbeTask::Work => ProbeResult::Work(cpu::work()),
    })
}

/// The directory itself, or its nearest existing parent.
fn existing_folder(path: &Path) -> &Path {
    let above = path.ancestors().find(|path| path.is_dir());
    // A relative path without parents is in the working directory.
    above.unwrap_or_else(|| Path::new(if path.is_absolute() { "/" } else { "." }))
}

/// The local time.
fn clock() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX), nsec: now.subsec_nanos() }
}

/// A count per second; `None` if it is 0.
fn per_second(count: u64, seconds: f64) -> Option<u64> {
    (count > 0 && seconds > 0.0).then(|| (count as f64 / seconds).round().max(1.0) as u64)
}

/// Fills `bytes` with incompressible data. The same `seed` gives the same bytes.
pub fn fill_random(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    for part in bytes.chunks_mut(8) {
        let next = split_mix(&mut state).to_le_bytes();
        part.copy_from_slice(&next[..part.len()]);
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_existing_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        for name in ["a/b/c", "file", ""] {
            assert_eq!(existing_folder(&dir.path().join(name)), dir.path().join("").as_path(), "{name}");
        }
        assert_eq!(existing_folder(Path::new("no/such")), Path::new("."));
    }

    #[test]
    fn random_bytes_do_not_compress() {
        let mut bytes = vec![0; 100_000];
        fill_random(&mut bytes, 7);
        assert!(zstd::bulk::compress(&bytes, 1).unwrap().len() > 99_000);
    }
}

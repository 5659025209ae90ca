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
mod random;
mod rate;
pub mod read;
pub mod survey;
pub mod write;

use std::path::{Path, PathBuf};

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{Place, Result, Timestamp};

pub use random::fill_random;

/// Runs a task. `resolve` maps a location to a local path.
///
/// # Errors
/// Those of `resolve`. The figures omit the values that cannot be measured.
pub fn run(task: &ProbeTask, resolve: &dyn Fn(&Place) -> Result<PathBuf>) -> Result<ProbeResult> {
    Ok(match task {
        ProbeTask::Read { place, samples } => ProbeResult::Read(read::measure(&resolve(place)?, samples)),
        ProbeTask::Write { place } => {
            ProbeResult::Write(write::measure(existing_directory(&resolve(place)?)))
        }
        ProbeTask::Facts { place, other } => {
            let directory = resolve(place)?;
            ProbeResult::Facts(Box::new(facts::gather(existing_directory(&directory), other.as_deref())))
        }
        ProbeTask::Clock => ProbeResult::Clock(Timestamp::now()),
        ProbeTask::Work => ProbeResult::Work(cpu::work()),
    })
}

/// The directory itself, or its nearest existing parent.
fn existing_directory(path: &Path) -> &Path {
    let above = path.ancestors().find(|path| path.is_dir());
    // A relative path without parents is in the working directory.
    above.unwrap_or_else(|| Path::new(if path.is_absolute() { "/" } else { "." }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_existing_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        for name in ["a/b/c", "file", ""] {
            assert_eq!(existing_directory(&dir.path().join(name)), dir.path().join("").as_path(), "{name}");
        }
        assert_eq!(existing_directory(Path::new("no/such")), Path::new("."));
    }
}

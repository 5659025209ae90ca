//! Directories for what haul keeps between runs, in `$XDG_STATE_HOME/haul` or `~/.local/state/haul`. They are created
//! with access for their owner only.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The age at which unused files are removed: longer than any `--index-refresh`.
const KEPT: Duration = Duration::from_secs(400 * 86_400);

/// The directory of per-host hints, such as the number of connections that helped.
///
/// # Errors
/// If it cannot be created or belongs to another user.
pub fn hosts_dir() -> io::Result<PathBuf> {
    dir("hosts")
}

/// The directory of the indexes of sources.
///
/// # Errors
/// If it cannot be created or belongs to another user.
pub(crate) fn indexes_dir() -> io::Result<PathBuf> {
    dir("index")
}

/// The directory of the mount points of sources.
///
/// # Errors
/// If it cannot be created or belongs to another user.
pub(crate) fn mounts_dir() -> io::Result<PathBuf> {
    dir("mounts")
}

fn dir(name: &str) -> io::Result<PathBuf> {
    let path = haul_state::folder(name)?;
    haul_state::make(&path)?;
    Ok(path)
}

/// Removes files that were not written for a long time.
pub(crate) fn remove_old(dir: &Path) {
    let is_old = |file: &DirEntry| {
        let age = file.metadata().and_then(|meta| meta.modified()).map(|modified| modified.elapsed());
        matches!(age, Ok(Ok(age)) if age > KEPT)
    };
    for file in fs::read_dir(dir).into_iter().flatten().flatten().filter(is_old) {
        let _ = fs::remove_file(file.path());
    }
}

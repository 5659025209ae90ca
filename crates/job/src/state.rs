//! Directories for the files that haul keeps between runs, in `$XDG_STATE_HOME/haul` or `~/.local/state/haul`. haul
//! creates them with access for their owner only.

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

/// The directory of the sockets of logins that outlive a run: in `$XDG_RUNTIME_DIR/haul` if that can be, where every
/// file system takes sockets.
///
/// # Errors
/// If it cannot be created or belongs to another user, or if its path is too long or has characters that ssh expands.
pub fn logins_dir() -> io::Result<PathBuf> {
    // 108 bytes for the address of a socket, of which ssh needs 17 and haul the name of a file.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@".contains(c);
    let fits = |path: &Path| path.to_str().is_some_and(|path| path.len() < 70 && path.chars().all(is_plain));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("haul"));
    let usable = |dir: &PathBuf| dir.is_absolute() && fits(dir) && haul_state::make(dir).is_ok();
    if let Some(dir) = runtime.filter(usable) {
        return Ok(dir);
    }
    let path = dir("ssh")?;
    if fits(&path) {
        return Ok(path);
    }
    let cause = format!("ssh takes no socket in {}; set XDG_RUNTIME_DIR to a short path", path.display());
    Err(io::Error::other(cause))
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
    let path = haul_state::directory(name)?;
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

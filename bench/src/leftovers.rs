//! Removes the namespaces, cgroups and scratch directories of killed invocations.
//!
//! Namespaces and cgroups have the process ID of their invocation in their names. A scratch directory has a lock file,
//! which the invocation keeps locked while it runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Prefix of the names of namespaces.
pub(crate) const NETNS_PREFIX: &str = "haulbench";
/// Prefix of the names of cgroups.
pub(crate) const CGROUP_PREFIX: &str = "haul-bench-";
const LOCK: &str = "lock";
/// The mount point of the slow file system in a scratch directory.
pub(crate) const SLOW: &str = "slow";

/// The scratch directory of an invocation. Removed on drop.
pub(crate) struct BenchScratch {
    path: PathBuf,
    _lock: File,
}

impl BenchScratch {
    /// Creates a directory below `base`, and removes those of dead invocations.
    pub(crate) fn new(base: &Path) -> Result<Self> {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with("run-");
            let lock = File::open(entry.path().join(LOCK));
            if is_ours && lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                // The FUSE process is dead.
                let _ = rustix::mount::unmount(entry.path().join(SLOW), rustix::mount::UnmountFlags::DETACH);
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let path = base.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BenchScratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the namespaces of dead invocations.
pub(crate) fn sweep_namespaces() {
    for name in names(Path::new("/run/netns")) {
        let Some(pid) = name.strip_prefix(NETNS_PREFIX) else {
            continue;
        };
        if is_gone(pid.trim_end_matches(['n', 'f'])) {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// Removes the cgroups of dead invocations.
pub(crate) fn sweep_cgroups(place: &Path) {
    for name in names(place) {
        if name.strip_prefix(CGROUP_PREFIX).is_some_and(is_gone) {
            let top = place.join(name);
            for path in [top.join("near"), top.join("far"), top] {
                let _ = fs::remove_dir(path);
            }
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn is_gone(pid: &str) -> bool {
    pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

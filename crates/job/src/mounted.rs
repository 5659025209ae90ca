//! Detects that the file system of a source was unmounted since the last run. Its mount point is then another
//! directory, usually an empty one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_core::path::printable;
use haul_core::{Location, Result};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::errors::usage;
use super::state::{mounts_dir, remove_old};

/// The mount point of the source of a `sync`, to be saved for the next run.
pub(crate) struct MountCheck {
    file: PathBuf,
    mount_point: PathBuf,
}

impl MountCheck {
    /// Compares the mount point with that of the last run with this source and destination. `None` if the source is not
    /// local or nothing can be saved.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the file system of the last run is not mounted now, unless `force` is set.
    pub(crate) fn check(source: &Location, destination: &Location, force: bool) -> Result<Option<Self>> {
        let Location::Local(path) = source else { return Ok(None) };
        let path = if path.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(path)) };
        let (Ok(absolute), Some(mount_point)) = (std::path::absolute(path), mount_point(path)) else {
            return Ok(None);
        };
        let Ok(dir) = mounts_dir() else { return Ok(None) };
        let words = [absolute.as_os_str().as_bytes(), destination.to_string().as_bytes()].map(<[u8]>::to_vec);
        let file = dir.join(haul_index::name_of(&words.each_ref().map(Vec::as_slice)));
        let before = fs::read(&file).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        if let Ok(before) = before
            && is_gone(&before, &mount_point)
            && !is_mount_point(&before).unwrap_or(false)
            && !force
        {
            let before = printable(before.as_os_str().as_bytes());
            let cause = format!(
                "a file system was mounted at {before} in the last run and is not now: nothing was changed \
                 (use --force-delete if this is intended)"
            );
            return Err(usage("sync", cause).on(source.to_string()));
        }
        remove_old(&dir);
        Ok(Some(Self { file, mount_point }))
    }

    /// Saves the mount point for the next run. A failure only disables the next run's check.
    pub(crate) fn remember(&self) {
        let new = self.file.with_extension("new");
        let bytes = self.mount_point.as_os_str().as_bytes();
        let _ = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &self.file));
    }
}

/// Whether the file system at `before` is no longer mounted: the path is now on the file system of a parent directory.
fn is_gone(before: &Path, now: &Path) -> bool {
    before != now && before.starts_with(now)
}

/// The mount point of the file system of `path`.
fn mount_point(path: &Path) -> Option<PathBuf> {
    // Triggers an automount.
    let _ = fs::metadata(path.join("."));
    let real = path.canonicalize().ok()?;
    real.ancestors().find(|dir| is_mount_point(dir).unwrap_or(false)).map(Path::to_owned)
}

fn is_mount_point(dir: &Path) -> io::Result<bool> {
    let Some(parent) = dir.parent() else { return Ok(true) };
    let stat = statx(CWD, dir, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())?;
    if stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Linux before 5.8.
    Ok(fs::symlink_metadata(dir)?.dev() != fs::symlink_metadata(parent)?.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmounted_file_system_differs_from_a_new_mount() {
        let gone = |before: &str, now: &str| is_gone(Path::new(before), Path::new(now));
        assert!(gone("/mnt/disk", "/") && gone("/mnt/disk", "/mnt"));
        assert!(!gone("/", "/mnt/disk") && !gone("/mnt/disk", "/mnt/disk") && !gone("/mnt/disk", "/mnt/di"));
        assert!(!gone("/mnt/a", "/mnt/b"), "another file system is mounted");
    }

    #[test]
    fn mount_points_are_found() {
        assert_eq!(mount_point(Path::new("/proc/self/fd/../status")).as_deref(), Some(Path::new("/proc")));
        assert_eq!(mount_point(Path::new("/proc")).as_deref(), Some(Path::new("/proc")));
        assert_eq!(mount_point(Path::new("/")).as_deref(), Some(Path::new("/")));
        assert_eq!(mount_point(Path::new("/no/such/path")), None);
    }
}

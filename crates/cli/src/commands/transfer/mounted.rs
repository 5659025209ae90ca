//! Recognising that the file system of a source was unmounted since the last run: what is at its place then is another
//! directory, and mostly an empty one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_core::path::printable;
use haul_core::{Location, Result};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::index::tidy;
use crate::jobs::Folder;
use crate::settings::usage;

/// Where the source of a `sync` is mounted, to be remembered.
pub(super) struct Mounted {
    file: PathBuf,
    mount_point: PathBuf,
}

impl Mounted {
    /// Compares with what the last run of this source and destination remembers. `None` for a source on another machine or
    /// in a store, or where nothing can be remembered.
    ///
    /// # Errors
    /// If the source was on a file system then that is not mounted now, unless `force` says that this is meant.
    pub(super) fn check(source: &Location, destination: &Location, force: bool) -> Result<Option<Self>> {
        let Location::Local(path) = source else { return Ok(None) };
        let path = if path.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(path)) };
        let (Ok(absolute), Some(mount_point)) = (std::path::absolute(path), mount_point(path)) else {
            return Ok(None);
        };
        let Ok(folder) = Folder::mounts() else { return Ok(None) };
        let words = [absolute.as_os_str().as_bytes(), destination.to_string().as_bytes()].map(<[u8]>::to_vec);
        let file = folder.join(haul_index::name_of(&words.each_ref().map(Vec::as_slice)));
        let before = fs::read(&file).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        if let Ok(before) = before
            && is_gone(&before, &mount_point)
            && !is_mount_point(&before).unwrap_or(false)
            && !force
        {
            let before = printable(before.as_os_str().as_bytes());
            let cause = format!(
                "a file system was mounted at {before} at the last run and none is now: nothing was changed \
                 (if that is meant: --force-delete)"
            );
            return Err(usage("sync", cause).on(source.to_string()));
        }
        tidy(&folder);
        Ok(Some(Self { file, mount_point }))
    }

    /// Remembers it for the next run. If that fails, only the next run's check is lost.
    pub(super) fn remember(&self) {
        let new = self.file.with_extension("new");
        let bytes = self.mount_point.as_os_str().as_bytes();
        let _ = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &self.file));
    }
}

/// Whether what was mounted at `before` is not any more: the path is now on the file system of a directory above.
fn is_gone(before: &Path, now: &Path) -> bool {
    before != now && before.starts_with(now)
}

/// Where the file system that holds `path` is mounted.
fn mount_point(path: &Path) -> Option<PathBuf> {
    // Looked into, so that what is mounted on access is.
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
    fn a_mount_that_went_away_is_told_from_one_that_came() {
        let gone = |before: &str, now: &str| is_gone(Path::new(before), Path::new(now));
        assert!(gone("/mnt/disk", "/") && gone("/mnt/disk", "/mnt"));
        assert!(!gone("/", "/mnt/disk") && !gone("/mnt/disk", "/mnt/disk") && !gone("/mnt/disk", "/mnt/di"));
        assert!(!gone("/mnt/a", "/mnt/b"), "another one is there");
    }

    #[test]
    fn mount_points_are_found() {
        assert_eq!(mount_point(Path::new("/proc/self/fd/../status")).as_deref(), Some(Path::new("/proc")));
        assert_eq!(mount_point(Path::new("/proc")).as_deref(), Some(Path::new("/proc")));
        assert_eq!(mount_point(Path::new("/")).as_deref(), Some(Path::new("/")));
        assert_eq!(mount_point(Path::new("/no/such/path")), None);
    }
}

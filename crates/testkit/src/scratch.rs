//! Temporary directories of tests.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::OFlags;
use tempfile::TempDir;

/// The directory to which directories are moved in place of being removed, if there is one; the caller removes it.
///
/// For each new file, ext4 without a journal looks at all inodes of the group that were deleted within the last
/// minutes. With the files of many tests that took a third of the CPU time of all of them.
static ASIDE: LazyLock<Option<PathBuf>> = LazyLock::new(|| env::var_os("E2E_ASIDE").map(PathBuf::from));
/// Directories are moved there only while its disk has so much free space, in bytes.
const SPARE: u64 = 20 << 30;
/// Larger files lose their content at once, in bytes.
const SMALL: u64 = 64 << 10;

/// Moves a directory aside. Whether it did.
fn set_aside(dir: &Path) -> bool {
    let (Some(aside), Some(name)) = (&*ASIDE, dir.file_name()) else { return false };
    let has_space = rustix::fs::statvfs(aside).is_ok_and(|disk| disk.f_bavail * disk.f_frsize > SPARE);
    if has_space {
        empty_large_files(dir);
    }
    has_space && fs::rename(dir, aside.join(name)).is_ok()
}

fn empty_large_files(dir: &Path) {
    let Ok(list) = fs::read_dir(dir) else { return };
    for entry in list.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            empty_large_files(&entry.path());
        } else if metadata.is_file() && metadata.blocks() * 512 > SMALL {
            let nofollow = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let opened = File::options().write(true).custom_flags(nofollow).open(entry.path());
            let _ = opened.and_then(|file| file.set_len(0));
        }
    }
}

/// A temporary directory. Removed on drop, including directories without permissions.
#[derive(Debug)]
pub struct Scratch {
    dir: Option<TempDir>,
    path: PathBuf,
}

impl Scratch {
    /// A new empty directory in `TMPDIR`.
    #[must_use]
    pub fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    /// A new empty directory in `parent`.
    #[must_use]
    pub fn inside(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("haul-test-").tempdir_in(parent);
        let dir = dir.unwrap_or_else(|error| panic!("cannot make a directory in {parent:?}: {error}"));
        // Unprivileged remote ends and servers need access.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        Self { dir: Some(dir), path }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in the directory.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        open_up(&self.path);
        let Some(dir) = self.dir.take() else { return };
        if set_aside(&self.path) {
            let _ = dir.keep();
        } else {
            // A failed removal must not hide why a test failed.
            let _ = dir.close();
        }
    }
}

/// Sets permissions on every directory below `dir` that allow its removal.
pub fn open_up(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o755));
    let Ok(list) = fs::read_dir(dir) else { return };
    for entry in list.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

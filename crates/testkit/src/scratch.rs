//! Temporary directories of tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

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
        let dir = dir.unwrap_or_else(|error| panic!("cannot make a folder in {parent:?}: {error}"));
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
        if let Some(dir) = self.dir.take() {
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

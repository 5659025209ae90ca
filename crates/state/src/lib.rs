//! The directories for state that outlives a run: in `$XDG_STATE_HOME/haul`, by default `~/.local/state/haul`.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The path of a state directory of this user, which need not exist.
///
/// # Errors
/// Neither XDG_STATE_HOME nor HOME is set.
pub fn directory(name: &str) -> io::Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is set"))?;
    Ok(state.join("haul").join(name))
}

/// Creates the directory `path`, accessible to its owner only, unless it exists.
///
/// # Errors
/// The error of creating it; another user owns it or its nearest existing parent (with sudo, HOME may be another
/// user's, where nothing must be left); or others may write to it.
pub fn make(path: &Path) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let there = path.ancestors().find_map(|dir| fs::metadata(dir).ok());
    if there.is_some_and(|there| there.uid() != own) {
        return Err(io::Error::other(format!("{} belongs to another user", path.display())));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if fs::metadata(path)?.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("others may write to {}", path.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_created_only_where_it_is_the_users_own() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("state/haul/uploads");
        make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make(&path).is_err(), "others may write to it");
        if rustix::process::geteuid().is_root() {
            let other = scratch.path().join("home");
            fs::create_dir(&other).unwrap();
            std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
            assert!(make(&other.join(".local/state/haul/uploads")).is_err());
            assert!(!other.join(".local").exists(), "nothing was left there");
        }
    }
}

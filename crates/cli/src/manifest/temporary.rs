//! Temporary files that become manifests and signatures.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// A new temporary file in the directory of `file`, with the mode of any new file.
pub(super) fn temporary(file: &Path) -> io::Result<NamedTempFile> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let all = Permissions::from_mode(0o666);
    Builder::new().prefix(".haul-manifest-").permissions(all).tempfile_in(dir)
}

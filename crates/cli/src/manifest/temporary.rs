//! Temporary files that become manifests and signatures.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// A new temporary file in the directory of `file`, with the mode of any new file.
///
/// # Errors
/// The error of the system. It does not name the temporary file, as errors of tempfile's own files do.
pub(super) fn temporary(file: &Path) -> io::Result<NamedTempFile> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Builder::new().prefix(".haul-manifest-").make_in(dir, |path| File::create_new(path))
}

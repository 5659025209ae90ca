//! The output of `haul get`, and its progress.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use haul_core::{Error, Limit, Result, Side, Totals};
use haul_streams::get::{GetStatus, Output};

use super::stream::StreamProgress;
use crate::args::GetArgs;
use crate::manifest::Names;

/// Standard output, for content.
///
/// # Errors
/// The error of dup(2).
pub(super) fn stdout() -> Result<Output> {
    let fd = std::io::stdout().as_fd().try_clone_to_owned();
    Ok(Output::open(fd.map_err(|error| Error::io(Side::Destination, "write standard output", &error))?))
}

/// The progress of a get of `len` bytes.
pub(super) fn progress(len: u64, status: &GetStatus) -> StreamProgress {
    let totals = Totals {
        found: 1,
        found_bytes: len,
        sent_bytes: status.written.load(Ordering::Relaxed),
        resumed_bytes: status.resumed.load(Ordering::Relaxed),
        ..Totals::default()
    };
    let waits = status.waits.load(Ordering::Relaxed);
    let limit = if waits { Limit::Source } else { Limit::Destination };
    StreamProgress { totals, ended: true, limit }
}

/// How a manifest names what is read: as the file that is written.
pub(super) fn names(args: &GetArgs) -> Names {
    let written = args.file.as_deref().filter(|path| !is_folder(path)).and_then(Path::file_name);
    written.map_or(Names::Last, |name| Names::Given(name.as_bytes().to_vec()))
}

fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/")
}

/// The file for an object.
pub(super) fn file(path: &Path, key: &str) -> PathBuf {
    if is_folder(path) { path.join(key.rsplit('/').next().unwrap_or_default()) } else { path.to_owned() }
}

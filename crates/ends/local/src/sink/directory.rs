//! Directories in the way of other entries.

use haul_core::staging::is_staging_name;
use haul_core::{Entry, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::state::LocalSink;
use crate::path::at::At;
use crate::stage::clean::clean_directory;
use crate::stage::publish::not_empty;

/// Removes an empty directory in the place of the entry.
///
/// # Errors
/// `NotEmpty` if the directory has content.
pub(super) fn clear_dir(sink: &LocalSink, entry: &Entry) -> Result<()> {
    if sink.options.dry_run {
        let is_empty = sink.root().at(&entry.path).and_then(|at| is_empty(&at));
        return if is_empty == Ok(false) { Err(not_empty(sink.root(), &entry.path)) } else { Ok(()) };
    }
    let removed = sink.root().at(&entry.path).and_then(|at| match at.unlink(AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if clean_directory(&at) => at.unlink(AtFlags::REMOVEDIR),
        other => other,
    });
    sink.root().forget(&entry.path);
    match removed {
        Ok(()) => {
            sink.cleared.add(&sink.options, &entry.path);
            Ok(())
        }
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(not_empty(sink.root(), &entry.path)),
        Err(errno) => Err(sink.root().error("replace", &entry.path, errno)),
    }
}

/// Whether the directory holds only staged files of killed runs.
fn is_empty(at: &At) -> rustix::io::Result<bool> {
    let opened = at.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    for name in rustix::fs::Dir::new(opened)? {
        let name = name?;
        let name = name.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !is_staging_name(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

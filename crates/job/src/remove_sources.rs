//! Removing the source entries after all parts of a job were copied.
//!
//! It waits for the last part: an earlier one may decide which of several sources a name comes from.

use std::sync::Arc;

use haul_core::{
    Answer, Entry, EntryKind, Error, ErrorKind, Location, Offer, Place, RelPath, Result, Side, Sink, Source,
};
use haul_engine::ConfirmedEntries;

use super::errors::usage;

/// How to remove source files.
#[derive(Clone, Copy, Debug)]
pub struct RemoveSources {
    /// Remove none if metadata could not be set at the destination.
    pub strict: bool,
}

/// A part of a job that was copied.
pub(crate) struct CopiedPart {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) at: Location,
    pub(crate) place: Place,
    pub(crate) entries: Arc<ConfirmedEntries>,
    pub(crate) root_name: Vec<u8>,
    pub(crate) listed: bool,
}

/// Checks, before anything is copied, that the source removes files and the destination makes them durable.
///
/// # Errors
/// [`ErrorKind::Usage`] if they do not or may not; else the error of an end.
pub(crate) fn check_ends(source: &dyn Source, sink: &dyn Sink) -> Result<()> {
    if !source.caps().removes {
        return Err(usage("remove source files", "the source cannot remove files"));
    }
    if !sink.caps().durable {
        let cause = "the destination cannot sync files (its SFTP server lacks fsync@openssh.com), so a crash could \
                     lose what was moved there";
        return Err(usage("remove source files", cause));
    }
    match source.remove_unchanged(&[]) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            Err(usage("remove source files", error.cause()).on(error.subject()))
        }
        Err(error) => Err(error),
    }
}

/// Refuses a source and a destination that are one directory, which no path or inode shows: an SFTP server and a mount
/// of the same file system, or a bucket and its mount. Creates an empty directory at the destination, looks for it at
/// the source and removes it. `open` opens the destination.
///
/// # Errors
/// [`ErrorKind::Usage`] if they are one directory, or if that cannot be told; else the error of an end.
pub(crate) fn refuse_one_tree(
    source: &dyn Source,
    open: &mut dyn FnMut() -> Result<Arc<dyn Sink>>,
) -> Result<()> {
    if source.root()?.is_none_or(|root| !root.is_dir()) {
        return Ok(());
    }
    let name = format!("haul-check-{:016x}", haul_core::random::number() as u64);
    let path = RelPath::new(name.as_bytes())
        .map_err(|bad| Error::new(ErrorKind::Io, Side::Local, "compare the ends", bad.to_string()))?;
    let entry = Arc::new(Entry { mode: 0o700, ..Entry::new(path.clone(), EntryKind::Dir, 0) });
    let paths = [path];
    let sink = open()?;
    let made = sink.offer(&[Offer { entry, digest: None }])?.pop();
    let found = source.lookup(&paths);
    // Directories above it get their modes.
    sink.finish()?;
    // Another sink, as this one may have kept a listing from before.
    let removed = open()?.remove(&paths)?.pop();
    match made {
        Some(Ok(Answer::Made(_))) => {}
        Some(Err(error)) => return Err(error),
        _ => {
            let cause = "no directory can be created at the destination, so haul cannot tell whether it is the source";
            return Err(usage("remove source files", cause));
        }
    }
    removed.unwrap_or(Ok(()))?;
    match found?.pop() {
        Some(Ok(None)) => Ok(()),
        Some(Err(error)) => Err(error),
        _ => Err(usage("remove source files", "source and destination are the same directory")
            .with_hint("choose another destination")),
    }
}

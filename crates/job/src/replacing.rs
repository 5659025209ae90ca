//! Options that only the file system of a host with haul can serve, and destinations that are read as sources.

use std::sync::Arc;

use haul_core::{
    DirLinks, Error, ErrorKind, Links, Location, Place, ReferencePurpose, Result, Side, SinkOptions, Source,
    SourceOptions,
};

use super::ends::Ends;

/// Refuses `--inplace`, `--backup`, `--link-dest`, `--compare-dest` and `--keep-dirlinks` where haul is missing: over
/// SFTP, on shares and in stores files can only be replaced.
pub(crate) fn check_replacing(ends: &mut Ends, destination: &Location, sink: &SinkOptions) -> Result<()> {
    let (operation, option) = match sink {
        sink if sink.in_place => ("change in place", "--inplace"),
        sink if sink.backup.is_some() => ("keep backups", "--backup"),
        sink if !sink.references.dirs.is_empty() => match sink.references.purpose {
            ReferencePurpose::Link => ("link to earlier copies", "--link-dest"),
            ReferencePurpose::Omit => ("compare with earlier copies", "--compare-dest"),
        },
        sink if sink.keep_dirlinks => return check_dirlinks(ends, destination),
        _ => return Ok(()),
    };
    if serves(ends, destination)? {
        return Ok(());
    }
    let (why, hint) = match destination {
        Location::Smb { .. } => ("haul can only replace files on a share", format!("omit {option}")),
        Location::Object(_) => {
            ("objects can only be replaced", format!("omit {option}; stores can keep versions of objects"))
        }
        _ => (
            "without haul on the remote host, files can only be replaced",
            format!("omit {option}, or install haul on the remote host"),
        ),
    };
    let error = Error::new(ErrorKind::Usage, Side::Destination, operation, why);
    Err(error.on(destination.to_string()).with_hint(hint))
}

fn check_dirlinks(ends: &mut Ends, destination: &Location) -> Result<()> {
    if serves(ends, destination)? {
        return Ok(());
    }
    let (why, hint) = match destination {
        Location::Smb { .. } => ("the server of a share resolves its links itself", "omit --keep-dirlinks"),
        Location::Object(_) => ("a store has no symbolic links to directories", "omit --keep-dirlinks"),
        _ => (
            "without haul on the remote host, nothing tells whose links they are",
            "omit --keep-dirlinks, or install haul on the remote host",
        ),
    };
    let error = Error::new(ErrorKind::Usage, Side::Destination, "use --keep-dirlinks", why);
    Err(error.on(destination.to_string()).with_hint(hint))
}

/// Whether haul itself serves the files of the destination.
fn serves(ends: &mut Ends, destination: &Location) -> Result<bool> {
    Ok(matches!(destination, Location::Local(_)) || ends.is_peer(destination)?)
}

impl Ends {
    /// Opens a destination as a source, to compare it with another end.
    ///
    /// # Errors
    /// As [`Ends::source`]; [`ErrorKind::Usage`] if no path may lead through symbolic links there.
    pub fn compared_source(
        &mut self,
        at: &Location,
        place: &Place,
        dirlinks: DirLinks,
    ) -> Result<Arc<dyn Source>> {
        if dirlinks == DirLinks::Kept {
            return self.source(at, place, Links::Kept);
        }
        check_dirlinks(self, at)?;
        let ops = self.source_ops();
        self.read(at, place, SourceOptions { dirlinks, ..SourceOptions::default() }, &ops)
    }
}

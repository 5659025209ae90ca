//! Computes the SHA-256 of the files that a part of a job has copied or compared. This takes an extra pass over one
//! end: SHA-256 has to read each file from its start, but a copy reads slices in any order, and skips slices or whole
//! files.

use std::sync::Arc;

use haul_core::event::Content;
use haul_core::sync::Mutex;
use haul_core::{Digest, DirLinks, Error, Event, Location, Place, RelPath, Reporter, Result, Source};
use haul_engine::Cancel;
use haul_spool::Spool;

use super::ends::Ends;
use super::part::PartReporter;

/// Files with their BLAKE3 digests, and whether the list could be written.
type HashedFiles = (Spool<(RelPath, Digest)>, std::io::Result<()>);

/// Passes the events of a part on, and collects the files whose content the run has verified.
pub(crate) struct Verified<'a> {
    reporter: &'a PartReporter<'a>,
    files: Mutex<HashedFiles>,
}

impl<'a> Verified<'a> {
    pub(crate) fn new(reporter: &'a PartReporter<'a>) -> Self {
        Self { reporter, files: Mutex::new((Spool::default(), Ok(()))) }
    }

    /// Hashes the files at `end`, and tells the observer.
    ///
    /// # Errors
    /// If the end cannot be read, or the list.
    pub(crate) fn hash(self, end: &dyn Source, cancel: &Cancel) -> Result<()> {
        let failed = |error: &std::io::Error| Error::list("verified files", error);
        let (files, pushed) = self.files.into_inner();
        pushed.map_err(|error| failed(&error))?;
        let mut tell = |path: &RelPath, sha256| {
            self.reporter.observer.sha256(&self.reporter.name(path), sha256);
        };
        haul_engine::sha256(end, &files, &mut tell, cancel)
    }
}

impl Reporter for Verified<'_> {
    fn event(&self, event: &Event<'_>) {
        if let Event::Entry { path, done } = event
            && let Content::Digest(digest) = done.content
        {
            let mut files = self.files.lock();
            let pushed = files.0.push(&((*path).clone(), digest));
            if files.1.is_ok() {
                files.1 = pushed;
            }
        }
        self.reporter.event(event);
    }
}

/// The end whose files are hashed: the one that is nearer, and the destination of two. Each file counts only if it has
/// the BLAKE3 digest that the copy has verified.
///
/// # Errors
/// If the destination cannot be opened.
pub(crate) fn end_to_hash(
    ends: &mut Ends,
    source: (&Location, &Arc<dyn Source>),
    destination: (&Location, &Place),
    dirlinks: DirLinks,
) -> Result<Arc<dyn Source>> {
    let mut distance = |end: &Location| -> Result<u8> {
        Ok(match end {
            Location::Local(_) => 0,
            Location::Ssh { .. } if ends.is_peer(end)? => 1,
            Location::Ssh { .. } | Location::Sftp { .. } | Location::Smb { .. } | Location::Object(_) => 2,
        })
    };
    if distance(source.0)? < distance(destination.0)? {
        return Ok(Arc::clone(source.1));
    }
    ends.compared_source(destination.0, destination.1, dirlinks)
}

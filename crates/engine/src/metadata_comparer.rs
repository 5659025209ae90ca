//! Asks the destination how the metadata of entries differs: as a dry run of a copy would.

use std::sync::Arc;

use haul_core::{
    Answer, Changes, Entry, EntryKind, Error, ErrorKind, HardLink, Links, Offer, Result, Side, Sink,
    SkipReason,
};

use crate::answers::one_each;
use crate::hard_links::HardLinks;

/// An entry of the source, and the one that the destination has under its name.
pub(crate) struct EntryPair {
    pub(crate) entry: Arc<Entry>,
    pub(crate) found: Entry,
}

/// Compares the metadata of entries, and which of their names are hard links.
pub(crate) struct MetadataComparer<'a> {
    sink: &'a dyn Sink,
    links: HardLinks,
}

impl<'a> MetadataComparer<'a> {
    /// `symlinks`: how the source treats symbolic links.
    pub(crate) fn new(sink: &'a dyn Sink, symlinks: Links) -> Self {
        Self { sink, links: HardLinks::new(symlinks) }
    }

    /// How the metadata of each entry differs.
    ///
    /// # Errors
    /// If the destination does not answer.
    pub(crate) fn compare(&self, pairs: &[EntryPair]) -> Result<Vec<Result<Changes>>> {
        let (mut offers, mut links, mut is_link) = (Vec::new(), Vec::new(), Vec::with_capacity(pairs.len()));
        for EntryPair { entry, .. } in pairs {
            let entry = Arc::clone(entry);
            let first = self.links.first_name(&entry);
            is_link.push(first.is_some());
            match first {
                Some(to) => links.push(HardLink { entry, to }),
                None => offers.push(Offer { entry, digest: None }),
            }
        }
        let mut offered = self.offer(&offers)?.into_iter();
        let linked = if links.is_empty() { Vec::new() } else { self.sink.link(&links)? };
        let mut linked = one_each(linked, links.len(), Side::Destination, "compare")?.into_iter();
        let mut answers = Vec::with_capacity(pairs.len());
        for (EntryPair { entry, .. }, is_link) in pairs.iter().zip(is_link) {
            let answer = if is_link { linked.next() } else { offered.next() };
            answers.push(match answer {
                Some(Ok(Answer::Same | Answer::Left(_))) => Ok(Changes::NONE),
                Some(Ok(Answer::Updated(changes))) => Ok(changes),
                Some(Ok(Answer::Made(_) | Answer::Need { .. })) | None => Err(changed(entry)),
                Some(Err(error)) => Err(error),
            });
        }
        Ok(answers)
    }

    /// Which of the entries, that the destination lacks, it cannot have.
    ///
    /// # Errors
    /// If the destination does not answer.
    pub(crate) fn refused(&self, missing: &[Arc<Entry>]) -> Result<Vec<bool>> {
        let is_asked = |entry: &Entry| !matches!(entry.kind, EntryKind::File | EntryKind::Dir);
        let asked = missing.iter().filter(|entry| is_asked(entry));
        let offers: Vec<Offer> =
            asked.map(|entry| Offer { entry: Arc::clone(entry), digest: None }).collect();
        let mut answers = self.offer(&offers)?.into_iter();
        let is_refused = |entry: &Arc<Entry>| {
            let answer = if is_asked(entry) { answers.next() } else { None };
            matches!(answer, Some(Ok(Answer::Left(SkipReason::Unsupported))))
        };
        Ok(missing.iter().map(is_refused).collect())
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        if offers.is_empty() {
            return Ok(Vec::new());
        }
        one_each(self.sink.offer(offers)?, offers.len(), Side::Destination, "compare")
    }
}

fn changed(entry: &Entry) -> Error {
    let cause = "it changed while it was compared";
    Error::new(ErrorKind::Io, Side::Destination, "compare", cause).on(entry.path.as_bytes())
}

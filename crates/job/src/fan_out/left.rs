//! First names of hard-linked files that stay as they are at one destination: no further name is linked to them there.

use std::collections::HashSet;

use haul_core::{Answer, HardLink, Offer, RelPath, Result};

/// The numbers of the ends, and the names.
#[derive(Default)]
pub(super) struct LeftNames(HashSet<(usize, RelPath)>);

impl LeftNames {
    /// Notes the answers of an end.
    pub(super) fn note(&mut self, end: usize, offers: &[Offer], answers: &[Result<Answer>]) {
        let left = offers.iter().zip(answers).filter(|(_, answer)| matches!(answer, Ok(Answer::Left(_))));
        let linked = left.map(|(offer, _)| &offer.entry).filter(|entry| entry.nlink > 1 && !entry.is_dir());
        self.0.extend(linked.map(|entry| (end, entry.path.clone())));
    }

    /// Whether the first name of each link was left by an end.
    pub(super) fn are_left(&self, end: usize, links: &[HardLink]) -> Vec<bool> {
        links.iter().map(|link| self.0.contains(&(end, link.to.clone()))).collect()
    }
}

//! Metadata that costs requests of its own, if the user asks for it: security descriptors and alternate data streams.

use std::collections::HashMap;

use haul_core::policy::Verdict;
use haul_core::{Changes, Entry, ErrorKind, RelPath, Result};
use haul_ends::offers::PendingOffer;

use super::attrs::Attrs;
use super::entries::is_link;
use super::login::ShareOptions;
use super::reply::Fault;
use super::state::SmbSink;
use super::tree::Tree;

impl ShareOptions {
    fn has_extras(&self) -> bool {
        self.acls || self.streams
    }
}

impl Tree {
    /// Adds the requested metadata to the attributes of entries.
    ///
    /// # Errors
    /// If the server cannot be reached any more.
    pub(super) fn with_extras(&self, entries: Vec<Entry>) -> Result<Vec<(RelPath, Result<Entry>)>> {
        let options = &self.smb.server.login.options;
        if !options.has_extras() {
            return Ok(entries.into_iter().map(|entry| (entry.path.clone(), Ok(entry))).collect());
        }
        let read = self.smb.all(&entries, async |entry: &Entry| {
            let mut extras = Vec::new();
            // Linux keeps no such attributes of links.
            if is_link(entry) && !self.keeps_reparse_points {
                return Ok(extras);
            }
            if options.acls {
                extras.push(self.security_attribute(&entry.path).await?);
            }
            if options.streams && !is_link(entry) {
                extras.extend(self.stream_attributes(&entry.path).await?);
            }
            Ok(extras)
        })?;
        let mut all = Vec::with_capacity(entries.len());
        for (mut entry, read) in entries.into_iter().zip(read) {
            let path = entry.path.clone();
            let read = match read {
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                Err(fault) => Err(self.error("read the metadata of", &path, fault)),
                Ok(extras) => {
                    entry.xattrs.extend(extras);
                    Ok(entry)
                }
            };
            all.push((path, read));
        }
        Ok(all)
    }
}

impl SmbSink {
    /// How these existing entries differ from those that they are to be.
    pub(super) fn differ_in_extras<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Vec<Changes>> {
        let entries: Vec<&Entry> = entries.into_iter().collect();
        if !self.tree.smb.server.login.options.has_extras() {
            return Ok(vec![Changes::NONE; entries.len()]);
        }
        let differ = self.tree.smb.all(&entries, async |entry: &&Entry| {
            let mut changes = Changes::NONE;
            for (change, differs) in [
                (Changes::ACL, self.differs_in_security(entry).await),
                (Changes::XATTR, self.differs_in_streams(entry).await),
            ] {
                changes |= change.when(match differs {
                    Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                    // Setting it meets the same refusal.
                    differs => differs.unwrap_or(true),
                });
            }
            Ok(changes)
        })?;
        differ.into_iter().collect()
    }

    /// The unchanged entries, by position, and how they differ.
    pub(super) fn differing_extras(
        &self,
        cases: &[PendingOffer<'_, Attrs>],
    ) -> Result<HashMap<usize, Changes>> {
        let is_same = |case: &PendingOffer<'_, Attrs>| {
            case.now.is_some() && case.verdict == Verdict::Same && case.answer.is_none()
        };
        let same: Vec<usize> = (0..cases.len()).filter(|at| is_same(&cases[*at])).collect();
        let differ = self.differ_in_extras(same.iter().map(|at| cases[*at].entry()))?;
        Ok(same.into_iter().zip(differ).filter(|(_, changes)| !changes.is_empty()).collect())
    }
}

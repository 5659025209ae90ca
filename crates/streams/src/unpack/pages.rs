//! Checking the pages of database files that are members of a stream.

use std::collections::HashMap;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Entry, Extent, PageChecks, PageReport, RelPath, Result, Slice};
use haul_pages::{FilePages, PageCheck, ReadHead};

/// Reads the beginning of a member.
pub(super) type ReadMemberHead<'a> = &'a (dyn Fn(&RelPath, usize) -> Result<Vec<u8>> + 'a);

/// The check of the members.
pub(super) struct MemberPages {
    check: Arc<PageCheck>,
    known: Mutex<HashMap<RelPath, Option<Arc<FilePages>>>>,
}

struct MemberHeads<'a>(ReadMemberHead<'a>, &'a RelPath);

impl ReadHead for MemberHeads<'_> {
    fn head(&self, len: usize) -> Result<Vec<u8>> {
        self.0(self.1, len)
    }

    fn other(&self, path: &RelPath, len: usize) -> Option<Vec<u8>> {
        self.0(path, len).ok()
    }
}

impl MemberPages {
    pub(super) fn new(checks: PageChecks) -> Self {
        Self { check: PageCheck::new(checks), known: Mutex::default() }
    }

    pub(super) fn report(&self) -> PageReport {
        self.check.report()
    }

    /// Checks a slice of a member, whose extents are in `content` one after the other.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::BadPages`] if pages are bad; those of `head`.
    pub(super) fn check(
        &self,
        (entry, slice): (&Entry, Slice),
        extents: &[Extent],
        content: &[u8],
        head: ReadMemberHead<'_>,
    ) -> Result<()> {
        let Some(pages) = self.of(entry, head)? else { return Ok(()) };
        let mut rest = content;
        let runs = extents.iter().map_while(|extent| {
            let (bytes, behind) = rest.split_at_checked(extent.len as usize)?;
            rest = behind;
            Some((slice.start() + u64::from(extent.start), bytes))
        });
        let runs: Vec<(u64, &[u8])> = runs.collect();
        if pages.check_runs(&runs) { Ok(()) } else { Err(pages.failure()) }
    }

    fn of(&self, entry: &Entry, head: ReadMemberHead<'_>) -> Result<Option<Arc<FilePages>>> {
        if let Some(known) = self.known.lock().get(&entry.path) {
            return Ok(known.clone());
        }
        let found =
            self.check.file(&entry.path, b"", entry.len, &MemberHeads(head, &entry.path))?.map(Arc::new);
        self.known.lock().insert(entry.path.clone(), found.clone());
        Ok(found)
    }
}

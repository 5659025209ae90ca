//! Checking the pages of database files while a stream passes: those of its members, or the stream itself.

use std::collections::HashMap;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{EntryKind, PageChecks, PageReport, RelPath, Result};
use haul_members::{IndexFault, MemberHead, MemberWatch, Scanner};
use haul_pages::{PassingFile, PassingPages};

/// The check of one stream.
pub(super) struct StreamPages {
    members: Arc<Mutex<PassingMembers>>,
    /// The name of the stream.
    name: RelPath,
    /// The bytes so far, until the format is known.
    unknown: Vec<u8>,
    /// The stream, if it is neither xbstream nor tar, and its length so far.
    only: Option<(PassingFile, u64)>,
}

/// The members that are passing.
struct PassingMembers {
    pages: PassingPages,
    open: HashMap<u32, PassingFile>,
}

impl PassingMembers {
    /// The stream itself as a file, which begins with these bytes, and their number.
    fn only(&mut self, name: &RelPath, bytes: &[u8]) -> (PassingFile, u64) {
        let mut file = self.pages.begin_only(name);
        self.pages.content(&mut file, 0, bytes);
        (file, bytes.len() as u64)
    }
}

/// Shows members to the check.
struct PageWatch(Arc<Mutex<PassingMembers>>);

impl MemberWatch for PageWatch {
    fn begins(&mut self, member: u32, head: &MemberHead) {
        if head.kind != EntryKind::File || head.link.is_some() {
            return;
        }
        let mut members = self.0.lock();
        if let Some(file) = members.pages.begin(&head.path) {
            members.open.insert(member, file);
        }
    }

    fn content(&mut self, member: u32, start: u64, bytes: &[u8]) {
        let members = &mut *self.0.lock();
        if let Some(file) = members.open.get_mut(&member) {
            members.pages.content(file, start, bytes);
        }
    }

    fn ends(&mut self, member: u32, len: u64) {
        let members = &mut *self.0.lock();
        if let Some(file) = members.open.remove(&member) {
            members.pages.end(file, len);
        }
    }
}

impl StreamPages {
    /// The check of a stream of this name, and the scanner that shows it the members.
    pub(super) fn new(checks: PageChecks, name: &[u8]) -> (Self, Scanner) {
        let pages = PassingPages::new(checks);
        let members = Arc::new(Mutex::new(PassingMembers { pages, open: HashMap::new() }));
        let name = RelPath::tidy(name).ok().filter(|name| !name.is_root()).unwrap_or_else(stream);
        let scanner = Scanner::with(Some(Box::new(PageWatch(Arc::clone(&members)))));
        (Self { members, name, unknown: Vec::new(), only: None }, scanner)
    }

    /// Takes bytes that the scanner has taken.
    ///
    /// # Errors
    /// Those of [`PassingPages::check`].
    pub(super) fn push(&mut self, scanner: &Scanner, bytes: &[u8]) -> Result<()> {
        let members = &mut *self.members.lock();
        if let Some((file, at)) = &mut self.only {
            members.pages.content(file, *at, bytes);
            *at += bytes.len() as u64;
        } else if scanner.is_known() {
            self.unknown = Vec::new();
        } else {
            self.unknown.extend_from_slice(bytes);
            if scanner.fault().is_some() {
                self.only = Some(members.only(&self.name, &std::mem::take(&mut self.unknown)));
            }
        }
        members.pages.check()
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// Those of [`PassingPages::finish`].
    pub(super) fn finish(&mut self, scanner: &Scanner) -> Result<()> {
        let members = &mut *self.members.lock();
        match (self.only.take(), scanner.check_end()) {
            (Some((file, len)), _) => members.pages.end(file, len),
            // Shorter than any page.
            (None, Err(IndexFault::Unknown)) if !self.unknown.is_empty() => {
                let (file, len) = members.only(&self.name, &self.unknown);
                members.pages.end(file, len);
            }
            (None, Err(fault)) if scanner.is_known() => {
                members.pages.lost(&self.name, &format!("the stream cannot be followed to its end: {fault}"));
            }
            (None, _) => {}
        }
        members.pages.finish()
    }

    /// The findings.
    pub(super) fn report(&self) -> PageReport {
        self.members.lock().pages.report()
    }
}

/// The name of a stream that has none.
fn stream() -> RelPath {
    RelPath::tidy(b"stream").unwrap_or_else(|_| RelPath::root())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc_fast::{CrcAlgorithm, checksum};
    use haul_core::{Databases, ErrorKind};

    const SIZE: usize = 16 << 10;

    /// A tablespace in the format `full_crc32`.
    fn tablespace(pages: u32) -> Vec<u8> {
        let page = |number: u32| {
            let mut page = vec![number as u8 + 1; SIZE];
            page[4..8].copy_from_slice(&number.to_be_bytes());
            page[24..26].copy_from_slice(&[0, 8]);
            page[54..58].copy_from_slice(&0x15_u32.to_be_bytes());
            let sum = checksum(CrcAlgorithm::Crc32Iscsi, &page[..SIZE - 4]) as u32;
            page[SIZE - 4..].copy_from_slice(&sum.to_be_bytes());
            page
        };
        (0..pages).flat_map(page).collect()
    }

    fn chunk(path: &str, offset: usize, payload: &[u8]) -> Vec<u8> {
        let mut out = [b"XBSTCK01\0P", &(path.len() as u32).to_le_bytes()[..], path.as_bytes()].concat();
        out.extend((payload.len() as u64).to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        out.extend((checksum(CrcAlgorithm::Crc32IsoHdlc, payload) as u32).to_le_bytes());
        out.extend(payload);
        out
    }

    /// Files whose chunks alternate, as of a backup by several threads.
    fn mixed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let most = files.iter().map(|(_, bytes)| bytes.len()).max().unwrap();
        for at in (0..most).step_by(150_000) {
            for (name, bytes) in files.iter().filter(|(_, bytes)| at < bytes.len()) {
                out.extend(chunk(name, at, &bytes[at..bytes.len().min(at + 150_000)]));
            }
        }
        for (name, _) in files {
            out.extend([b"XBSTCK01\0E", &(name.len() as u32).to_le_bytes()[..], name.as_bytes()].concat());
        }
        out
    }

    fn run(stream: &[u8], name: &str, fails: bool, len: usize) -> (PageReport, Result<()>) {
        let (mut pages, mut scanner) =
            StreamPages::new(PageChecks { of: Databases::Auto, fails }, name.as_bytes());
        let mut ended = Ok(());
        for piece in stream.chunks(len) {
            scanner.push(piece);
            ended = ended.and_then(|()| pages.push(&scanner, piece));
        }
        ended = ended.and_then(|()| pages.finish(&scanner));
        (pages.report(), ended)
    }

    #[test]
    fn members_that_alternate_are_checked_whatever_the_pieces() {
        let (good, mut bad) = (tablespace(25), tablespace(40));
        let files: [(&str, &[u8]); 3] = [("a.ibd", &good), ("shop/b.ibd", &bad), ("c.cnf", b"text")];
        let (report, ended) = run(&mixed(&files), "db.xb", true, 65_536);
        assert_eq!((ended, report.counts.innodb, report.counts.bad), (Ok(()), 65, 0));
        bad[33 * SIZE + 99] ^= 1;
        let files: [(&str, &[u8]); 3] = [("a.ibd", &good), ("shop/b.ibd", &bad), ("c.cnf", b"text")];
        let stream = mixed(&files);
        for len in [1000, 65_536, 1 << 20] {
            let (report, ended) = run(&stream, "db.xb", true, len);
            let error = ended.unwrap_err();
            assert_eq!((error.kind(), error.subject()), (ErrorKind::BadPages, &b"shop/b.ibd"[..]));
            assert_eq!((report.named[0].page, report.counts.bad), (33, 1));
            assert_eq!(run(&stream, "db.xb", false, len).1, Ok(()));
        }
    }

    #[test]
    fn a_stream_without_members_may_be_a_tablespace() {
        let mut space = tablespace(20);
        assert_eq!(run(&space, "x", true, 700).0.counts.innodb, 20);
        space[7 * SIZE] ^= 1;
        let (report, ended) = run(&space, "a/orders.ibd", true, 65_536);
        assert!(ended.is_err() && report.named[0].path.as_bytes() == b"a/orders.ibd");
        for other in [&b"short"[..], &[b'x'; 100_000], b""] {
            let (report, ended) = run(other, "dump.sql", true, 4096);
            assert_eq!((ended, report.unchecked.len()), (Ok(()), usize::from(!other.is_empty())));
        }
        // A stream that cannot be followed is told.
        let stream = mixed(&[("a.ibd", &tablespace(20))]);
        let (report, ended) = run(&stream[..stream.len() - 3], "db.xb", true, 4096);
        assert!(ended.is_ok() && report.unchecked[0].cause.contains("ends inside a chunk"));
        let (report, _) = run(&[&stream[..], b"nonsense!!!!!!"].concat(), "db.xb", true, 4096);
        assert!(report.unchecked[0].cause.contains("cannot be followed"), "{report:?}");
    }
}

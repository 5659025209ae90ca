//! The check of the files of one source: which files have pages, and the bad pages.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::page_checks::{MAX_BAD_PAGES, MAX_UNCHECKED, Unchecked};
use haul_core::sync::Mutex;
use haul_core::{
    BadPage, Databases, Error, ErrorKind, PageChecks, PageCounts, PageReport, RelPath, Result, Side,
};

use crate::bytes::{PageVerdict, is_zero};
use crate::control::Control;
use crate::innodb::{HEAD_LEN, innodb, is_innodb_name, sure};
use crate::pages::{MAX_PAGE, Pages};
use crate::postgres::{changed_at, relation_file};

/// The pauses before a bad page is read again: its writer may be at it.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(50)];

/// The memory for the names of bad pages, in bytes: they fit into one message.
const MAX_NAMES: usize = 1 << 20;

/// Clusters that are remembered.
pub(crate) const MAX_CLUSTERS: usize = 1000;

/// The control file of a cluster, below its directory.
pub(crate) const CONTROL: &[u8] = b"global/pg_control";

/// Checks the pages of the files of one source.
pub struct PageCheck {
    checks: PageChecks,
    /// The control files, by the path of their cluster.
    clusters: Mutex<HashMap<Vec<u8>, Option<Control>>>,
    found: Mutex<PageFindings>,
}

#[derive(Default)]
struct PageFindings {
    counts: PageCounts,
    named: BTreeSet<BadPage>,
    names_len: usize,
    unchecked: Vec<Unchecked>,
}

/// How the caller reads.
pub trait ReadHead {
    /// Up to `len` bytes from the beginning of the file.
    ///
    /// # Errors
    /// Those of reading.
    fn head(&self, len: usize) -> Result<Vec<u8>>;

    /// Up to `len` bytes from the beginning of another file of the source; `None` if it cannot be read.
    fn other(&self, path: &RelPath, len: usize) -> Option<Vec<u8>>;
}

/// Fills bytes from an offset of a file.
pub type ReadAgain<'a, E> = dyn FnMut(&mut [u8], u64) -> Result<(), E> + 'a;

impl PageCheck {
    /// Nothing is checked yet.
    #[must_use]
    pub fn new(checks: PageChecks) -> Arc<Self> {
        Arc::new(Self { checks, clusters: Mutex::default(), found: Mutex::default() })
    }

    /// The findings so far.
    #[must_use]
    pub fn report(&self) -> PageReport {
        let found = self.found.lock();
        let named = found.named.iter().cloned().collect();
        PageReport { counts: found.counts, named, unchecked: found.unchecked.clone() }
    }

    /// Adds the findings of another check.
    pub(crate) fn join(&self, report: PageReport) {
        let mut found = self.found.lock();
        found.counts.add(&report.counts);
        found.named.extend(report.named);
        for note in report.unchecked {
            found.unchecked.push(note);
        }
    }

    /// The pages of a file of `len` bytes; `None` if it is not checked. `name` is the name of the root, for a source
    /// that is one file.
    ///
    /// # Errors
    /// [`ErrorKind::BadPages`] if it must be checked and cannot; those of `read`.
    pub fn file(
        self: &Arc<Self>,
        path: &RelPath,
        name: &[u8],
        len: u64,
        read: &dyn ReadHead,
    ) -> Result<Option<FilePages>> {
        let of = self.checks.of;
        let named = if path.is_root() { name } else { path.as_bytes() };
        if len == 0 {
            return Ok(None);
        }
        let pages = if of != Databases::Postgres && is_innodb_name(named) {
            self.tablespace(path, read)?
        } else if of != Databases::InnoDb
            && let Some(relation) = relation_file(named)
        {
            match self.cluster(relation.cluster, read) {
                Ok(control) => Some(control.pages(relation.segment)),
                Err(cause) => self.refuse(path, cause, of == Databases::Postgres)?,
            }
        } else if of != Databases::InnoDb && is_below_cluster(name, path) {
            self.refuse(path, NO_CONTROL, of == Databases::Postgres)?
        } else {
            None
        };
        Ok(pages.map(|pages| self.of(path, len, pages, None)))
    }

    /// The check of the pages of a file; with `since`, of those that are no newer.
    pub(crate) fn of(
        self: &Arc<Self>,
        path: &RelPath,
        len: u64,
        pages: Pages,
        since: Option<u64>,
    ) -> FilePages {
        let (check, path) = (Arc::clone(self), path.clone());
        FilePages { check, path, len, pages, since, has_failed: AtomicBool::new(false) }
    }

    /// The pages of a file with the name of a tablespace.
    pub(crate) fn tablespace(&self, path: &RelPath, read: &dyn ReadHead) -> Result<Option<Pages>> {
        let mut head = read.head(MAX_PAGE)?;
        let mut found = sure(&head);
        if found.is_none() {
            head = read.head(HEAD_LEN)?;
            found = innodb(&head);
        }
        match found {
            Some(pages) => Ok(Some(pages)),
            // The server has not written it yet.
            None if is_zero(&head) => self.refuse(path, "tablespaces without a first page", false),
            None => {
                let cause = "they have the names of tablespaces, but not their first pages";
                self.refuse(path, cause, self.checks.of == Databases::InnoDb)
            }
        }
    }

    /// The control file of the cluster at `path`; else the reason why its pages cannot be checked.
    fn cluster(&self, path: &[u8], read: &dyn ReadHead) -> Result<Control, &'static str> {
        let known = self.clusters.lock().get(path).copied();
        let control = known.unwrap_or_else(|| {
            let file = RelPath::new(&[path, CONTROL].concat()).ok();
            let control = file.and_then(|file| read.other(&file, Control::LEN));
            let control = control.and_then(|bytes| Control::parse(&bytes));
            let mut clusters = self.clusters.lock();
            if clusters.len() < MAX_CLUSTERS {
                clusters.insert(path.to_vec(), control);
            }
            control
        });
        match control {
            Some(control) if control.has_checksums => Ok(control),
            Some(_) => Err("their cluster has no data checksums"),
            None => Err(NO_CONTROL),
        }
    }

    /// A file is not checked: notes it, or fails if it has to be.
    pub(crate) fn refuse(&self, path: &RelPath, cause: &str, must: bool) -> Result<Option<Pages>> {
        self.refuse_all((path, 1), cause, must)
    }

    /// So many files are not checked, the first of which is given.
    pub(crate) fn refuse_all(
        &self,
        (path, files): (&RelPath, u64),
        cause: &str,
        must: bool,
    ) -> Result<Option<Pages>> {
        if must && self.checks.fails {
            let error = Error::new(ErrorKind::BadPages, Side::Source, "check the pages of", cause);
            return Err(error.on(path.as_bytes()).with_hint(HINT));
        }
        let unchecked = &mut self.found.lock().unchecked;
        if let Some(note) = unchecked.iter_mut().find(|note| note.cause == cause) {
            note.count += files;
        } else if unchecked.len() < MAX_UNCHECKED {
            unchecked.push(Unchecked { cause: cause.to_owned(), count: files, example: path.clone() });
        }
        Ok(None)
    }
}

/// Whether the source is a part of a cluster, such as `base`, and has a file of a relation at `path`.
fn is_below_cluster(name: &[u8], path: &RelPath) -> bool {
    relation_file(&[name, b"/", path.as_bytes()].concat()).is_some()
}

const NO_CONTROL: &str = "SRC has no global/pg_control of their cluster";

const HINT: &str = "--bad-pages warn copies such files all the same";

/// The pages of one file.
pub struct FilePages {
    check: Arc<PageCheck>,
    path: RelPath,
    len: u64,
    pages: Pages,
    /// A page that was changed after this place in the log may be torn: the log has all of it.
    since: Option<u64>,
    has_failed: AtomicBool,
}

impl FilePages {
    /// Checks the pages that `bytes`, read from `offset` of the file, has content of. A bad page is read again with
    /// `read`, three times and after a pause if the file `is_live`; `bytes` keeps the content of the last read.
    /// Returns whether all pages are good, or need not be.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn check<E>(
        &self,
        bytes: &mut [u8],
        offset: u64,
        read: &mut ReadAgain<'_, E>,
        is_live: &dyn Fn() -> bool,
    ) -> Result<bool, E> {
        let size = self.pages.size() as u64;
        let end = (offset + bytes.len() as u64).min(self.len / size * size);
        let mut bad = Vec::new();
        let mut counts = PageCounts::default();
        for number in offset / size..end.div_ceil(size) {
            // If only a part of the page is here, the whole page is read.
            let verdict = match whole(bytes, offset, number, self.pages.size()) {
                Some(page) => self.pages.judge(number, page),
                None => self.again(number, bytes, offset, read)?,
            };
            match verdict {
                PageVerdict::Bad => bad.push(number),
                PageVerdict::Good => self.count(&mut counts),
                PageVerdict::Unknown => counts.without_checksum += 1,
            }
        }
        let pauses = !bad.is_empty() && is_live();
        for pause in PAUSES {
            if bad.is_empty() {
                break;
            }
            if pauses {
                std::thread::sleep(pause);
            }
            let mut still = Vec::new();
            for number in std::mem::take(&mut bad) {
                match self.again(number, bytes, offset, read)? {
                    PageVerdict::Bad => still.push(number),
                    PageVerdict::Good => self.count(&mut counts),
                    PageVerdict::Unknown => counts.without_checksum += 1,
                }
            }
            bad = still;
        }
        bad.iter().for_each(|_| self.count(&mut counts));
        Ok(self.found(&counts, &bad))
    }

    /// Checks the pages that have content in `runs`, which do not change: their offsets in the file, ascending, and their
    /// bytes. The gaps between them are zeros. Returns whether all pages are good, or need not be.
    #[must_use]
    pub fn check_runs(&self, runs: &[(u64, &[u8])]) -> bool {
        let size = self.pages.size() as u64;
        let (mut bad, mut counts, mut next) = (Vec::new(), PageCounts::default(), 0);
        for (offset, bytes) in runs {
            let end = (offset + bytes.len() as u64).min(self.len / size * size).div_ceil(size);
            for number in next.max(offset / size)..end {
                let verdict = match whole(bytes, *offset, number, self.pages.size()) {
                    Some(page) => self.judge(number, page),
                    None => self.judge(number, &self.assembled(number, runs)),
                };
                match verdict {
                    PageVerdict::Unknown => counts.without_checksum += 1,
                    PageVerdict::Good | PageVerdict::Bad => self.count(&mut counts),
                }
                if verdict == PageVerdict::Bad {
                    bad.push(number);
                }
            }
            next = next.max(end);
        }
        self.found(&counts, &bad)
    }

    fn judge(&self, number: u64, page: &[u8]) -> PageVerdict {
        match (self.pages.judge(number, page), self.since) {
            (PageVerdict::Bad, Some(since)) if changed_at(page) >= since => PageVerdict::Unknown,
            (verdict, _) => verdict,
        }
    }

    /// A page that `runs` has in parts only.
    fn assembled(&self, number: u64, runs: &[(u64, &[u8])]) -> Vec<u8> {
        let mut page = vec![0; self.pages.size()];
        let start = number * page.len() as u64;
        for (offset, bytes) in runs {
            let from = start.max(*offset);
            let to = (start + page.len() as u64).min(offset + bytes.len() as u64);
            if from < to {
                let part = &bytes[(from - offset) as usize..(to - offset) as usize];
                page[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
            }
        }
        page
    }

    fn count(&self, counts: &mut PageCounts) {
        let count = if self.pages.is_innodb() { &mut counts.innodb } else { &mut counts.postgres };
        *count += 1;
    }

    /// Reads one page and checks it. Copies the bytes that it reads into `bytes`, where they overlap.
    fn again<E>(
        &self,
        number: u64,
        bytes: &mut [u8],
        offset: u64,
        read: &mut ReadAgain<'_, E>,
    ) -> Result<PageVerdict, E> {
        let start = number * self.pages.size() as u64;
        let mut page = vec![0; self.pages.size()];
        read(&mut page, start)?;
        let verdict = self.pages.judge(number, &page);
        let from = start.max(offset);
        let to = (start + page.len() as u64).min(offset + bytes.len() as u64);
        if from < to {
            let part = &page[(from - start) as usize..(to - start) as usize];
            bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        Ok(verdict)
    }

    /// Adds to the report. Returns whether all pages are good, or need not be.
    fn found(&self, counts: &PageCounts, bad: &[u64]) -> bool {
        let mut found = self.check.found.lock();
        found.counts.add(counts);
        for page in bad {
            let (page, len) =
                (BadPage { path: self.path.clone(), page: *page }, self.path.as_bytes().len() + 16);
            if found.named.contains(&page) {
                continue;
            }
            found.counts.bad += 1;
            if found.named.len() < MAX_BAD_PAGES && found.names_len + len <= MAX_NAMES {
                found.named.insert(page);
                found.names_len += len;
            }
        }
        let are_good = bad.is_empty() || !self.check.checks.fails;
        if !are_good {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        are_good
    }

    /// Its path.
    pub(crate) fn path(&self) -> &RelPath {
        &self.path
    }

    /// Whether its findings are those of `check`.
    pub(crate) fn is_of(&self, check: &Arc<PageCheck>) -> bool {
        Arc::ptr_eq(&self.check, check)
    }

    /// The size of each page in bytes.
    pub(crate) fn size(&self) -> usize {
        self.pages.size()
    }

    /// Whether all pages that were checked are good, or need not be.
    #[must_use]
    pub fn are_good(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    /// The error of a file with bad pages.
    #[must_use]
    pub fn failure(&self) -> Error {
        let cause = "pages do not match their checksums";
        let error = Error::new(ErrorKind::BadPages, Side::Source, "check the pages of", cause);
        error.on(self.path.as_bytes()).with_hint(HINT)
    }
}

/// The page, if `bytes` from `offset` have all of it.
fn whole(bytes: &[u8], offset: u64, number: u64, size: usize) -> Option<&[u8]> {
    let at = usize::try_from((number * size as u64).checked_sub(offset)?).ok()?;
    bytes.get(at..)?.get(..size)
}

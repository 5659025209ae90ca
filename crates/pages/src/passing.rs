//! The check of files that pass once and in order, such as the members of a stream. They cannot be read again.

use std::collections::HashMap;
use std::sync::Arc;

use haul_core::{Databases, Error, PageChecks, PageReport, RelPath, Result};

use crate::bytes::is_zero;
use crate::check::{CONTROL, FilePages, MAX_CLUSTERS, PageCheck, ReadHead};
use crate::control::Control;
use crate::innodb::{HEAD_LEN, guessed, is_innodb_name, sure};
use crate::pages::{MAX_PAGE, Pages};
use crate::postgres::{backup_start, relation_file};

/// The memory for beginnings of files and parts of pages, in bytes: enough for some hundred files at a time.
const MAX_HELD: usize = 16 << 20;

/// The memory of a file beside these.
const FILE: usize = 256;

/// The file of a backup of a cluster that says where it begins.
const LABEL: &[u8] = b"backup_label";

/// The longest of these.
const MAX_LABEL: usize = 4096;

const NO_CONTROL: &str = "the stream has no global/pg_control of their cluster";
const NO_CHECKSUMS: &str = "their cluster has no data checksums";
const UNUSUAL: &str = "the stream says only behind them that their blocks have another size than usual";
const TOO_MANY: &str = "too many files of databases pass at the same time";

const HINT: &str = "--bad-pages warn stores the stream all the same, and names all bad pages";

/// Checks the pages of the files that pass.
pub struct PassingPages {
    checks: PageChecks,
    check: Arc<PageCheck>,
    clusters: HashMap<Vec<u8>, PassingCluster>,
    /// Bytes that are kept until more of their file has passed.
    held: usize,
    failure: Option<Error>,
}

/// A cluster of PostgreSQL. Its control file mostly passes behind its other files.
struct PassingCluster {
    /// The findings, which count only if the control file agrees.
    check: Arc<PageCheck>,
    /// The control file, if it has passed; `None` in it if it is damaged.
    control: Option<Option<Control>>,
    /// Where the backup begins.
    since: Option<u64>,
    /// Files were checked before the control file came.
    is_assumed: bool,
    files: u64,
    first: Option<RelPath>,
}

/// A file that passes.
pub struct PassingFile {
    path: RelPath,
    /// The end of its content so far.
    at: u64,
    state: PassingState,
}

enum PassingState {
    /// The beginning of a tablespace.
    Tablespace(Vec<u8>),
    /// The beginning of a file that may be one, whatever its name is.
    Unnamed(Vec<u8>),
    /// A relation without content so far.
    Relation,
    /// A page of which a part has passed.
    Pages(FilePages, Vec<u8>),
    /// A file about a cluster, of which so many bytes are enough.
    About(usize, Vec<u8>),
    /// It is not checked.
    Other,
}

impl PassingState {
    fn held(&self) -> usize {
        match self {
            Self::Other => 0,
            Self::Relation => FILE,
            Self::Tablespace(bytes)
            | Self::Unnamed(bytes)
            | Self::Pages(_, bytes)
            | Self::About(_, bytes) => FILE + bytes.len(),
        }
    }
}

/// The beginning of a file in memory.
struct Passed<'a>(&'a [u8]);

impl ReadHead for Passed<'_> {
    fn head(&self, len: usize) -> Result<Vec<u8>> {
        Ok(self.0[..len.min(self.0.len())].to_vec())
    }

    fn other(&self, _: &RelPath, _: usize) -> Option<Vec<u8>> {
        None
    }
}

impl PassingPages {
    /// Nothing has passed yet.
    #[must_use]
    pub fn new(checks: PageChecks) -> Self {
        let check = PageCheck::new(checks);
        Self { checks, check, clusters: HashMap::new(), held: 0, failure: None }
    }

    /// A file begins; `None` if it has no pages.
    pub fn begin(&mut self, path: &RelPath) -> Option<PassingFile> {
        let (of, name) = (self.checks.of, path.as_bytes());
        let state = if of != Databases::Postgres && is_innodb_name(name) {
            PassingState::Tablespace(Vec::new())
        } else if of == Databases::InnoDb {
            return None;
        } else if relation_file(name).is_some() {
            PassingState::Relation
        } else if cluster_of(name, CONTROL).is_some() {
            PassingState::About(Control::LEN, Vec::new())
        } else if cluster_of(name, LABEL).is_some() {
            PassingState::About(MAX_LABEL, Vec::new())
        } else {
            return None;
        };
        Some(self.file(path, state))
    }

    /// A stream that is one file begins, which may be a tablespace. Its name need not be that of one.
    pub fn begin_only(&mut self, path: &RelPath) -> PassingFile {
        let is_named = self.checks.of != Databases::Postgres && is_innodb_name(path.as_bytes());
        let state =
            if is_named { PassingState::Tablespace(Vec::new()) } else { PassingState::Unnamed(Vec::new()) };
        self.file(path, state)
    }

    fn file(&mut self, path: &RelPath, state: PassingState) -> PassingFile {
        self.held += state.held();
        PassingFile { path: path.clone(), at: 0, state }
    }

    /// The next content of a file. A gap before it is a hole.
    pub fn content(&mut self, file: &mut PassingFile, start: u64, bytes: &[u8]) {
        self.held -= file.state.held();
        let state = std::mem::replace(&mut file.state, PassingState::Other);
        file.state = self.next(state, file, start, bytes);
        file.at = start + bytes.len() as u64;
        self.held += file.state.held();
        if self.held > MAX_HELD && !matches!(file.state, PassingState::Other) {
            self.held -= file.state.held();
            file.state = PassingState::Other;
            self.refuse(&file.path, TOO_MANY, self.checks.of != Databases::Auto);
        }
    }

    /// A file is complete, and has this length.
    pub fn end(&mut self, mut file: PassingFile, len: u64) {
        self.held -= file.state.held();
        match std::mem::replace(&mut file.state, PassingState::Other) {
            PassingState::Pages(pages, mut part) => {
                // A hole at its end completes a page; one that is cut off is none.
                let page = file.at - part.len() as u64;
                if !part.is_empty() && len.saturating_sub(page) >= pages.size() as u64 {
                    part.resize(pages.size(), 0);
                    self.judge(&pages, page, &part);
                }
            }
            PassingState::Tablespace(head) | PassingState::Unnamed(head) if head.is_empty() => {}
            PassingState::Tablespace(head) => drop(self.decide(&file.path, head, true)),
            PassingState::Unnamed(head) => drop(self.recognise(&file.path, head, true)),
            PassingState::About(_, bytes) => self.learn(&file.path, &bytes),
            PassingState::Relation | PassingState::Other => {}
        }
    }

    /// Files are not checked from here on, beginning with this one.
    pub fn lost(&mut self, path: &RelPath, cause: &str) {
        self.refuse(path, cause, self.checks.of != Databases::Auto);
    }

    /// # Errors
    /// [`haul_core::ErrorKind::BadPages`] if a page that has passed is bad for certain, or a file has to be checked and
    /// cannot.
    pub fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Everything has passed.
    ///
    /// # Errors
    /// As [`PassingPages::check`].
    pub fn finish(&mut self) -> Result<()> {
        let must = self.checks.of == Databases::Postgres;
        for (_, cluster) in std::mem::take(&mut self.clusters) {
            let Some(first) = cluster.first else { continue };
            let cause = match cluster.control.flatten() {
                None => NO_CONTROL,
                Some(control) if !control.has_checksums => NO_CHECKSUMS,
                Some(control) if cluster.is_assumed && control != Control::usual() => UNUSUAL,
                Some(_) => {
                    let report = cluster.check.report();
                    if let Some(page) = report.named.first().filter(|_| self.checks.fails) {
                        self.failure.get_or_insert(failure(&page.path));
                    }
                    self.check.join(report);
                    continue;
                }
            };
            if let Err(error) = self.check.refuse_all((&first, cluster.files), cause, must) {
                self.failure.get_or_insert(error.with_hint(HINT));
            }
        }
        self.check()
    }

    /// The findings so far.
    #[must_use]
    pub fn report(&self) -> PageReport {
        self.check.report()
    }

    /// The state of a file after these bytes.
    fn next(&mut self, state: PassingState, file: &PassingFile, start: u64, bytes: &[u8]) -> PassingState {
        match state {
            PassingState::Tablespace(head) => {
                let head = grown(head, start, bytes, HEAD_LEN);
                let next = self.decide(&file.path, head, false);
                self.beyond(next, start, bytes)
            }
            PassingState::Unnamed(head) => {
                let head = grown(head, start, bytes, HEAD_LEN);
                let next = self.recognise(&file.path, head, false);
                self.beyond(next, start, bytes)
            }
            PassingState::Relation => match self.relation(&file.path) {
                Some(pages) => self.pass(pages, Vec::new(), 0, (start, bytes)),
                None => PassingState::Other,
            },
            PassingState::Pages(pages, part) => self.pass(pages, part, file.at, (start, bytes)),
            PassingState::About(most, known) => PassingState::About(most, grown(known, start, bytes, most)),
            PassingState::Other => PassingState::Other,
        }
    }

    /// The state of a tablespace with such a beginning: its pages are checked once it tells enough.
    fn decide(&mut self, path: &RelPath, head: Vec<u8>, is_all: bool) -> PassingState {
        let is_enough = is_all || head.len() >= HEAD_LEN || head.len() >= MAX_PAGE && sure(&head).is_some();
        if !is_enough {
            return PassingState::Tablespace(head);
        }
        match self.check.tablespace(path, &Passed(&head)) {
            Ok(Some(pages)) => self.opened(path, pages, &head),
            Ok(None) => PassingState::Other,
            Err(error) => {
                self.failure.get_or_insert(error.with_hint(HINT));
                PassingState::Other
            }
        }
    }

    /// The same for a file whose name says nothing: its first page is good, or the two behind it are.
    fn recognise(&mut self, path: &RelPath, head: Vec<u8>, is_all: bool) -> PassingState {
        let may_be = self.checks.of != Databases::Postgres;
        let is_enough = is_all || head.len() >= HEAD_LEN || !may_be;
        let found = if may_be && (is_enough || head.len() >= MAX_PAGE) { sure(&head) } else { None };
        match found.or_else(|| guessed(&head).filter(|_| may_be && is_enough)) {
            Some(pages) => self.opened(path, pages, &head),
            None if !is_enough => PassingState::Unnamed(head),
            None => {
                let is_new = is_zero(&head);
                let cause = "the stream is neither xbstream nor tar nor a tablespace";
                self.refuse(path, cause, self.checks.of != Databases::Auto && !is_new);
                PassingState::Other
            }
        }
    }

    /// Checks the pages at the beginning of a tablespace.
    fn opened(&mut self, path: &RelPath, pages: Pages, head: &[u8]) -> PassingState {
        let pages = self.check.of(path, u64::MAX, pages, None);
        self.pass(pages, Vec::new(), 0, (0, head))
    }

    /// Checks those of the bytes that did not belong to the beginning any more.
    fn beyond(&mut self, state: PassingState, start: u64, bytes: &[u8]) -> PassingState {
        let PassingState::Pages(pages, part) = state else { return state };
        let end = start + bytes.len() as u64;
        let known = end.min(HEAD_LEN as u64);
        let from = start.max(known);
        let rest = &bytes[usize::try_from(from - start).unwrap_or(bytes.len()).min(bytes.len())..];
        if rest.is_empty() {
            return PassingState::Pages(pages, part);
        }
        self.pass(pages, part, known, (from, rest))
    }

    /// Checks the pages that are complete with these bytes. `at` is the end of the content before.
    fn pass(
        &mut self,
        pages: FilePages,
        mut part: Vec<u8>,
        at: u64,
        (start, mut bytes): (u64, &[u8]),
    ) -> PassingState {
        let size = pages.size();
        let mut start = start.max(at);
        if !part.is_empty() {
            let page = at - part.len() as u64;
            let hole = usize::try_from(start - at).unwrap_or(size).min(size - part.len());
            part.resize(part.len() + hole, 0);
            let len = if start - page < size as u64 { bytes.len().min(size - part.len()) } else { 0 };
            part.extend_from_slice(&bytes[..len]);
            (start, bytes) = (start + len as u64, &bytes[len..]);
            if part.len() < size {
                return PassingState::Pages(pages, part);
            }
            self.judge(&pages, page, &part);
            part.clear();
        }
        // Behind a hole, content may begin inside a page.
        let before = (start % size as u64) as usize;
        if before > 0 && !bytes.is_empty() {
            let len = bytes.len().min(size - before);
            part.resize(before, 0);
            part.extend_from_slice(&bytes[..len]);
            if part.len() < size {
                return PassingState::Pages(pages, part);
            }
            self.judge(&pages, start - before as u64, &part);
            part.clear();
            (start, bytes) = (start + len as u64, &bytes[len..]);
        }
        let whole = bytes.len() / size * size;
        self.judge(&pages, start, &bytes[..whole]);
        part.extend_from_slice(&bytes[whole..]);
        PassingState::Pages(pages, part)
    }

    /// Checks whole pages.
    fn judge(&mut self, pages: &FilePages, start: u64, bytes: &[u8]) {
        let is_good = bytes.is_empty() || pages.check_runs(&[(start, bytes)]);
        if !is_good && pages.is_of(&self.check) {
            self.failure.get_or_insert(failure(pages.path()));
        }
    }

    /// The pages of a relation: as its control file says, or as usual if that has not passed yet.
    fn relation(&mut self, path: &RelPath) -> Option<FilePages> {
        let relation = relation_file(path.as_bytes())?;
        let Some(cluster) = self.cluster(relation.cluster) else {
            self.refuse(path, NO_CONTROL, self.checks.of == Databases::Postgres);
            return None;
        };
        cluster.files += 1;
        cluster.first.get_or_insert_with(|| path.clone());
        let control = match cluster.control {
            Some(Some(control)) if control.has_checksums => control,
            Some(_) => return None,
            None => {
                cluster.is_assumed = true;
                Control::usual()
            }
        };
        Some(cluster.check.of(path, u64::MAX, control.pages(relation.segment), cluster.since))
    }

    /// A file about a cluster has passed.
    fn learn(&mut self, path: &RelPath, bytes: &[u8]) {
        let name = path.as_bytes();
        if let Some(cluster) = cluster_of(name, CONTROL).and_then(|at| self.cluster(at)) {
            cluster.control = Some(Control::parse(bytes));
        } else if let Some(cluster) = cluster_of(name, LABEL).and_then(|at| self.cluster(at)) {
            cluster.since = backup_start(bytes);
        }
    }

    /// The cluster at a path; `None` if there are too many.
    fn cluster(&mut self, path: &[u8]) -> Option<&mut PassingCluster> {
        if self.clusters.len() >= MAX_CLUSTERS && !self.clusters.contains_key(path) {
            return None;
        }
        let checks = self.checks;
        let cluster = self.clusters.entry(path.to_vec()).or_insert_with(|| PassingCluster {
            check: PageCheck::new(checks),
            control: None,
            since: None,
            is_assumed: false,
            files: 0,
            first: None,
        });
        Some(cluster)
    }

    fn refuse(&mut self, path: &RelPath, cause: &str, must: bool) {
        if let Err(error) = self.check.refuse(path, cause, must) {
            self.failure.get_or_insert(error.with_hint(HINT));
        }
    }
}

fn failure(path: &RelPath) -> Error {
    let cause = "pages do not match their checksums: the stream is not stored";
    let error =
        Error::new(haul_core::ErrorKind::BadPages, haul_core::Side::Source, "check the pages of", cause);
    error.on(path.as_bytes()).with_hint(HINT)
}

/// The path of the cluster of a file with this path in it.
fn cluster_of<'a>(path: &'a [u8], inside: &[u8]) -> Option<&'a [u8]> {
    path.strip_suffix(inside).filter(|above| above.is_empty() || above.ends_with(b"/"))
}

/// The beginning of a file, at most `most` bytes, with the next content; holes are zeros.
fn grown(mut head: Vec<u8>, start: u64, bytes: &[u8], most: usize) -> Vec<u8> {
    let start = usize::try_from(start).unwrap_or(most).min(most);
    head.resize(head.len().max(start), 0);
    head.extend_from_slice(&bytes[..bytes.len().min(most - head.len().min(most))]);
    head
}

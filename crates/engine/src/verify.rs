//! Compares two ends: content by digest.

use std::sync::Arc;

use crossbeam_channel::Sender;
use haul_core::event::{Action, Done};
use haul_core::{
    Changes, Digest, Entry, EntryKind, Error, FinishReport, Links, RelPath, Report, Reporter, Result,
    ScanOptions, Side, Sink, Source,
};
use haul_spool::Spool;

use crate::answers::one_each;
use crate::cancel::Cancel;
use crate::changes::MetadataChanges;
use crate::expected::ExpectedEntries;
use crate::hashing::Hashing;
use crate::inspect::Inspection;
use crate::listed::ListedEntries;
use crate::metadata_comparer::{EntryPair, MetadataComparer};
use crate::meter::{Meter, Silent};
use crate::options::Paths;
use crate::page_report::report_pages;
use crate::path_list::{PathList, common_dirs};
use crate::trust::Trust;

/// How two ends are compared.
#[derive(Default)]
pub struct VerifyOptions {
    /// Which entries of the source to compare.
    pub scan: ScanOptions,
    /// How the source was told to treat symbolic links.
    pub links: Links,
    /// Which entries and attributes a copy accepts from the source. The others are not compared.
    pub trust: Trust,
    /// Changes of modes, owners and groups that a copy makes.
    pub changes: MetadataChanges,
    /// The destination, opened with [`haul_core::Compare::Metadata`]; `None`: only kinds and content are compared.
    pub metadata: Option<Arc<dyn Sink>>,
    /// The destination, opened with [`haul_core::DirLinks::Shown`]: a symbolic link to a directory is compared as that
    /// directory where the source has one; `None`: no link is.
    pub dirlinks: Option<Arc<dyn Source>>,
    /// Report each equal entry, as [`Action::Same`].
    pub equal: bool,
    /// Compare only these paths and the entries below them. The list is read before anything is compared.
    pub files_from: Option<Paths>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyDifference {
    /// The destination does not have the entry.
    Missing(RelPath),
    /// The entry differs, as the text explains.
    Differs(RelPath, String),
    /// Only the metadata of the entry differs.
    Metadata {
        /// How it differs.
        changes: Changes,
        /// The entry of the source, as a copy would create it.
        source: Arc<Entry>,
        /// The entry of the destination.
        destination: Box<Entry>,
    },
    /// The destination has an entry that the source does not have. This is reported, but it is no failure.
    Extra(RelPath),
}

/// Compares every entry of `source` with the same path of `destination`, files by digest. Both ends hash at the same
/// time. Calls `found` for each difference. [`Report::corrupt`] counts the missing and the different entries, without
/// those of which only metadata differs. [`Report::notes`] has metadata that was not compared.
pub fn verify(
    source: &dyn Source,
    destination: &dyn Source,
    mut options: VerifyOptions,
    found: &mut dyn FnMut(VerifyDifference),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let files_from = options.files_from.take();
    let lists = ListedEntries::new(source, &options.scan.rules).and_then(|listed| {
        let paths = files_from.map(|list| read_list(list, &listed, &meter, cancel)).transpose()?;
        Ok((listed, paths))
    });
    let (listed, paths) = match lists {
        Ok(lists) => lists,
        Err(error) => {
            meter.abort(error);
            return Inspection::report(&meter, cancel);
        }
    };
    let expected = ExpectedEntries::new(options.trust, &options.changes);
    let metadata = options.metadata.as_deref().map(|sink| MetadataComparer::new(sink, options.links));
    let ends = [source, destination];
    let hashing = Hashing::new(&ends);
    let ask = |entries: Vec<Entry>, results: &Sender<VerifyDifference>| {
        let (meter, expected, metadata, hashing) = (&meter, &expected, metadata.as_ref(), &hashing);
        let (dirlinks, equal) = (options.dirlinks.as_deref(), options.equal);
        let ends =
            Comparison { meter, source, destination, dirlinks, expected, metadata, hashing, equal, results };
        ends.compare(entries)
    };
    let mut take = |checked| {
        found(checked);
        Ok(())
    };
    let (scan, streams) = (&options.scan, source.streams() + destination.streams());
    let hashing = Some(&hashing);
    Inspection { meter: &meter, source, scan, listed: paths.as_ref(), cancel, streams, hashing }
        .run(&ask, &mut take);
    if !cancel.is_cancelled() && meter.fatal().is_none() {
        // Of a listed file, the destination cannot have more.
        let dirs = paths.map(|paths| common_dirs(&paths, &listed, destination, |_| false)).transpose();
        match dirs {
            Ok(dirs) => find_extra(&meter, &listed, destination, scan, dirs.as_ref(), cancel, found),
            Err(error) => meter.abort(error),
        }
    }
    let finished =
        options.metadata.as_ref().map_or_else(|| Ok(FinishReport::default()), |sink| sink.finish());
    let notes = match finished {
        Ok(finished) => finished.notes,
        Err(error) => {
            meter.abort(error);
            Vec::new()
        }
    };
    let pages = report_pages(&meter, [source.page_report(), Ok(None)]);
    Report { notes, left_out: expected.left_out(), pages, ..Inspection::report(&meter, cancel) }
}

/// Reads the paths of a list, and reports the lines that are no paths.
///
/// # Errors
/// `Io` if the paths cannot be kept.
fn read_list(
    mut list: Paths,
    listed: &ListedEntries<'_>,
    meter: &Meter<'_>,
    cancel: &Cancel,
) -> Result<Spool<RelPath>> {
    let mut paths = PathList::default();
    while !cancel.is_cancelled()
        && let Some(path) = list.next()
    {
        match path {
            Ok(path) => paths.add(&path)?,
            Err(error) => {
                meter.totals().found += 1;
                meter.fail(&RelPath::root(), error);
            }
        }
    }
    Ok(paths.outermost(|paths| listed.open_above(paths))?.0)
}

/// The comparison of one request.
struct Comparison<'a> {
    meter: &'a Meter<'a>,
    source: &'a dyn Source,
    destination: &'a dyn Source,
    dirlinks: Option<&'a dyn Source>,
    expected: &'a ExpectedEntries,
    metadata: Option<&'a MetadataComparer<'a>>,
    hashing: &'a Hashing<'a>,
    equal: bool,
    results: &'a Sender<VerifyDifference>,
}

impl Comparison<'_> {
    fn tell(&self, checked: VerifyDifference) {
        drop(self.results.send(checked));
    }

    fn report(&self, checked: VerifyDifference) {
        self.meter.count_corrupt();
        self.tell(checked);
    }

    /// Compares entries of the source with the same paths of the destination.
    fn compare(&self, entries: Vec<Entry>) -> Result<()> {
        let entries = self.expected.entries(entries, self.meter);
        let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
        let (mut pairs, mut missing) = (Vec::new(), Vec::new());
        let mut found = same_length(self.look(&paths)?, paths.len())?;
        self.look_behind_links(&entries, &mut found)?;
        for (entry, found) in entries.into_iter().zip(found) {
            match found {
                // Everything below it would fail for the same reason.
                Err(error) if entry.path.is_root() => return Err(of_destination(error)),
                Err(error) => self.meter.fail(&entry.path, of_destination(error)),
                Ok(None) => missing.push(entry),
                Ok(Some(found)) => match difference(&entry, &found) {
                    Some(how) => self.report(VerifyDifference::Differs(entry.path.clone(), how)),
                    None => pairs.push(EntryPair { entry, found }),
                },
            }
        }
        self.report_missing(missing)?;
        if pairs.is_empty() { Ok(()) } else { self.compare_pairs(pairs) }
    }

    fn look(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.destination.lookup(paths).map_err(of_destination)
    }

    /// Replaces symbolic links of the destination by the directories that they lead to, where the source has directories.
    fn look_behind_links(&self, entries: &[Arc<Entry>], found: &mut [Result<Option<Entry>>]) -> Result<()> {
        let Some(dirlinks) = self.dirlinks else { return Ok(()) };
        let is_link = |found: &Entry| matches!(found.kind, EntryKind::Symlink(_));
        let in_place_of_dirs: Vec<usize> = (0..entries.len())
            .filter(|at| entries[*at].is_dir() && matches!(&found[*at], Ok(Some(found)) if is_link(found)))
            .collect();
        if in_place_of_dirs.is_empty() {
            return Ok(());
        }
        let paths: Vec<RelPath> = in_place_of_dirs.iter().map(|at| entries[*at].path.clone()).collect();
        let behind = same_length(dirlinks.lookup(&paths).map_err(of_destination)?, paths.len())?;
        for (at, behind) in in_place_of_dirs.into_iter().zip(behind) {
            found[at] = behind;
        }
        Ok(())
    }

    /// Reports entries that the destination lacks, but for those that it cannot have.
    fn report_missing(&self, missing: Vec<Arc<Entry>>) -> Result<()> {
        let refused = match self.metadata {
            Some(metadata) => metadata.refused(&missing)?,
            None => vec![false; missing.len()],
        };
        for (entry, is_refused) in missing.into_iter().zip(refused) {
            if is_refused {
                self.meter.totals().left += 1;
            } else {
                self.report(VerifyDifference::Missing(entry.path.clone()));
            }
        }
        Ok(())
    }

    /// Compares content and metadata at the same time.
    fn compare_pairs(&self, pairs: Vec<EntryPair>) -> Result<()> {
        let files: Vec<&Entry> =
            pairs.iter().map(|pair| &*pair.entry).filter(|entry| entry.is_file()).collect();
        let paths: Vec<RelPath> = files.iter().map(|entry| entry.path.clone()).collect();
        let bytes = files.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.len));
        let hash = || self.hashing.count(bytes, || self.digests(&paths));
        let compare_metadata = || match self.metadata {
            Some(metadata) => metadata.compare(&pairs),
            None => Ok(pairs.iter().map(|_| Ok(Changes::NONE)).collect()),
        };
        let (changes, digests) = haul_threads::both("compare", compare_metadata, hash)?;
        let mut digests = digests?.into_iter();
        for (pair, changes) in pairs.into_iter().zip(changes?) {
            let content = if pair.entry.is_file() { digests.next() } else { None };
            self.settle(pair, changes, content);
        }
        Ok(())
    }

    /// The digests of files at the source and at the destination.
    fn digests(&self, paths: &[RelPath]) -> Result<Vec<(Result<Digest>, Result<Digest>)>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let (copied, original) =
            haul_threads::both("hash", || self.destination.digest(paths), || self.source.digest(paths))?;
        let original = same_length(original?, paths.len())?;
        let copied = same_length(copied.map_err(of_destination)?, paths.len())?;
        Ok(original.into_iter().zip(copied).collect())
    }

    /// Counts and reports the outcome of one comparison.
    fn settle(
        &self,
        pair: EntryPair,
        changes: Result<Changes>,
        content: Option<(Result<Digest>, Result<Digest>)>,
    ) {
        let path = &pair.entry.path;
        match content {
            Some((Err(error), _)) => return self.meter.fail(path, error),
            Some((_, Err(error))) => return self.meter.fail(path, of_destination(error)),
            Some((Ok(original), Ok(copied))) if original != copied => {
                let mut how = format!("digest {original} at the source, {copied} there");
                let words: Vec<&str> = changes.unwrap_or_default().words().collect();
                if !words.is_empty() {
                    how.push_str(&format!("; also {}", words.join(", ")));
                }
                return self.report(VerifyDifference::Differs(path.clone(), how));
            }
            Some((Ok(_), Ok(_))) | None => {}
        }
        match changes {
            Err(error) => self.meter.fail(path, of_destination(error)),
            Ok(changes) if changes.is_empty() => {
                self.meter.totals().same(pair.entry.len);
                if self.equal {
                    self.meter.done(path, Done::new(Action::Same, changes, &pair.entry));
                }
            }
            Ok(changes) => {
                let EntryPair { entry: source, found } = pair;
                self.tell(VerifyDifference::Metadata { changes, source, destination: Box::new(found) });
            }
        }
    }
}

/// An error of the destination, which is opened like a source.
fn of_destination(error: Error) -> Error {
    if error.side() == Side::Source { error.with_side(Side::Destination) } else { error }
}

/// How two entries differ, without a look at the content of files.
fn difference(source: &Entry, destination: &Entry) -> Option<String> {
    match (&source.kind, &destination.kind) {
        (EntryKind::File, EntryKind::File) if source.len == destination.len => None,
        (EntryKind::File, EntryKind::File) => {
            Some(format!("{} bytes at the source, {} at the destination", source.len, destination.len))
        }
        (source, destination) if source == destination => None,
        (EntryKind::Symlink(_), EntryKind::Symlink(_)) => Some("the links point elsewhere".to_owned()),
        (source, destination) => {
            Some(format!("{} at the source, {} at the destination", kind(source), kind(destination)))
        }
    }
}

fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "a file",
        EntryKind::Dir => "a directory",
        EntryKind::Symlink(_) => "a symbolic link",
        EntryKind::Fifo => "a named pipe",
        EntryKind::Socket => "a socket",
        EntryKind::CharDevice(_) => "a character device",
        EntryKind::BlockDevice(_) => "a block device",
    }
}

/// Checks that there is one answer for each question.
///
/// # Errors
/// `Protocol` if not.
pub(crate) fn same_length<T>(answers: Vec<T>, len: usize) -> Result<Vec<T>> {
    one_each(answers, len, Side::Wire, "compare")
}

/// Reports the entries of the destination that the source does not have.
fn find_extra(
    meter: &Meter<'_>,
    listed: &ListedEntries<'_>,
    destination: &dyn Source,
    scan: &ScanOptions,
    dirs: Option<&Spool<RelPath>>,
    cancel: &Cancel,
    found: &mut dyn FnMut(VerifyDifference),
) {
    // Extra entries are not part of the source, so the totals of the run do not count them.
    let own_meter = Meter::new(&Silent);
    let scan = &ScanOptions { rules: scan.rules.of_destination(), ..scan.clone() };
    let ask = |entries: Vec<Entry>, results: &Sender<RelPath>| {
        let paths: Vec<RelPath> = entries.into_iter().map(|entry| entry.path).collect();
        let originals = same_length(listed.lists(&paths)?, paths.len())?;
        for (path, original) in paths.into_iter().zip(originals) {
            if original == Ok(false) {
                drop(results.send(path));
            }
        }
        Ok(())
    };
    let mut take = |path| {
        found(VerifyDifference::Extra(path));
        Ok(())
    };
    Inspection {
        meter: &own_meter,
        source: destination,
        scan,
        listed: dirs,
        cancel,
        streams: 0,
        hashing: None,
    }
    .run(&ask, &mut take);
    if let Some(error) = own_meter.fatal() {
        meter.abort(of_destination(error));
    }
}

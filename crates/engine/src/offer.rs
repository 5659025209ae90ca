//! Offers entries to the sink and queues the files whose content the sink needs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::event::{Action, Content, Done};
use haul_core::{Answer, Changes, Entry, Error, ErrorKind, Offer, RelPath, Result, SLICE_LEN, Side, Sink};

use crate::answers::one_each;
use crate::cloning::{CLONED, clone_file};
use crate::confirmed::ConfirmedBy;
use crate::queue::is_large;
use crate::run::Run;

/// A file whose content the sink needs.
struct Needed {
    entry: Arc<Entry>,
    /// Why it is needed.
    changes: Changes,
    /// The slices that the destination has from an interrupted run.
    have: Vec<Range<u32>>,
}

impl Needed {
    /// Whether it replaces nothing.
    fn is_new(&self) -> bool {
        self.changes.has(Changes::NEW)
    }
}

/// Offers entries as an earlier run saw them. An entry that the sink finds unchanged is done; every other entry is
/// looked up and offered as it is now.
///
/// # Errors
/// The error of an end that cannot answer.
pub(crate) fn offer_from_index(run: &Run<'_>, entries: Vec<Arc<Entry>>) -> Result<()> {
    let offers = without_digest(entries);
    let answers = match run.preview {
        Some(preview) => ask(run, preview, &offers)?.into_iter().map(Some).collect(),
        None => vec![const { None }; offers.len()],
    };
    let mut changed = Vec::new();
    for (offer, answer) in offers.into_iter().zip(answers) {
        match answer {
            Some(Ok(answer @ (Answer::Same | Answer::Left(_)))) => settle(run, &offer, Ok(answer)),
            _ => changed.push(offer.entry),
        }
    }
    let paths: Vec<RelPath> = changed.iter().map(|entry| entry.path.clone()).collect();
    let mut current = Vec::with_capacity(changed.len());
    for (indexed, found) in changed.iter().zip(run.source.lookup(&paths)?) {
        match found {
            Ok(Some(found)) => {
                // A lookup does not return the names of owners.
                let names =
                    indexed.names.clone().filter(|_| (indexed.uid, indexed.gid) == (found.uid, found.gid));
                current.extend(run.admit(Entry { names, ..found }).map(Arc::new));
            }
            Ok(None) => {
                let cause = "it went away while it was compared";
                let error = Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause);
                run.report_failure(&indexed.path, error.on(indexed.path.as_bytes()));
            }
            Err(error) => run.report_failure(&indexed.path, error),
        }
    }
    offer(run, current)
}

/// Offers entries and queues the files that the sink needs.
///
/// # Errors
/// The error of an end that cannot answer.
pub(crate) fn offer(run: &Run<'_>, entries: Vec<Arc<Entry>>) -> Result<()> {
    let offers = without_digest(entries);
    let answers = ask(run, run.sink, &offers)?;
    if let Some(error) = failure_of_root(run, &offers, &answers) {
        run.root_refused();
        return Err(error);
    }
    let mut needed = Vec::new();
    let mut undecided = Vec::new();
    for (offer, answer) in offers.into_iter().zip(answers) {
        match answer {
            Err(error) if sends_before_deletion(run, &offer.entry, &error) => {
                let changes = Changes::KIND;
                needed.push(Needed { entry: offer.entry, changes, have: Vec::new() });
            }
            // A new file needs no digest; an existing file may be unchanged.
            Ok(Answer::Need { changes, .. }) if run.checksum && !changes.has(Changes::NEW) => {
                undecided.push(offer);
            }
            // Not on the word of the sink alone.
            Ok(Answer::Same | Answer::Updated(_)) if run.confirmed.is_some() && offer.entry.is_file() => {
                undecided.push(offer);
            }
            Ok(Answer::Need { changes, have }) => needed.push(Needed { entry: offer.entry, changes, have }),
            other => settle(run, &offer, other),
        }
    }
    if !undecided.is_empty() {
        needed.extend(compare_digests(run, undecided)?);
    }
    let small = needed.into_iter().filter_map(|file| begin(run, file)).collect();
    run.queue.add_small(small);
    Ok(())
}

/// The error of the root, if no entry below it can be created either.
fn failure_of_root(run: &Run<'_>, offers: &[Offer], answers: &[Result<Answer>]) -> Option<Error> {
    let root = offers.iter().position(|offer| offer.entry.path.is_root()).filter(|_| run.is_only)?;
    answers.get(root)?.as_ref().err().filter(|error| no_entry_fits_below(error)).cloned()
}

/// Whether a root with this error cannot be created, so that no entry below it can.
#[must_use]
pub fn no_entry_fits_below(error: &Error) -> bool {
    use ErrorKind::{Io, NotFound, PermissionDenied, Usage};
    matches!(error.kind(), NotFound | PermissionDenied | Io | Usage)
}

fn without_digest(entries: Vec<Arc<Entry>>) -> Vec<Offer> {
    entries.into_iter().map(|entry| Offer { entry, digest: None }).collect()
}

/// Sends one request, and checks that there is one answer for each offer.
fn ask(run: &Run<'_>, sink: &dyn Sink, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
    run.ask_sink(offers, |offers| one_each(sink.offer(offers)?, offers.len(), Side::Destination, "compare"))
}

/// Whether a file is sent and staged although a directory is in its place. The directory is emptied later.
fn sends_before_deletion(run: &Run<'_>, entry: &Entry, error: &Error) -> bool {
    run.deferred_for(error).is_some() && entry.is_file() && !run.dry_run && run.sink_caps.stages
}

/// Offers files again with their digests. Returns those that the sink needs.
fn compare_digests(run: &Run<'_>, undecided: Vec<Offer>) -> Result<Vec<Needed>> {
    let paths: Vec<RelPath> = undecided.iter().map(|offer| offer.entry.path.clone()).collect();
    let mut offers = Vec::with_capacity(undecided.len());
    for (offer, digest) in undecided.into_iter().zip(run.source.digest(&paths)?) {
        match digest {
            Ok(digest) => offers.push(Offer { digest: Some(digest), ..offer }),
            Err(error) if run.defer(&offer.entry, &error) => {}
            Err(error) => run.report_failure(&offer.entry.path, error),
        }
    }
    let answers = ask(run, run.sink, &offers)?;
    let mut needed = Vec::new();
    for (offer, answer) in offers.into_iter().zip(answers) {
        match answer {
            Ok(Answer::Need { changes, have }) => needed.push(Needed { entry: offer.entry, changes, have }),
            other => settle(run, &offer, other),
        }
    }
    Ok(needed)
}

/// Begins the copy of a file: clones it if the file system can, otherwise queues it. A small file is returned, so that
/// the caller can queue many at once.
fn begin(run: &Run<'_>, file: Needed) -> Option<Arc<Entry>> {
    let is_new = file.is_new();
    run.guard.count_sent(is_new);
    if run.dry_run {
        would_copy(run, &file.entry, file.changes);
        return None;
    }
    if may_clone(run, &file) {
        let is_done = clone_file(run, &file.entry, file.changes);
        if is_done {
            return None;
        }
    }
    if is_large(&file.entry) && !run.open.add_large(&file.entry.path) {
        // A list names it twice.
        run.meter.totals().same += 1;
        return None;
    }
    let resumed = if is_large(&file.entry) { resumed_bytes(&file) } else { 0 };
    run.meter.outlook.count_needed(file.entry.len, resumed);
    run.open.add();
    if !is_new {
        run.open.set_changes(&file.entry.path, file.changes);
    }
    if !is_large(&file.entry) {
        return Some(file.entry);
    }
    run.meter.totals().resumed_bytes += resumed;
    let compare = run.delta.load(Ordering::Relaxed) && !is_new;
    run.queue.add_large(file.entry, file.have, compare);
    None
}

/// The content that an interrupted run has left at the destination, in bytes.
fn resumed_bytes(file: &Needed) -> u64 {
    let start = |slice: u32| file.entry.len.min(u64::from(slice) * SLICE_LEN);
    file.have.iter().map(|range| start(range.end).saturating_sub(start(range.start))).sum()
}

/// Reports a file that a dry run would copy, or another entry that it would make.
pub(crate) fn would_copy(run: &Run<'_>, entry: &Entry, changes: Changes) {
    let mut totals = run.meter.totals();
    let action = if entry.is_file() {
        totals.copied(entry.len);
        Action::of_copy(changes)
    } else {
        totals.made += 1;
        Action::Made
    };
    drop(totals);
    run.confirm(entry, ConfirmedBy::Sent);
    run.meter.done(&entry.path, Done::new(action, changes, entry));
}

/// Counts an entry of which no content is sent.
fn settle(run: &Run<'_>, offer: &Offer, answer: Result<Answer>) {
    let entry = &*offer.entry;
    let is_set = matches!(answer, Ok(Answer::Same | Answer::Updated(_) | Answer::Made(_)));
    if is_set && entry.is_dir() && !run.dry_run {
        run.meter.outlook.count_directory();
    }
    match &answer {
        Ok(Answer::Same | Answer::Updated(_)) => run.confirm(entry, ConfirmedBy::Compared),
        Ok(Answer::Made(_)) => run.confirm(entry, ConfirmedBy::Sent),
        Ok(Answer::Left(_)) if entry.nlink > 1 && !entry.is_dir() => run.links.refuse_links_to(&entry.path),
        Ok(Answer::Left(_) | Answer::Need { .. }) | Err(_) => {}
    }
    let mut totals = run.meter.totals();
    let (action, changes) = match answer {
        Err(error) => {
            drop(totals);
            if !run.defer(entry, &error) {
                run.fail(&entry.path, error);
            }
            return;
        }
        Ok(Answer::Same) => {
            totals.same(entry.len);
            if !run.digests || !entry.is_file() {
                return;
            }
            (Action::Same, Changes::NONE)
        }
        Ok(Answer::Updated(changes)) => {
            totals.updated += 1;
            totals.same_bytes = totals.same_bytes.saturating_add(entry.len);
            (Action::Updated, changes)
        }
        Ok(Answer::Made(changes)) => {
            totals.made += 1;
            (Action::Made, changes)
        }
        Ok(Answer::Left(_)) => {
            totals.left += 1;
            (Action::Left, Changes::NONE)
        }
        Ok(Answer::Need { .. }) => return,
    };
    drop(totals);
    // With a digest, the destination compared the content.
    let content = offer.digest.filter(|_| action != Action::Left).map_or(Content::Unknown, Content::Digest);
    run.meter.done(&entry.path, Done { content, ..Done::new(action, changes, entry) });
}

/// Whether the file system may be asked to clone the file. A short file is copied. A file of which slices are there is
/// resumed instead, and a file that is written in place keeps its inode.
fn may_clone(run: &Run<'_>, file: &Needed) -> bool {
    let stays_in_place = run.in_place && !file.is_new() && is_large(&file.entry);
    let is_worth_it = file.entry.len >= CLONED && file.have.is_empty();
    is_worth_it && !stays_in_place && run.try_clone.load(Ordering::Relaxed)
}

//! From the scan to the queue: entries are offered to the sink in bulk, and what it needs is queued.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};
use haul_core::event::Action;
use haul_core::{
    Answer, Entry, Error, ErrorKind, Offer, RelPath, Result, SLICE_LEN, ScanBatch, ScanOptions, Side, Sink,
};

use crate::copy::{Paths, Run};
use crate::gate;
use crate::queue::is_large;
use crate::rivals;
use crate::weigh::runs;

/// Entries asked about at once.
const ASK: usize = 4096;
/// Weight of the entries asked about at once, in bytes.
const ASK_WEIGHT: usize = 2 * 1024 * 1024;
/// Paths of a list that are scanned at once.
const LIST: usize = 1000;

/// Scans the source, or what a list names of it, into `found`.
pub(crate) fn scan(run: &Run<'_>, options: &ScanOptions, list: Option<Paths>, found: &Sender<ScanBatch>) {
    let take = |batch: ScanBatch| {
        let mut totals = run.meter.totals();
        totals.found += (batch.entries.len() + batch.errors.len()) as u64;
        // Lengths are a remote end's word.
        let bytes = batch.entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.len));
        totals.found_bytes = totals.found_bytes.saturating_add(bytes);
        totals.excluded = totals.excluded.saturating_add(batch.excluded);
        drop(totals);
        run.gate.enter(gate::weight(&batch), || run.stopped());
        if run.stopped() || found.send(batch).is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let visit = |batch: ScanBatch| run.guard.hold(batch).into_iter().try_for_each(take);
    let scan = |options: &ScanOptions| {
        if let Err(error) = run.source.scan(options, &visit) {
            run.scan_failed.store(true, Ordering::Relaxed);
            run.abort(error);
        }
    };
    match list {
        None => scan(options),
        Some(mut list) => loop {
            let mut options = options.clone();
            for path in list.by_ref().take(LIST) {
                match path {
                    Ok(path) => options.starts.push(path),
                    Err(error) => {
                        run.scan_failed.store(true, Ordering::Relaxed);
                        run.meter.totals().found += 1;
                        run.meter.fail(&RelPath::root(), error);
                    }
                }
            }
            if options.starts.is_empty() || run.stopped() {
                break;
            }
            scan(&options);
        },
    }
    match run.guard.release(options) {
        Ok(held) if !run.stopped() => {
            let _ended = held.into_iter().try_for_each(take);
        }
        Ok(_) => {}
        Err(error) => run.abort(error),
    }
    run.meter.scan_is_done(true);
}

/// Takes what was found, offers it, queues what is needed; until there is no more.
pub(crate) fn feed(run: &Run<'_>, found: &Receiver<ScanBatch>) {
    while let Ok(batch) = found.recv() {
        let mut batches = vec![batch];
        let (mut count, mut weight) = (0, 0);
        while let Some(last) = batches.last() {
            count += last.entries.len();
            weight += gate::weight(last);
            if count >= ASK || weight >= ASK_WEIGHT {
                break;
            }
            let Ok(more) = found.try_recv() else { break };
            batches.push(more);
        }
        let (mut seen, mut told) = (Vec::with_capacity(count), Vec::new());
        for batch in batches {
            for failure in batch.errors {
                run.scan_failed.store(true, Ordering::Relaxed);
                run.meter.fail(&failure.path, failure.error);
            }
            if run.stopped() {
                continue;
            }
            let entries = if batch.told { &mut told } else { &mut seen };
            for entry in rivals::own(run, batch.entries) {
                let Some(entry) = run.sifted(entry) else { continue };
                match run.links.further_name(run, entry) {
                    Ok(Some(entry)) => entries.push(Arc::new(entry)),
                    Ok(None) => {}
                    Err(error) => run.abort(error),
                }
            }
        }
        in_turn(run, &seen, offer);
        in_turn(run, &told, offer_told);
        run.gate.leave(weight);
    }
}

/// Offers so many entries at a time as are asked about at once.
fn in_turn(run: &Run<'_>, entries: &[Arc<Entry>], offer: fn(&Run<'_>, Vec<Arc<Entry>>) -> Result<()>) {
    for entries in runs(entries, ASK, |entry| entry.weight()) {
        if let Err(error) = offer(run, entries.to_vec()) {
            run.abort(error);
            break;
        }
    }
}

/// Offers entries as an earlier run saw them. What the sink has just so stays; whatever would have to be done is done for
/// what is there now.
fn offer_told(run: &Run<'_>, entries: Vec<Arc<Entry>>) -> Result<()> {
    let offers: Vec<Offer> = entries.into_iter().map(|entry| Offer { entry, digest: None }).collect();
    let answers = match run.preview {
        Some(preview) => ask(run, preview, &offers)?.into_iter().map(Some).collect(),
        None => vec![const { None }; offers.len()],
    };
    let mut unlike = Vec::new();
    for (offer, answer) in offers.into_iter().zip(answers) {
        match answer {
            Some(Ok(answer @ (Answer::Same | Answer::Left(_)))) => settled(run, &offer.entry, Ok(answer)),
            _ => unlike.push(offer.entry),
        }
    }
    let paths: Vec<RelPath> = unlike.iter().map(|entry| entry.path.clone()).collect();
    let mut now = Vec::with_capacity(unlike.len());
    for (told, found) in unlike.iter().zip(run.source.lookup(&paths)?) {
        match found {
            Ok(Some(found)) => {
                // A question about names of paths brings no names of owners.
                let names = told.names.clone().filter(|_| (told.uid, told.gid) == (found.uid, found.gid));
                now.extend(run.sifted(Entry { names, ..found }).map(Arc::new));
            }
            Ok(None) => {
                let cause = "it went away while it was compared";
                let error = Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause);
                run.meter.fail(&told.path, error.on(told.path.as_bytes()));
            }
            Err(error) => run.meter.fail(&told.path, error),
        }
    }
    offer(run, now)
}

/// Offers entries and queues what the sink needs of them.
pub(crate) fn offer(run: &Run<'_>, entries: Vec<Arc<Entry>>) -> Result<()> {
    let offers: Vec<Offer> = entries.into_iter().map(|entry| Offer { entry, digest: None }).collect();
    let answers = ask(run, run.sink, &offers)?;
    let mut needed = Vec::new();
    let mut doubtful = Vec::new();
    for (offer, answer) in offers.into_iter().zip(answers) {
        match answer {
            // A folder is in its place: what is in it is removed once the content is there.
            Err(error)
                if error.kind() == ErrorKind::NotEmpty
                    && offer.entry.is_file()
                    && run.aside.is_some()
                    && !run.dry_run
                    && run.sink.stages() =>
            {
                needed.push((offer.entry, false, Vec::new()));
            }
            // By digest: what is new needs no hashing first, what is there may be the same.
            Ok(Answer::Need { new: false, .. }) if run.checksum => doubtful.push(offer),
            Ok(Answer::Need { new, have }) => needed.push((offer.entry, new, have)),
            other => settled(run, &offer.entry, other),
        }
    }
    if !doubtful.is_empty() {
        let paths: Vec<RelPath> = doubtful.iter().map(|offer| offer.entry.path.clone()).collect();
        let mut offers = Vec::with_capacity(doubtful.len());
        for (offer, digest) in doubtful.into_iter().zip(run.source.digest(&paths)?) {
            match digest {
                Ok(digest) => offers.push(Offer { digest: Some(digest), ..offer }),
                Err(error) => run.meter.fail(&offer.entry.path, error),
            }
        }
        let answers = ask(run, run.sink, &offers)?;
        for (offer, answer) in offers.into_iter().zip(answers) {
            match answer {
                Ok(Answer::Need { new, have }) => needed.push((offer.entry, new, have)),
                other => settled(run, &offer.entry, other),
            }
        }
    }
    let mut small = Vec::new();
    for (entry, new, have) in needed {
        run.meter.needs(entry.len);
        run.guard.sends(new);
        let action = if new { Action::Copied } else { Action::Replaced };
        if run.dry_run {
            would_copy(run, &entry, new);
        } else if !(have.is_empty() && !keeps_place(run, &entry, new) && cloned(run, &entry, action)) {
            if is_large(&entry) && !run.open_large(&entry.path) {
                run.meter.totals().same += 1;
                continue;
            }
            run.open.fetch_add(1, Ordering::AcqRel);
            if !new {
                run.replaces(&entry.path);
            }
            if is_large(&entry) {
                let start = |slice: u32| entry.len.min(u64::from(slice) * SLICE_LEN);
                let there: u64 =
                    have.iter().map(|range| start(range.end).saturating_sub(start(range.start))).sum();
                run.meter.totals().resumed_bytes += there;
                run.queue.add_large(entry, have, run.delta.load(Ordering::Relaxed) && !new);
            } else {
                small.push(entry);
            }
        }
    }
    run.queue.add_small(small);
    Ok(())
}

/// With `-n`: tells that the entry would be copied, or made if it has no content.
pub(crate) fn would_copy(run: &Run<'_>, entry: &Entry, new: bool) {
    let mut totals = run.meter.totals();
    let action = if entry.is_file() {
        totals.copied(entry.len);
        if new { Action::Copied } else { Action::Replaced }
    } else {
        totals.made += 1;
        Action::Made
    };
    drop(totals);
    run.meter.entry(action, &entry.path, entry.len);
}

/// Whether the file is changed where it is.
fn keeps_place(run: &Run<'_>, entry: &Entry, new: bool) -> bool {
    run.in_place && !new && is_large(entry)
}

/// One question, whose answer is as long as the question.
fn ask(run: &Run<'_>, sink: &dyn Sink, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
    run.patiently(offers, |offers| {
        let answers = sink.offer(offers)?;
        if answers.len() == offers.len() {
            return Ok(answers);
        }
        let cause = "the answer is not as long as the question";
        Err(Error::new(ErrorKind::Protocol, Side::Destination, "compare", cause))
    })
}

/// Counts an entry that needs no content.
fn settled(run: &Run<'_>, entry: &Entry, answer: Result<Answer>) {
    let mut totals = run.meter.totals();
    let action = match answer {
        Err(error) => {
            drop(totals);
            if !run.sets_aside(entry, &error) {
                run.fail(&entry.path, error);
            }
            return;
        }
        Ok(Answer::Same) => {
            totals.same(entry.len);
            return;
        }
        Ok(Answer::Updated) => {
            totals.updated += 1;
            totals.same_bytes = totals.same_bytes.saturating_add(entry.len);
            Action::Updated
        }
        Ok(Answer::Made) => {
            totals.made += 1;
            Action::Made
        }
        Ok(Answer::Left(_)) => {
            totals.left += 1;
            Action::Left
        }
        Ok(Answer::Need { .. }) => return,
    };
    drop(totals);
    run.meter.entry(action, &entry.path, entry.len);
}

/// Lets the file system copy the file by sharing its blocks, if it can; it is asked no more once it cannot.
fn cloned(run: &Run<'_>, entry: &Entry, action: Action) -> bool {
    if entry.len == 0 || !run.try_clone.load(Ordering::Relaxed) {
        return false;
    }
    let cloned = match run.source.local_file(entry) {
        None => Ok(None),
        Some(Ok(file)) => run
            .patiently(&[()], |_| Ok(vec![run.sink.clone_file(entry, &file)]))
            .and_then(|mut answers| answers.pop().unwrap_or(Ok(None))),
        // Reading will find the same, and says so with all that belongs to it.
        Some(Err(_)) => return false,
    };
    match cloned {
        Ok(Some(_)) => {
            run.meter.totals().copied(entry.len);
            run.meter.entry(action, &entry.path, entry.len);
            true
        }
        Ok(None) => {
            run.try_clone.store(false, Ordering::Relaxed);
            false
        }
        Err(error) => {
            if !run.sets_aside(entry, &error) {
                run.fail(&entry.path, error);
            }
            true
        }
    }
}

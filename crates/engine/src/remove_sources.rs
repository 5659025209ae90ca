//! Removes entries at the source after they were copied (`--remove-source-files`).
//!
//! haul removes an entry if all of this is true; every other entry stays:
//!
//! * This run has committed the entry at the destination, or compared its content with the content there.
//! * The sink has finished, which syncs everything.
//! * The destination still has an entry of this kind and length, which is not the source file itself.
//! * The source entry is the one that was copied.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use haul_core::event::{Action, Done};
use haul_core::source::REMOVE;
use haul_core::{Changes, Entry, Error, ErrorKind, RelPath, Report, Reporter, Result, Side, Source};

use crate::answers::one_each;
use crate::cancel::Cancel;
use crate::chunks::chunks;
use crate::confirmed::{Confirmed, ConfirmedBy, ConfirmedEntries, list_error};
use crate::meter::Meter;
use crate::repeat;

/// The number of entries in one request.
const PER_REQUEST: usize = 1024;

/// A source whose entries were copied.
pub struct Copied {
    /// The source.
    pub source: Arc<dyn Source>,
    /// Its destination, opened for reading. `None` in a dry run.
    pub view: Option<Arc<dyn Source>>,
    /// The entries of the source that the destination has.
    pub entries: Arc<ConfirmedEntries>,
}

/// Removes the confirmed entries of the source. Without a view it only reports them.
pub fn remove_sources(copied: &Copied, reporter: &dyn Reporter, cancel: &Cancel) -> Report {
    let meter = Meter::new(reporter);
    let removal = SourceRemoval { copied, meter: &meter, cancel, kept: Cell::new(0) };
    let read = copied.entries.take().forwards(|confirmed: Vec<Confirmed>| -> std::io::Result<()> {
        for some in chunks(&confirmed, PER_REQUEST, |one| one.entry.weight()) {
            if removal.stopped() {
                break;
            }
            if let Err(error) = removal.remove(some) {
                meter.abort(error);
            }
        }
        Ok(())
    });
    if let Err(e) = read {
        meter.abort(list_error(&e));
    }
    let totals = *meter.totals();
    Report {
        totals,
        kept: removal.kept.get(),
        fatal: meter.fatal(),
        interrupted: cancel.is_cancelled(),
        seconds: meter.seconds(),
        ..Report::default()
    }
}

struct SourceRemoval<'a> {
    copied: &'a Copied,
    meter: &'a Meter<'a>,
    cancel: &'a Cancel,
    /// Entries that stay.
    kept: Cell<u64>,
}

impl SourceRemoval<'_> {
    fn stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.meter.fatal().is_some()
    }

    /// Removes some entries.
    ///
    /// # Errors
    /// The error of an end that cannot answer.
    fn remove(&self, confirmed: &[Confirmed]) -> Result<()> {
        let Some(view) = &self.copied.view else {
            confirmed.iter().for_each(|one| self.count(&one.entry));
            return Ok(());
        };
        let mut ready = Vec::with_capacity(confirmed.len());
        for (one, checked) in confirmed.iter().zip(self.check(&**view, confirmed)?) {
            match checked {
                Ok(()) => ready.push(one.entry.clone()),
                Err(error) => self.keep(&one.entry, error),
            }
        }
        if ready.is_empty() {
            return Ok(());
        }
        let removed = self.ask(&ready, |entries| self.copied.source.remove_unchanged(entries))?;
        for (entry, removed) in ready.iter().zip(removed) {
            match removed {
                Ok(()) => self.count(entry),
                Err(error) => self.keep(entry, error),
            }
        }
        Ok(())
    }

    /// Whether the destination has each entry.
    fn check(&self, view: &dyn Source, confirmed: &[Confirmed]) -> Result<Vec<Result<()>>> {
        let paths: Vec<RelPath> = confirmed.iter().map(|one| one.entry.path.clone()).collect();
        let found = self.ask(&paths, |paths| view.lookup(paths))?;
        let mut checked: Vec<Result<()>> =
            confirmed.iter().zip(found).map(|(one, there)| is_there(one, there?)).collect();
        let claimed: Vec<usize> = (0..confirmed.len())
            .filter(|at| {
                let Confirmed { entry, proof } = &confirmed[*at];
                *proof == ConfirmedBy::Claimed && entry.is_file() && checked[*at].is_ok()
            })
            .collect();
        let claimed_paths: Vec<RelPath> = claimed.iter().map(|at| paths[*at].clone()).collect();
        if claimed.is_empty() {
            return Ok(checked);
        }
        let here = self.ask(&claimed_paths, |paths| self.copied.source.digest(paths))?;
        let there = self.ask(&claimed_paths, |paths| view.digest(paths))?;
        for (at, (here, there)) in claimed.into_iter().zip(here.into_iter().zip(there)) {
            checked[at] = here.and_then(|here| there.map(|there| here == there)).and_then(|is_same| {
                let path = &confirmed[at].entry.path;
                if is_same { Ok(()) } else { Err(stays("its content at the destination differs", path)) }
            });
        }
        Ok(checked)
    }

    /// Asks an end, again after temporary errors. There is one answer for each question.
    fn ask<Q: Clone, A>(
        &self,
        questions: &[Q],
        ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
    ) -> Result<Vec<Result<A>>> {
        let pause = |wait| {
            thread::sleep(wait);
            !self.cancel.is_cancelled()
        };
        repeat::ask(questions, pause, |questions| {
            one_each(ask(questions)?, questions.len(), Side::Local, REMOVE)
        })
    }

    fn count(&self, entry: &Entry) {
        self.meter.totals().removed_at_source += 1;
        let done = Done::new(Action::RemovedAtSource, Changes::NONE, entry);
        self.meter.done(&entry.path, done);
    }

    /// The entry stays, which is an error.
    fn keep(&self, entry: &Entry, error: Error) {
        self.kept.set(self.kept.get() + 1);
        self.meter.fail(&entry.path, error);
    }
}

fn stays(cause: &str, path: &RelPath) -> Error {
    Error::new(ErrorKind::Io, Side::Source, REMOVE, format!("{cause}, so it stays")).on(path.as_bytes())
}

/// Checks that the destination has the entry, and that it is another one than that of the source: two names can lead to
/// one directory in ways that no path shows.
fn is_there(Confirmed { entry, proof }: &Confirmed, there: Option<Entry>) -> Result<()> {
    let Some(there) = there else {
        return Err(stays("the destination does not have it any more", &entry.path));
    };
    if there.kind != entry.kind || there.len != entry.len {
        return Err(stays("the destination has something else under its name", &entry.path));
    }
    // The directories of all other entries were told apart before the copy.
    let cannot_tell = entry.path.is_root() && *proof != ConfirmedBy::Sent;
    if cannot_tell && (entry.ctime.is_none() || there.ctime.is_none()) {
        return Err(stays("haul cannot tell whether it is the same file as at the destination", &entry.path));
    }
    if entry.is_one_with(&there) {
        return Err(stays("it is the same file as at the destination", &entry.path));
    }
    Ok(())
}

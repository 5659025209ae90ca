//! Hard links inside the tree: the first name is copied, the further ones are linked at the end.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use haul_core::event::Action;
use haul_core::{Answer, Entry, Error, ErrorKind, HardLink, RelPath, Result, Side};
use haul_spool::Spool;

use crate::copy::Run;
use crate::weigh::runs;

/// Links made by one question to the sink.
const ASK: usize = 2048;

/// Files of more than one name: 100 to 200 bytes of memory for each until all of its names were found.
#[derive(Default)]
pub(crate) struct Links {
    /// By device and inode: the first name that was found, and how many names were.
    first: Mutex<HashMap<(u64, u64), (RelPath, u32)>>,
    further: Mutex<Spool<HardLink>>,
}

impl Links {
    /// Gives the entry back, unless it is a further name of a file that was seen before: then it is kept for the
    /// end.
    pub(crate) fn further_name(&self, run: &Run<'_>, entry: Entry) -> Result<Option<Entry>> {
        if entry.nlink < 2 || entry.is_dir() || run.stopped() {
            return Ok(Some(entry));
        }
        let to = {
            let mut first = self.first.lock();
            match first.entry((entry.dev, entry.ino)) {
                Slot::Vacant(slot) => {
                    slot.insert((entry.path.clone(), 1));
                    return Ok(Some(entry));
                }
                // A list may name the same path twice.
                Slot::Occupied(slot) if slot.get().0 == entry.path => return Ok(Some(entry)),
                Slot::Occupied(mut slot) => {
                    slot.get_mut().1 += 1;
                    if slot.get().1 >= entry.nlink { slot.remove().0 } else { slot.get().0.clone() }
                }
            }
        };
        self.push(&HardLink { entry: Arc::new(entry), to })?;
        Ok(None)
    }

    fn push(&self, link: &HardLink) -> Result<()> {
        let mut further = self.further.lock();
        further.push(link).map_err(|e| failed(&e))
    }

    /// Keeps a link that is to be made.
    pub(crate) fn put(&self, run: &Run<'_>, link: &HardLink) {
        if let Err(error) = self.push(link) {
            run.abort(error);
        }
    }

    /// Makes them all.
    pub(crate) fn make(&self, run: &Run<'_>) {
        let further = std::mem::take(&mut *self.further.lock());
        let made = further.forwards(|links: Vec<HardLink>| -> std::io::Result<()> {
            let ready: Vec<HardLink> = links.into_iter().filter(|link| !waits(run, link)).collect();
            let weight = |link: &HardLink| link.entry.weight() + link.to.as_bytes().len();
            for links in runs(&ready, ASK, weight) {
                if run.stopped() {
                    break;
                }
                match run.patiently(links, |links| run.sink.link(links)) {
                    Ok(answers) => {
                        for (link, answer) in links.iter().zip(answers) {
                            count(run, link, answer);
                        }
                    }
                    Err(error) => run.abort(error),
                }
            }
            Ok(())
        });
        if let Err(e) = made {
            run.abort(failed(&e));
        }
    }
}

/// Whether the file itself waits for a folder to go; then its further names do too.
fn waits(run: &Run<'_>, link: &HardLink) -> bool {
    let Some(aside) = run.aside.as_ref().filter(|aside| aside.holds(&link.to)) else { return false };
    let error = Error::no_first_name(Side::Destination).on(link.entry.path.as_bytes());
    aside.put_link(link, &error).unwrap_or_else(|error| run.abort(error));
    true
}

fn count(run: &Run<'_>, link: &HardLink, answer: Result<Answer>) {
    let path = &link.entry.path;
    match answer {
        Err(error) => match run.aside.as_ref().filter(|_| error.kind() == ErrorKind::NotEmpty) {
            Some(aside) => aside.put_link(link, &error).unwrap_or_else(|error| run.abort(error)),
            None => run.fail(path, error),
        },
        Ok(Answer::Same) => run.meter.totals().same(link.entry.len),
        Ok(Answer::Left(_)) => {
            run.meter.totals().left += 1;
            run.meter.entry(Action::Left, path, link.entry.len);
        }
        Ok(_) => {
            run.meter.totals().linked += 1;
            run.meter.entry(Action::Linked, path, link.entry.len);
        }
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::list("hard links", error)
}

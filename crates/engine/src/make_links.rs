//! Makes the hard links, after all content is at the destination.

use haul_core::event::{Action, Content, Done};
use haul_core::{Answer, Changes, Error, HardLink, Result, Side};

use crate::chunks::chunks;
use crate::confirmed::ConfirmedBy;
use crate::deferred::send;
use crate::hard_links::list_error;
use crate::pipeline::{pipeline, with_progress};
use crate::run::Run;

/// The number of links in one request to the sink.
const PER_REQUEST: usize = 2048;

/// Makes all links, in passes that `pass` makes: names of a file whose first name failed, or stays as it is at the
/// destination, are copied on their own, and the first of them is a first name then.
pub(crate) fn make_all_links<'a>(run: &Run<'_>, workers: usize, pass: &dyn Fn() -> Run<'a>) {
    with_progress(run, || make_links(run));
    let mut alone = run.links.take_alone();
    while !alone.is_empty() && !run.stopped() {
        let next = pass();
        let mut sent = Ok(());
        pipeline(&next, workers, |found| {
            sent = alone.forwards(|entries| -> std::io::Result<()> {
                send(found, entries);
                Ok(())
            });
        });
        sent.unwrap_or_else(|error| next.abort(list_error(&error)));
        with_progress(&next, || make_links(&next));
        if next.stopped() {
            return;
        }
        alone = next.links.take_alone();
    }
}

fn make_links(run: &Run<'_>) {
    let made = run.links.take().forwards(|links: Vec<HardLink>| -> std::io::Result<()> {
        let ready: Vec<HardLink> = links.into_iter().filter(|link| !waits(run, link)).collect();
        let weight = |link: &HardLink| link.entry.weight() + link.to.as_bytes().len();
        for links in chunks(&ready, PER_REQUEST, weight) {
            if run.stopped() {
                break;
            }
            match run.ask_sink(links, |links| run.sink.link(links)) {
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
        run.abort(list_error(&e));
    }
}

/// Whether the link is not to be made now.
fn waits(run: &Run<'_>, link: &HardLink) -> bool {
    let is_alone = run.links.keep_alone(link).unwrap_or_else(|error| {
        run.abort(error);
        true
    });
    is_alone || follows_deferred(run, link)
}

/// Whether the file itself is deferred; then the link is deferred too.
fn follows_deferred(run: &Run<'_>, link: &HardLink) -> bool {
    let Some(deferred) = run.deferred.as_ref().filter(|deferred| deferred.contains(&link.to)) else {
        return false;
    };
    let error = Error::no_first_name(Side::Destination).on(link.entry.path.as_bytes());
    deferred.add_link(link, &error).unwrap_or_else(|error| run.abort(error));
    true
}

fn count(run: &Run<'_>, link: &HardLink, answer: Result<Answer>) {
    let (path, len) = (&link.entry.path, link.entry.len);
    let content = Content::OfName(link.to.as_bytes());
    let done = |action, changes| Done { content, ..Done::new(action, changes, &link.entry) };
    match answer {
        Err(error) => match run.deferred_for(&error) {
            Some(deferred) => deferred.add_link(link, &error).unwrap_or_else(|error| run.abort(error)),
            None => run.fail(path, error),
        },
        Ok(Answer::Same) => {
            run.meter.totals().same(len);
            if run.digests {
                run.meter.done(path, done(Action::Same, Changes::NONE));
            }
            run.confirm_link(&link.entry, &link.to, ConfirmedBy::Claimed);
        }
        Ok(Answer::Left(_)) => {
            run.meter.totals().left += 1;
            run.meter.left(&link.entry);
        }
        Ok(answer) => {
            let changes = match answer {
                Answer::Made(changes) => changes,
                _ => Changes::NONE,
            };
            run.meter.totals().linked += 1;
            run.confirm_link(&link.entry, &link.to, ConfirmedBy::Sent);
            run.meter.done(path, done(Action::Linked, changes));
        }
    }
}

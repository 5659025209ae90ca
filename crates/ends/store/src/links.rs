//! Hard links. A store has none: each further name is a copy of the object.

use haul_core::policy::Verdict;
use haul_core::{Answer, Changes, Compare, Error, HardLink, Result, SkipReason};

use super::kept;
use super::listing::NotListed;
use super::metadata;
use super::offer;
use super::server_side_copy::write;
use super::sink_state::SinkState;

/// Makes a further name of a file: a server-side copy with the same link metadata.
pub(super) fn link(sink: &SinkState, link: &HardLink) -> Result<Answer> {
    let (client, entry) = (&sink.tree.client, &*link.entry);
    sink.check(entry)?;
    let changes = match client.look(&sink.tree.key(&entry.path))? {
        None => {
            let directory = match entry.path.parent() {
                Some(parent) => {
                    sink.listings.of(&sink.tree, &parent)?.seen(&sink.tree, &entry.path).directory
                }
                None => Err(NotListed),
            };
            if let Some(left) = offer::no_object(sink, &entry.path, directory)? {
                return Ok(Answer::Left(left));
            }
            Changes::NEW
        }
        Some(_) if sink.options.ignore_existing => return Ok(Answer::Left(SkipReason::Exists)),
        Some(object) if sink.options.compare == Compare::Metadata => {
            return Ok(kept::answer(sink, entry, Some(&object)));
        }
        Some(object) => {
            let there = metadata::read(&entry.path, &object, false, None);
            if offer::is_newer(sink, &there, entry) {
                return Ok(Answer::Left(SkipReason::Newer));
            }
            let options = &sink.options;
            if options.links_by_metadata()
                && metadata::is_same(&object, entry, &options.preserve)
                && there.len == entry.len
            {
                return Ok(Answer::Same);
            }
            offer::changes(options, entry, &object, &there, &Verdict::Differs)
        }
    };
    if sink.options.dry_run {
        return Ok(Answer::Made(changes));
    }
    let first = client
        .look(&sink.tree.key(&link.to))?
        .ok_or_else(|| Error::no_first_name(sink.tree.side).on(sink.tree.shown(&entry.path)))?;
    let digest = sink.tree.recorded(&first)?;
    write(sink, entry, &first, &sink.tree.key(&entry.path), (digest.as_ref(), None))?;
    Ok(Answer::Made(changes))
}

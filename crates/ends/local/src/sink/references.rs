//! Trees of earlier runs (`--link-dest`): a file that one of them has already becomes a hard link to it.

use haul_core::policy::{Verdict, decide};
use haul_core::{Entry, Offer, Result};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::compare::LocalEntry;
use super::link::make_name;
use super::look::look_in;
use super::state::LocalSink;
use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;

/// Links the offered file to the first reference that has it with the same content and metadata, as the options
/// compare them. Whether there is one.
///
/// # Errors
/// If the metadata of a file in a reference cannot be read, or the destination takes no link.
pub(super) fn link_to_reference(sink: &LocalSink, offer: &Offer) -> Result<bool> {
    for reference in &sink.references.roots {
        if let Some((at, now)) = find(sink, reference, offer)?
            && (sink.options.dry_run || link(sink, &offer.entry, &at, &now)?)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn find(sink: &LocalSink, reference: &Root, offer: &Offer) -> Result<Option<(At, Statx)>> {
    let entry = &*offer.entry;
    let failed = |errno| reference.error("look at", &entry.path, errno);
    let Some((at, now)) = look_in(reference, &entry.path).map_err(failed)? else { return Ok(None) };
    let seen = LocalEntry { sink, offered: entry, at: &at, now: &now };
    let entry = &*sink.metadata().preserve.with_mode(entry, || stat::mode(&now));
    let is_same = decide(&sink.references.options, offer, Some(&seen)) == Verdict::Same
        && sink.metadata().changes(sink.tree(), &at, &now, entry).map_err(failed)?.is_empty()
        && sink.claims.take(&now, &entry.path);
    Ok(is_same.then_some((at, now)))
}

/// Makes the link. `false` if the file system cannot: then the file is copied.
fn link(sink: &LocalSink, entry: &Entry, to: &At, now: &Statx) -> Result<bool> {
    match make_name(sink, entry, to, Some(now)) {
        Err((Some(errno @ (Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP)), _)) => {
            let cause = std::io::Error::from(errno).to_string();
            sink.metadata().warn("links to --link-dest", &cause, &entry.path);
            Ok(false)
        }
        Err((_, error)) => Err(error),
        Ok(()) => Ok(true),
    }
}

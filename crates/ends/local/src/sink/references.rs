//! Trees of earlier runs (`--link-dest`): a file that one of them has already becomes a hard link to it.

use haul_core::policy::{Verdict, decide};
use haul_core::{Entry, Offer, RelPath, Result};
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
    if !sink.references.roots.is_empty() && !sink.options.dry_run && !offer.entry.path.is_root() {
        // The path of a reference leads through the destination (`../1`), which the first entry makes. An error is
        // reported when the file is made.
        let _ = sink.root().dir(&RelPath::root(), true);
    }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use haul_core::{Answer, Place, PlaceRoot, Side, SinkOptions};

    use crate::path::place::resolve;
    use crate::path::root::Root;
    use crate::scene::{Scene, pool};
    use crate::sink::open::open_at;

    #[test]
    fn a_reference_beside_a_missing_destination_is_found_by_the_first_file() {
        let scene = Scene::new();
        fs::write(scene.from.join("f"), "content").unwrap();
        let fresh = scene.to.with_file_name("fresh");
        let place = Place { path: [fresh.as_os_str().as_bytes(), b"/"].concat(), root: PlaceRoot::Exactly };
        let options = SinkOptions { link_dest: vec![b"../from".to_vec()], ..SinkOptions::default() };
        let root = |base| Root::new(base, Side::Destination, std::sync::Arc::default());
        let sink = open_at(&place, &options, &pool(), |place, _| resolve(place, false), root).unwrap();
        assert_eq!(scene.offer(&sink, "f"), Ok(Answer::Same));
        let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(fresh.join("f")), inode(scene.from.join("f")));
    }
}

//! Earlier copies at the destination: a file that one of them has becomes a hard link to it (`--link-dest`), or is not
//! made (`--compare-dest`).

use std::os::unix::ffi::OsStrExt;

use haul_core::policy::{Verdict, decide};
use haul_core::sink::SkipReason;
use haul_core::{Answer, Entry, Offer, ReferencePurpose, RelPath, Result};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::compare::{LocalEntry, has_target};
use super::link::make_name;
use super::look::look_in;
use super::state::LocalSink;
use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;

/// The answer to an offer by the first earlier copy that has the entry with the same content and metadata, as the
/// options compare them; `None` if there is none. `now` is the existing entry at the destination, and `verdict` the
/// decision about it.
///
/// # Errors
/// If the metadata of a file in an earlier copy cannot be read, or the destination takes no link.
pub(super) fn by_reference(
    sink: &LocalSink,
    offer: &Offer,
    now: Option<&Statx>,
    verdict: &Verdict,
) -> Result<Option<Answer>> {
    let entry = &*offer.entry;
    let purpose = sink.options.references.purpose;
    let serves = match purpose {
        ReferencePurpose::Link => {
            entry.is_file()
                && matches!(verdict, Verdict::Missing | Verdict::Differs)
                && !now.is_some_and(stat::is_dir)
        }
        // The other names of a file may not be in the earlier copy, and become links to this one.
        ReferencePurpose::Omit => *verdict == Verdict::Missing && !entry.is_dir() && entry.nlink < 2,
    };
    if !serves || sink.references.roots.is_empty() {
        return Ok(None);
    }
    if !sink.options.dry_run && !entry.path.is_root() {
        // The path of a reference leads through the destination (`../1`), which the first entry makes. An error is
        // reported when the file is made.
        let _ = sink.root().dir(&RelPath::root(), true);
    }
    for reference in &sink.references.roots {
        let Some((at, now)) = find(sink, reference, offer)? else {
            let is_file = entry.path.is_root() && !entry.is_dir();
            if let Some((what, cause)) = missing(sink, reference, is_file) {
                sink.metadata().warn(what, &cause, &entry.path);
            }
            continue;
        };
        match purpose {
            ReferencePurpose::Omit => return Ok(Some(Answer::Left(SkipReason::Elsewhere))),
            ReferencePurpose::Link if !sink.claims.take(&now, &entry.path) => {}
            ReferencePurpose::Link if sink.options.dry_run || link(sink, entry, &at, &now)? => {
                return Ok(Some(Answer::Same));
            }
            ReferencePurpose::Link => {}
        }
    }
    Ok(None)
}

fn find(sink: &LocalSink, reference: &Root, offer: &Offer) -> Result<Option<(At, Statx)>> {
    let entry = &*offer.entry;
    let failed = |errno| reference.error("look at", &entry.path, errno);
    let Some((at, now)) = look_in(reference, &entry.path).map_err(failed)? else { return Ok(None) };
    let seen = LocalEntry { sink, offered: entry, at: &at, now: &now };
    let entry = &*sink.metadata().preserve.with_mode(entry, || stat::mode(&now));
    let has_content = match decide(&sink.references.options, offer, Some(&seen)) {
        Verdict::CompareTarget => has_target(reference, &at, entry),
        verdict => verdict == Verdict::Same,
    };
    let is_same =
        has_content && sink.metadata().changes(sink.tree(), &at, &now, entry).map_err(failed)?.is_empty();
    Ok(is_same.then_some((at, now)))
}

/// Warns of earlier copies that are missing, also if no file had to be looked for in them.
pub(super) fn warn_of_missing(sink: &LocalSink) {
    let root = RelPath::root();
    // Their paths may lead through the destination.
    let is_dir = sink.root().dir(&root, false).is_ok();
    let is_file = !is_dir && sink.root().at(&root).is_ok_and(|at| stat::statx(&at).is_ok());
    for reference in sink.references.roots.iter().filter(|_| is_dir || is_file) {
        if let Some((what, cause)) = missing(sink, reference, is_file) {
            sink.metadata().warn_without_entry(what, &cause);
        }
    }
}

/// The option and the cause if an earlier copy is missing: a mistyped directory costs a copy of everything. With
/// `is_file`, the root is a single file, and only the directory above that of the reference has to be there.
fn missing(sink: &LocalSink, reference: &Root, is_file: bool) -> Option<(&'static str, String)> {
    let root = RelPath::root();
    let (found, dir) = if is_file {
        let above = reference.path_above().as_os_str().as_bytes().to_vec();
        (reference.at(&root).map(drop), above)
    } else {
        (reference.dir(&root, false).map(drop), reference.shown(&root))
    };
    let why = match found {
        // The path may lead through a file that was missing until now (`FILE/../DIR`).
        Err(Errno::NOTDIR) if !is_file => "is not a directory",
        Err(Errno::NOENT | Errno::NOTDIR) => "does not exist",
        _ => return None,
    };
    let what = match sink.options.references.purpose {
        ReferencePurpose::Link => "--link-dest",
        ReferencePurpose::Omit => "--compare-dest",
    };
    Some((what, format!("{} {why}", String::from_utf8_lossy(&dir))))
}

/// Makes the link. `false` if the file system cannot: then the file is copied.
fn link(sink: &LocalSink, entry: &Entry, to: &At, now: &Statx) -> Result<bool> {
    match make_name(sink, entry, to, Some(now)) {
        Err((Some(errno @ (Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP)), _)) => {
            let cause = std::io::Error::from(errno).to_string();
            sink.metadata().warn("--link-dest", &cause, &entry.path);
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

    use haul_core::{Answer, Place, PlaceRoot, References, Side, SinkOptions};

    use crate::path::place::resolve;
    use crate::path::root::Root;
    use crate::scene::{LocalScene, pool};
    use crate::sink::open::open_at;
    use crate::sink::state::LocalSink;

    /// A sink at `path` with an earlier copy at `../from`.
    fn with_copy_beside(path: &std::path::Path, dry_run: bool) -> LocalSink {
        let references = References { dirs: vec![b"../from".to_vec()], ..References::default() };
        let place = Place { path: [path.as_os_str().as_bytes(), b"/"].concat(), root: PlaceRoot::Exactly };
        let options = SinkOptions { references, dry_run, ..SinkOptions::default() };
        let root = |base| Root::new(base, Side::Destination, std::sync::Arc::default());
        open_at(&place, &options, &pool(), |place, _| resolve(place, false), root).unwrap()
    }

    #[test]
    fn a_dry_run_finds_a_reference_beside_a_missing_destination() {
        let scene = LocalScene::new();
        fs::write(scene.from.join("f"), "content").unwrap();
        let fresh = scene.to.with_file_name("fresh");
        let sink = with_copy_beside(&fresh, true);
        assert_eq!(scene.offer(&sink, "f"), Ok(Answer::Same));
        assert!(sink.metadata().warnings().is_empty() && !fresh.exists());
    }

    #[test]
    fn a_reference_beside_a_missing_destination_is_found_by_the_first_file() {
        let scene = LocalScene::new();
        fs::write(scene.from.join("f"), "content").unwrap();
        let fresh = scene.to.with_file_name("fresh");
        let sink = with_copy_beside(&fresh, false);
        assert_eq!(scene.offer(&sink, "f"), Ok(Answer::Same));
        let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(fresh.join("f")), inode(scene.from.join("f")));
    }
}

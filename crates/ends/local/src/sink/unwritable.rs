//! A destination that takes no entry at all, so that every entry would fail for the same reason.

use std::sync::OnceLock;

use haul_core::{Answer, Error, ErrorKind, Offer, RelPath, Result};
use rustix::fs::{Access, AtFlags, FileType, accessat};
use rustix::io::Errno;

use crate::path::at::Dir;
use crate::path::root::Root;
use crate::path::stat;

/// Why the destination takes no entry.
struct Unwritable {
    error: Error,
    /// Only entries of the root need the permission; directories below it may give it.
    root_only: bool,
}

/// Whether the destination takes entries, examined when the first one is to be made.
#[derive(Default)]
pub(super) struct Writability(OnceLock<Option<Unwritable>>);

/// The error of the whole destination, if one of these answers needs an entry to be made and none can be made.
/// `replaces`: a file of the destination is replaced by a new one.
pub(super) fn refused(
    known: &Writability,
    root: &Root,
    replaces: bool,
    offers: &[Offer],
    answers: &[Result<Answer>],
) -> Option<Error> {
    let makes = |answer: &Result<Answer>| match answer {
        Ok(Answer::Need { new, .. }) => *new || replaces,
        Ok(_) => false,
        Err(error) => {
            let errno = error.errno().map(Errno::from_raw_os_error);
            matches!(errno, Some(Errno::ACCESS | Errno::ROFS | Errno::NOTDIR))
        }
    };
    offers.iter().zip(answers).filter(|(_, answer)| makes(answer)).find_map(|(offer, _)| {
        let found = known.0.get_or_init(|| examine(root)).as_ref()?;
        let in_root = offer.entry.path.parent().is_none_or(|parent| parent.is_root());
        (in_root || !found.root_only).then(|| found.error.clone())
    })
}

/// Examines the directory that holds the entries of the root, or the root if that is a file or missing.
fn examine(root: &Root) -> Option<Unwritable> {
    let everything = RelPath::root();
    let dir = match root.dir(&everything, false) {
        Ok(dir) => dir,
        Err(_) => match root.at(&everything) {
            Ok(at) => at.dir,
            Err(Errno::NOTDIR) => {
                let cause = "it is no directory, or a file is above it";
                let error = root.fault(ErrorKind::Usage, "copy to", &everything, cause);
                return Some(Unwritable { error, root_only: false });
            }
            Err(_) => return None,
        },
    };
    dir.ops.one();
    let errno = accessat(&*dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).err()?;
    let is_hopeless = match errno {
        Errno::ROFS => true,
        // The owner may change the mode, and directories below may be writable.
        Errno::ACCESS => !is_own(&dir) && !holds_dirs(&dir),
        _ => false,
    };
    let error = root.error("write to", &everything, errno);
    is_hopeless.then_some(Unwritable { error, root_only: errno == Errno::ACCESS })
}

fn is_own(dir: &Dir) -> bool {
    stat::statx_file(dir).is_ok_and(|now| now.stx_uid == rustix::process::geteuid().as_raw())
}

fn holds_dirs(dir: &Dir) -> bool {
    let Ok(entries) = rustix::fs::Dir::read_from(dir) else { return true };
    entries.flatten().any(|entry| {
        let is_name = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        is_name && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
    })
}

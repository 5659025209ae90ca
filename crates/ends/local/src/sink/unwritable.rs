//! A destination that takes no entry at all, so that every entry would fail for the same reason.

use std::sync::OnceLock;

use haul_core::{Answer, Changes, Error, ErrorKind, RelPath, Result};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, StatFs, accessat, openat};
use rustix::io::Errno;

use crate::path::at::Dir;
use crate::path::root::Root;
use crate::path::stat;

/// The types of the file systems of /proc and /sys, of statfs(2).
const PROC: u32 = 0x9fa0;
const SYS: u32 = 0x6265_6572;

/// Whether the destination takes entries, examined when the first one is to be made.
#[derive(Default)]
pub(super) struct Writability(OnceLock<Option<Error>>);

/// The error of the whole destination, if one of these answers needs an entry to be made and none can be made.
/// `replaces`: a file of the destination is replaced by a new one.
pub(super) fn refused(
    known: &Writability,
    root: &Root,
    replaces: bool,
    answers: &[Result<Answer>],
) -> Option<Error> {
    let makes = |answer: &Result<Answer>| match answer {
        Ok(Answer::Need { changes, .. }) => changes.has(Changes::NEW) || replaces,
        Ok(_) => false,
        Err(error) => {
            let errno = error.errno().map(Errno::from_raw_os_error);
            let refusals = [Errno::ACCESS, Errno::ROFS, Errno::NOTDIR, Errno::PERM, Errno::NOENT];
            errno.is_some_and(|errno| refusals.contains(&errno))
        }
    };
    if !answers.iter().any(makes) {
        return None;
    }
    known.0.get_or_init(|| examine(root)).clone()
}

/// Examines the directory that holds the entries of the root; that which holds the root if it is a file or missing.
fn examine(root: &Root) -> Option<Error> {
    let everything = RelPath::root();
    let dir = match root.dir(&everything, false) {
        Ok(dir) => dir,
        Err(_) => match root.at(&everything) {
            Ok(at) => at.dir,
            Err(Errno::NOTDIR) => {
                let cause = "it is a file, or a file is above it, and a directory is needed";
                return Some(root.fault(ErrorKind::Usage, "copy to", &everything, cause));
            }
            Err(_) => {
                let above = root.path_above().ancestors().find_map(|dir| rustix::fs::statfs(dir).ok());
                return above.filter(shows_the_kernel).map(|_| refuse_the_kernel(root));
            }
        },
    };
    dir.ops.one();
    if rustix::fs::fstatfs(&dir).as_ref().is_ok_and(shows_the_kernel) {
        return Some(refuse_the_kernel(root));
    }
    let errno = accessat(&*dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).err()?;
    let is_hopeless = match errno {
        Errno::ROFS => true,
        // The owner may change the mode, and a directory in it may be writable.
        Errno::ACCESS => !is_own(&dir) && !holds_dirs(&dir),
        _ => false,
    };
    is_hopeless.then(|| root.error("write to", &everything, errno))
}

/// Whether the file system is that of /proc or /sys, which the system calls writable for root.
fn shows_the_kernel(fs: &StatFs) -> bool {
    matches!(fs.f_type as u32, PROC | SYS)
}

fn refuse_the_kernel(root: &Root) -> Error {
    let cause = "it shows the state of the kernel, and no file can be created there";
    root.fault(ErrorKind::Unsupported, "copy to", &RelPath::root(), cause)
}

fn is_own(dir: &Dir) -> bool {
    stat::statx_file(dir).is_ok_and(|now| now.stx_uid == rustix::process::geteuid().as_raw())
}

/// Whether a directory is in this one, or may be.
fn holds_dirs(dir: &Dir) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The directory itself may be open for its path only.
    let opened = openat(dir, ".", flags, Mode::empty());
    let Ok(mut entries) = opened.and_then(rustix::fs::Dir::new) else { return true };
    entries.any(|entry| {
        let Ok(entry) = entry else { return true };
        let is_name = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        is_name && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
    })
}

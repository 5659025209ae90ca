//! Files of filter rules: in the directories of a walk, and above the root.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use haul_core::filter::{DirRules, Filter, IS_LINK, MAX_RULES_LEN, RulesAbove, look_above};
use haul_core::{Error, ErrorKind, RelPath, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::tree::local_tree::LocalTree;

const READ: &str = "read the filter rules";

/// The absolute path of the root, and the files with these names above it.
pub(crate) fn above(tree: &LocalTree, names: &[Vec<u8>]) -> Result<RulesAbove> {
    let root = std::path::absolute(tree.root.path())
        .map_err(|error| Error::io(tree.root.side(), "find the root", &error))?;
    if tree.root.is_confined() && !names.is_empty() {
        let cause = "this login is confined to a directory, so files of rules above the root are not read";
        let error = Error::new(ErrorKind::PermissionDenied, tree.root.side(), READ, cause);
        return Err(error.with_hint("name the file without a directory: --filter 'dir-merge .rsync-filter'"));
    }
    look_above(root.as_os_str().as_bytes(), names, &mut |path| {
        tree.root.ops.one();
        let full = Path::new("/").join(OsStr::from_bytes(path.as_bytes()));
        let mut options = File::options();
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
        let read = options.open(&full).and_then(text);
        let read = read.map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error));
        match read {
            Ok(text) => Ok(text),
            Err((Some(Errno::NOENT | Errno::NOTDIR), _)) => Ok(None),
            Err((_, error)) => Err(Error::io(tree.root.side(), READ, &error).on(full.as_os_str().as_bytes())),
        }
    })
}

/// The rules of `dir`, whose parent has the rules `above`.
pub(crate) fn enter(
    tree: &LocalTree,
    filter: &Filter<'_>,
    above: &DirRules,
    dir: &RelPath,
) -> Result<DirRules> {
    let entered = filter.enter(above, dir, &mut |path| read(tree, path));
    entered.map_err(|error| error.with_side(tree.root.side()))
}

/// The rules of a directory anywhere in the tree.
pub(crate) fn enter_all(
    tree: &LocalTree,
    filter: &Filter<'_>,
    top: &DirRules,
    dir: &RelPath,
) -> Result<DirRules> {
    let entered = filter.enter_all(top, dir, &mut |path| read(tree, path));
    entered.map_err(|error| error.with_side(tree.root.side()))
}

/// Reads a file of rules; `None` if there is none.
fn read(tree: &LocalTree, path: &RelPath) -> Result<Option<Vec<u8>>> {
    let _doing = tree.doing(READ, path);
    let opened =
        tree.root.at(path).and_then(|at| tree.root.open(&at, path, OFlags::RDONLY | OFlags::NONBLOCK));
    match opened {
        // A socket or a device without a driver.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV) => Ok(None),
        Err(Errno::LOOP) => Err(tree.root.fault(ErrorKind::Unsupported, READ, path, IS_LINK)),
        Err(errno) => Err(tree.root.error(READ, path, errno)),
        Ok(opened) => text(File::from(opened)).map_err(|error| match error.raw_os_error() {
            Some(errno) => tree.root.error(READ, path, Errno::from_raw_os_error(errno)),
            None => tree.root.fault(ErrorKind::Io, READ, path, &error.to_string()),
        }),
    }
}

/// The text of a regular file; `None` for another kind. A file that is too long gives more than is allowed.
fn text(file: File) -> std::io::Result<Option<Vec<u8>>> {
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(MAX_RULES_LEN as u64 + 1).read_to_end(&mut text)?;
    Ok(Some(text))
}

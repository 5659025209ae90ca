//! Compares two trees by other programs than the one under test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::needs::tool;
use crate::tree::list;

/// Blocks that a sparse copy may have in addition to those of the original, since file systems lay out extents
/// differently.
const SPARSE_SLACK: u64 = 128 * 1024;

/// The changes that rsync would make to turn `copy` into `original`, one per line: content by checksum, types, owners,
/// modes, times to the nanosecond, links, devices, attributes, ACLs, and deletions. Then the sparse files that are not
/// sparse in the copy.
#[must_use]
pub fn differences(original: &Path, copy: &Path) -> Vec<String> {
    let slash = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push("/");
        path
    };
    assert!(original.is_dir() && copy.is_dir(), "both are directories: {original:?}, {copy:?}");
    let mut rsync = Command::new("rsync");
    rsync.args(["-naHAXic", "--delete", "--numeric-ids", "--modify-window=-1"]);
    // XFS also presents ACLs as attributes of its own; -A compares the ACLs.
    rsync.args(["--filter=-x system.*", "--filter=-x trusted.SGI_ACL_*"]);
    let printed = tool(rsync.arg(slash(original)).arg(slash(copy)));
    let mut found: Vec<String> = printed.lines().map(str::to_owned).collect();
    for path in list(original) {
        let (Ok(from), Ok(to)) =
            (fs::symlink_metadata(original.join(&path)), fs::symlink_metadata(copy.join(&path)))
        else {
            continue;
        };
        let sparse = from.is_file() && from.blocks() * 512 < from.len();
        if sparse && to.blocks() * 512 > from.blocks() * 512 + SPARSE_SLACK {
            found.push(format!("{path:?}: {} blocks in the copy, {} before", to.blocks(), from.blocks()));
        }
    }
    found
}

/// Fails unless `copy` equals `original` and no staging file is in or beside it.
pub fn assert_same_tree(original: &Path, copy: &Path) {
    let found = differences(original, copy);
    let short = |line: &String| line.chars().take(200).collect::<String>();
    let shown: Vec<String> = found.iter().take(40).map(short).collect();
    assert!(found.is_empty(), "{} differences from {original:?} in {copy:?}: {shown:#?}", found.len());
    if let Some(parent) = copy.parent() {
        assert_no_debris(parent);
    }
}

/// Fails if `dir` contains a staging name of haul.
pub fn assert_no_debris(dir: &Path) {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let debris: Vec<_> = names.filter(|name| name.as_bytes().starts_with(b".haul")).collect();
    assert!(debris.is_empty(), "left over in {dir:?}: {debris:?}");
}

/// Fails if a file of `copy` differs in content or modification time from the file of this name in `original`, or if
/// another file has a name that is not a staging name. Can be used while a copy is running.
pub fn assert_no_half_files(original: &Path, copy: &Path) {
    for path in list(copy) {
        let Ok(meta) = fs::symlink_metadata(copy.join(&path)) else { continue };
        if !meta.is_file() {
            continue;
        }
        let Ok(wanted) = fs::symlink_metadata(original.join(&path)) else {
            let staged = path.components().any(|part| part.as_os_str().as_bytes().starts_with(b".haul"));
            assert!(staged, "{path:?} is in {copy:?}, and neither of the original nor staged");
            continue;
        };
        let Ok(opened) = File::open(copy.join(&path)) else { continue };
        assert_eq!(meta.len(), wanted.len(), "{path:?} bears its final name and has another length");
        let times = |meta: &fs::Metadata| (meta.mtime(), meta.mtime_nsec());
        assert_eq!(times(&meta), times(&wanted), "{path:?} bears its final name and has another time");
        let original = File::open(original.join(&path)).unwrap();
        assert!(same_bytes(original, opened), "{path:?} bears its final name and has other content");
    }
}

fn same_bytes(mut one: File, mut other: File) -> bool {
    let (mut left, mut right) = (vec![0; 1 << 18], vec![0; 1 << 18]);
    loop {
        let read = one.read(&mut left).unwrap();
        if other.read_exact(&mut right[..read]).is_err() || left[..read] != right[..read] {
            return false;
        }
        if read == 0 {
            return other.read(&mut right).unwrap() == 0;
        }
    }
}

/// Inode, change time and modification time of `root` and of every entry below it, which show whether an entry was
/// touched.
#[must_use]
pub fn fingerprint(root: &Path) -> BTreeMap<std::path::PathBuf, [i64; 5]> {
    let of = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        [meta.ino() as i64, meta.ctime(), meta.ctime_nsec(), meta.mtime(), meta.mtime_nsec()]
    };
    let mut all: BTreeMap<_, _> =
        list(root).into_iter().map(|path| (path.clone(), of(&root.join(path)))).collect();
    all.insert(".".into(), of(root));
    all
}

//! Tests of setting metadata.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use haul_core::{Changes, OwnerNames, Side, Timestamp};

use super::*;
use crate::path::place::RootEntry;
use crate::path::root::Root;

fn tree(dir: &Path) -> LocalTree {
    LocalTree::new(Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default()))
}

fn metadata(options: &SinkOptions) -> MetadataSetter {
    MetadataSetter::new(options, Arc::default())
}

/// An entry for a file of this user.
fn entry(kind: EntryKind) -> Entry {
    let time = Timestamp { sec: 1_000_000_000, nsec: 123_456_789 };
    Entry {
        mtime: time,
        atime: time,
        mode: 0o640,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..Entry::new(RelPath::new(b"f").unwrap(), kind, 0)
    }
}

fn expected(path: &Path) -> ExpectedFile {
    let now = fs::symlink_metadata(path).unwrap();
    ExpectedFile::Inode(now.dev(), now.ino())
}

fn xattr(name: &str, value: &str) -> Xattr {
    (name.as_bytes().to_vec().into(), value.as_bytes().to_vec().into())
}

#[test]
fn metadata_is_set_once_and_is_the_same_then() {
    // On the disk of the build, which has attributes.
    let dir = tempfile::tempdir_in(".").unwrap();
    let (tree, metadata) = (tree(dir.path()), metadata(&SinkOptions::default()));
    let file = dir.path().join("f");
    fs::write(&file, "").unwrap();
    rustix::fs::setxattr(&file, "user.old", b"x", rustix::fs::XattrFlags::empty()).unwrap();
    let entry = Entry { xattrs: vec![xattr("user.new", "y")], ..entry(EntryKind::File) };
    let at = tree.root.at(&entry.path).unwrap();
    let is_same = || metadata.changes(&tree, &at, &stat::statx(&at).unwrap(), &entry).unwrap().is_empty();
    assert!(!is_same());
    assert_eq!(metadata.set_named(&at, expected(&file), &entry), Ok(true));
    assert!(is_same());
    assert_eq!(metadata.set_named(&at, expected(&file), &entry), Ok(false), "nothing differs");
    let now = fs::metadata(&file).unwrap();
    assert_eq!((now.mode() & 0o7777, now.mtime(), now.mtime_nsec()), (0o640, 1_000_000_000, 123_456_789));
    let mut names = [0_u8; 64];
    let len = rustix::fs::listxattr(&file, &mut names[..]).unwrap();
    assert_eq!(&names[..len], b"user.new\0");
    assert_eq!(metadata.warnings(), []);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!is_same());
}

#[test]
fn a_replaced_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, metadata) = (tree(dir.path()), metadata(&SinkOptions::default()));
    let file = dir.path().join("f");
    fs::write(&file, "").unwrap();
    let before = expected(&file);
    fs::rename(&file, dir.path().join("moved")).unwrap();
    fs::write(&file, "").unwrap();
    let entry = entry(EntryKind::File);
    let at = tree.root.at(&entry.path).unwrap();
    assert_eq!(metadata.set_named(&at, before, &entry), Err(REPLACED));
    let fifo = ExpectedFile::Made(FileType::Fifo);
    assert_eq!(metadata.set_named(&at, fifo, &entry), Err(REPLACED));
    fs::hard_link(&file, dir.path().join("second")).unwrap();
    let made = ExpectedFile::Made(FileType::RegularFile);
    assert_eq!(metadata.set_named(&at, made, &entry), Err(REPLACED), "it has a second name");
    assert_ne!(fs::metadata(&file).unwrap().mtime(), entry.mtime.sec);
}

#[test]
fn the_metadata_of_a_symbolic_link_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, metadata) = (tree(dir.path()), metadata(&SinkOptions::default()));
    fs::write(dir.path().join("target"), "").unwrap();
    let link = dir.path().join("f");
    std::os::unix::fs::symlink("target", &link).unwrap();
    let entry = Entry { mode: 0o777, ..entry(EntryKind::Symlink(b"target".to_vec())) };
    let at = tree.root.at(&entry.path).unwrap();
    assert_eq!(metadata.set_named(&at, expected(&link), &entry), Ok(true));
    assert_eq!(fs::symlink_metadata(&link).unwrap().mtime(), 1_000_000_000);
    assert_ne!(fs::metadata(dir.path().join("target")).unwrap().mtime(), 1_000_000_000);
}

#[test]
fn the_times_of_a_direct_file_come_last() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = metadata(&SinkOptions::default());
    let path = dir.path().join("f");
    let file = fs::File::create(&path).unwrap();
    let now = stat::statx_file(&file).unwrap();
    let written = WrittenFile { file: &file, now: &now, has_no_xattrs: true, replaces: Replaces::Itself };
    let entry = entry(EntryKind::File);
    metadata.set_written_without_times(&written, &entry).unwrap();
    let set = || fs::metadata(&path).unwrap();
    assert_eq!(set().mode() & 0o777, 0o640);
    assert_ne!(set().mtime(), entry.mtime.sec);
    metadata.finish(&file, &entry).unwrap();
    assert_eq!(set().mtime(), entry.mtime.sec);
}

#[test]
fn owners_are_found_by_name_if_the_options_say_so() {
    let names = OwnerNames { user: b"root".to_vec(), group: b"no-such-group".to_vec() };
    let entry = Entry { uid: 77, gid: 78, names: Some(Box::new(names)), ..entry(EntryKind::File) };
    assert_eq!(
        metadata(&SinkOptions { owner_by_name: true, ..SinkOptions::default() }).owner(&entry),
        (0, 78)
    );
    assert_eq!(
        metadata(&SinkOptions { owner_by_name: false, ..SinkOptions::default() }).owner(&entry),
        (77, 78)
    );
}

#[test]
fn metadata_not_preserved_is_neither_compared_nor_set() {
    // On the disk of the build, which has attributes.
    let dir = tempfile::tempdir_in(".").unwrap();
    let none = Preserve::NOTHING;
    let metadata = metadata(&SinkOptions { preserve: none, ..SinkOptions::default() });
    let tree = tree(dir.path());
    let file = dir.path().join("f");
    fs::write(&file, "").unwrap();
    rustix::fs::setxattr(&file, "user.own", b"x", rustix::fs::XattrFlags::empty()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    let other = entry(EntryKind::File);
    let other = Entry { uid: 77, gid: 78, xattrs: vec![xattr("user.new", "y")], ..other };
    let at = tree.root.at(&other.path).unwrap();
    let now = || stat::statx(&at).unwrap();
    let before = now();
    assert_eq!(metadata.changes(&tree, &at, &before, &other), Ok(Changes::NONE));
    let opened = fs::File::options().write(true).open(&file).unwrap();
    let replaces = Replaces::Itself;
    let written = WrittenFile { file: &opened, now: &before, has_no_xattrs: false, replaces };
    metadata.set_written(&written, &other).unwrap();
    assert_eq!((stat::mode(&now()), now().stx_uid), (0o604, before.stx_uid));
    assert_eq!(stat::mtime(&now()), stat::mtime(&before));
    // A file that replaces this one gets its mode, a new one that of the source within the umask.
    let staged = dir.path().join("staged");
    let opened = fs::File::create(&staged).unwrap();
    let first = stat::statx_file(&opened).unwrap();
    let missing = At { dir: at.dir.clone(), name: b"missing".to_vec() };
    for (replaces, mode) in
        [(Replaces::Name(&at), 0o604), (Replaces::Name(&missing), new_mode(&missing, &other))]
    {
        let written = WrittenFile { file: &opened, now: &first, has_no_xattrs: true, replaces };
        metadata.set_written(&written, &other).unwrap();
        assert_eq!(fs::metadata(&staged).unwrap().mode() & 0o7777, mode);
    }
    assert_eq!(metadata.warnings(), []);
}

#[test]
fn a_file_without_its_owner_has_no_set_id_bits() {
    let dir = tempfile::tempdir().unwrap();
    let preserve = Preserve { owner: false, group: false, ..Preserve::default() };
    let metadata = metadata(&SinkOptions { preserve, ..SinkOptions::default() });
    let tree = tree(dir.path());
    let file = dir.path().join("f");
    fs::write(&file, "").unwrap();
    let mine = entry(EntryKind::File);
    let entry = Entry { mode: 0o4755, uid: mine.uid + 1, ..mine };
    let at = tree.root.at(&entry.path).unwrap();
    assert_eq!(metadata.set_named(&at, expected(&file), &entry), Ok(true));
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(metadata.changes(&tree, &at, &stat::statx(&at).unwrap(), &entry), Ok(Changes::NONE));
}

#[test]
fn refusals_are_warnings_and_failures_are_errors() {
    let metadata = metadata(&SinkOptions::default());
    let path = RelPath::new(b"f").unwrap();
    metadata.warn_refusal("mode", Errno::PERM, &path).unwrap();
    metadata.warn_refusal("mode", Errno::PERM, &RelPath::root()).unwrap();
    assert_eq!(metadata.warn_refusal("mode", Errno::IO, &path), Err(Errno::IO));
    let entry = entry(EntryKind::File);
    assert_eq!(metadata.tried_xattr(b"user.a", Ok(()), &entry), Ok(true));
    assert_eq!(metadata.tried_xattr(b"user.a", Err(Errno::NOSPC), &entry), Ok(false));
    assert_eq!(metadata.tried_xattr(b"user.a", Err(Errno::IO), &entry), Err(Errno::IO));
    let warnings = metadata.warnings();
    assert_eq!(
        warnings.iter().map(|one| (&one.what[..], one.count)).collect::<Vec<_>>(),
        [("attribute user.a", 1), ("mode", 2)]
    );
    assert_eq!(warnings[1].example, path, "the first one");
}

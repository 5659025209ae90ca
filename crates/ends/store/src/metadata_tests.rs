//! Entries as metadata of objects, and back.

use super::*;

/// With the recorded digest.
fn read_recorded(path: &RelPath, object: &Object, directory: bool) -> Entry {
    read(path, object, directory, digest(object).as_ref())
}

fn entry(kind: EntryKind) -> Entry {
    Entry {
        path: RelPath::new(b"a/b").unwrap(),
        len: if kind == EntryKind::File { 7 } else { 0 },
        kind,
        mtime: Timestamp { sec: -1, nsec: 500_000_000 },
        atime: Timestamp { sec: 4_102_444_800, nsec: 1 },
        ctime: None,
        mode: 0o4755,
        uid: 4_000_000_000,
        gid: 7,
        names: None,
        dev: 0,
        ino: 0,
        nlink: 1,
        allocated: 0,
        xattrs: Vec::new(),
    }
}

fn is_same(object: &Object, entry: &Entry) -> bool {
    super::is_same(object, entry, &Preserve::default())
}

fn object(entry: &Entry, attributes: bool) -> Object {
    let digest = Digest::of(b"content");
    let kind = ObjectKind::Az;
    let own =
        ObjectMetadata { kind, entry, digest: Some(&digest), preserve: &Preserve::default(), there: None };
    let metadata = own.write(attributes);
    Object { len: entry.len, etag: "\"e\"".to_owned(), metadata, ..Object::default() }
}

#[test]
fn metadata_round_trips() {
    let pair = |name: &[u8], value: &[u8]| (ByteBuf::from(name), ByteBuf::from(value));
    let names = [&b"user.a"[..], b"user.ab", b"user.abc", b"user.abcd"];
    let values = [&b""[..], b"1", b"12", b"123", &[0, 255, 10, b'=']];
    for kind in [
        EntryKind::File,
        EntryKind::Symlink(b"../\xff\n".to_vec()),
        EntryKind::Fifo,
        EntryKind::Socket,
        EntryKind::CharDevice(259),
        EntryKind::BlockDevice(1 << 40),
    ] {
        let mut entry = entry(kind);
        for (name, value) in names.iter().flat_map(|name| values.iter().map(move |value| (name, value))) {
            entry.xattrs = vec![pair(name, value), pair(b"user.z", b"z")];
            let object = object(&entry, true);
            let back = read_recorded(&entry.path, &object, false);
            assert!(is_same(&object, &entry));
            assert_eq!(back, Entry { ino: back.ino, ..entry.clone() });
        }
    }
}

#[test]
fn attributes_too_long_for_the_store_count_as_unchanged_until_they_change() {
    let mut entry = entry(EntryKind::File);
    entry.xattrs = vec![(ByteBuf::from(b"user.a"), ByteBuf::from(b"long"))];
    let object = object(&entry, false);
    assert!(read_recorded(&entry.path, &object, false).xattrs.is_empty() && is_same(&object, &entry));
    entry.xattrs[0].1 = ByteBuf::from(b"other");
    assert!(!is_same(&object, &entry));
}

#[test]
fn metadata_not_taken_over_is_neither_recorded_nor_compared() {
    let pair = |name: &[u8], value: &[u8]| (ByteBuf::from(name), ByteBuf::from(value));
    let none = Preserve::NOTHING;
    let entry = Entry { xattrs: vec![pair(b"user.a", b"x")], ..entry(EntryKind::File) };
    let kind = ObjectKind::S3;
    let own = ObjectMetadata { kind, entry: &entry, digest: None, preserve: &none, there: None };
    let names = |own: &ObjectMetadata<'_>| -> Vec<(String, String)> {
        own.write(true).into_iter().filter(|(name, _)| ![LENGTH, ALLOCATED].contains(&&name[..])).collect()
    };
    assert_eq!(names(&own), [("mode".to_owned(), "100644".to_owned())]);
    let there = object(&Entry { mode: 0o600, uid: 8, xattrs: Vec::new(), ..entry.clone() }, true);
    assert!(super::is_same(&there, &entry, &none) && !is_same(&there, &entry));
    // An update of other metadata keeps the recorded metadata.
    let other = Preserve { xattrs: true, ..none };
    assert!(!super::is_same(&there, &entry, &other));
    let own = ObjectMetadata { kind, entry: &entry, digest: None, preserve: &other, there: Some(&there) };
    let updated = Object { metadata: own.write(true), ..there.clone() };
    let back = read_recorded(&entry.path, &updated, false);
    assert_eq!((back.mode, back.uid, back.mtime, back.xattrs.len()), (0o600, 8, entry.mtime, 1));
    let unowned = Preserve { owner: false, ..Preserve::default() };
    let own = ObjectMetadata { kind, entry: &entry, digest: None, preserve: &unowned, there: None };
    assert!(own.write(true).contains(&("mode".to_owned(), "100755".to_owned())), "no set-ID bits");
}

#[test]
fn names_of_one_file_share_an_inode_only_with_the_same_content() {
    let first = Entry { nlink: 2, dev: 5, ino: 6, ..entry(EntryKind::File) };
    let one = object(&first, true);
    let mut other = one.clone();
    "\"f\"".clone_into(&mut other.etag);
    let id = |object: &Object| {
        let entry = read_recorded(&first.path, object, false);
        (entry.dev, entry.ino, entry.nlink)
    };
    assert_eq!(id(&one), id(&other));
    let digest = Digest::of(b"else");
    let kind = ObjectKind::S3;
    let own = ObjectMetadata {
        kind,
        entry: &first,
        digest: Some(&digest),
        preserve: &Preserve::default(),
        there: None,
    };
    other.metadata = own.write(true);
    assert_ne!(id(&one), id(&other));
}

#[test]
fn metadata_of_other_tools_is_read() {
    let note = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let metadata = vec![note("mtime", "1700000000.25"), note("mode", "100640"), note("uid", "5")];
    let modified = "Wed, 21 Oct 2015 07:28:00 GMT".to_owned();
    let rclone = Object { len: 3, modified: modified.clone(), metadata, ..Object::default() };
    let path = RelPath::new(b"x").unwrap();
    let back = read_recorded(&path, &rclone, false);
    assert_eq!(
        (back.mtime, back.mode, back.uid),
        (Timestamp { sec: 1_700_000_000, nsec: 250_000_000 }, 0o640, 5)
    );
    // On other stores than S3 rclone writes a date.
    let dated = vec![note("mtime", "2023-11-14T22:13:20.250000000Z")];
    assert_eq!(read_recorded(&path, &Object { metadata: dated, ..rclone.clone() }, false).mtime, back.mtime);
    let bare = read_recorded(&path, &Object { metadata: Vec::new(), ..rclone }, false);
    assert_eq!((bare.mtime.sec, bare.mode, &bare.kind), (1_445_412_480, 0o644, &EntryKind::File));
    assert_eq!(
        super::modified("2015-10-21T07:28:00.5Z"),
        Some(Timestamp { sec: 1_445_412_480, nsec: 500_000_000 })
    );
    for bad in ["", "x", "1.x", "-", "1e5", "99999999999999999999"] {
        assert_eq!(time_of(bad), None, "{bad}");
    }
}

#[test]
fn the_record_of_a_stream_goes_from_store_to_store_and_nowhere_else() {
    let note = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let stream = note("haul-encoding", "zstd");
    let plain = entry(EntryKind::File);
    let mut from = object(&plain, true);
    from.metadata.push(stream.clone());
    let read = read_recorded(&plain.path, &from, false);
    let all = Preserve::default();
    assert_eq!((read.xattrs.len(), all.xattrs_of(&read.xattrs).count()), (1, 0), "no file gets it");
    // Without attributes, too, a copy is the stream that it was.
    let none = Preserve { xattrs: false, acls: false, ..all };
    let own =
        ObjectMetadata { kind: ObjectKind::S3, entry: &read, digest: None, preserve: &none, there: None };
    let copied = own.write(true);
    assert!(copied.contains(&stream) && !copied.iter().any(|(name, _)| name == XATTRS));
    // A copy of an earlier release lacks it. A file that has the stored bytes takes it away from no object.
    assert!(!is_same(&object(&plain, true), &read) && is_same(&from, &read) && is_same(&from, &plain));
    let there = Some(&from);
    let own = ObjectMetadata { kind: ObjectKind::S3, entry: &plain, digest: None, preserve: &all, there };
    assert!(own.write(true).contains(&stream));
    // But an upload that another stream began must not name its encoding.
    assert!(!remove_other_stream(&mut from.clone(), &read));
    assert!(remove_other_stream(&mut from, &plain) && !from.metadata.contains(&stream));
}

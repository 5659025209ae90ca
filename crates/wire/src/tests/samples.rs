//! One message of each kind, with something in every field.

use std::sync::Arc;

use haul_core::source::ScanBatch;
use haul_core::{
    Answer, Batch, ChainingValue, Compare, Compress, Digest, Entry, EntryKind, Error, ErrorKind, Extent,
    Failure, FinishReport, HardLink, Left, MetaNote, Method, Offer, Outcome, OwnerNames, Packing, Place,
    PlaceRoot, RelPath, Retry, ScanOptions, Side, SinkOptions, Slice, SliceData, Timestamp,
};

use crate::{Hello, Request, Response, ScanPart, Welcome};

pub(super) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(super) fn entry(name: &str, kind: EntryKind) -> Entry {
    Entry {
        path: path(name),
        kind,
        len: 5_000_000,
        mtime: Timestamp { sec: -1, nsec: 999_999_999 },
        atime: Timestamp { sec: 1_700_000_000, nsec: 1 },
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        names: Some(Box::new(OwnerNames { user: b"me".to_vec(), group: b"us".to_vec() })),
        dev: 66306,
        ino: 1 << 40,
        nlink: 2,
        allocated: 4096,
        xattrs: vec![(
            serde_bytes::ByteBuf::from(b"user.a".to_vec()),
            serde_bytes::ByteBuf::from(b"\0\xff".to_vec()),
        )],
    }
}

pub(super) fn batch() -> Batch {
    Batch {
        entries: vec![Arc::new(entry("a/b", EntryKind::File))],
        slices: vec![Slice { entry: 0, index: 1 }, Slice { entry: 0, index: 0 }],
    }
}

pub(super) fn read() -> Vec<haul_core::Result<SliceData>> {
    let extents = vec![Extent { start: 0, len: 10 }, Extent { start: 4096, len: 7 }];
    vec![Ok(SliceData { extents, value: ChainingValue([7; 32]) }), Err(error())]
}

/// Bytes of content in [`read`].
pub(super) const CONTENT: usize = 17;

/// How [`CONTENT`] became [`PACKED`] bytes.
pub(super) const PACKING: Option<Packing> = Some(Packing { method: Method::Zstd(-3), plain_len: 17 });

/// Bytes of content in [`read`] once it is packed.
pub(super) const PACKED: usize = 9;

pub(super) fn error() -> Error {
    Error::new(ErrorKind::SourceChanged, Side::Source, "read", "it changed")
        .on(b"x\xff")
        .with_retry(Retry::Again)
        .with_hint("later")
}

pub(super) fn hello() -> Hello {
    Hello {
        version: 1,
        release: "0.1.0".to_owned(),
        session: Some([0xab; 16]),
        fresh: true,
        max_memory: 1 << 30,
        lanes: 16,
        timeout: 30,
    }
}

pub(super) fn welcomes() -> [Welcome; 2] {
    let welcome = |session| Welcome { version: 1, release: "0.1.0".to_owned(), session };
    [welcome(Ok([0xcd; 16])), welcome(Err("no".to_owned()))]
}

pub(super) fn requests() -> Vec<Request> {
    let place = Place { path: b"~/x".to_vec(), root: PlaceRoot::InsideIfDir(b"y".to_vec()) };
    let paths = vec![path("a/b"), path("")];
    let offer = Offer {
        entry: Arc::new(entry("a", EntryKind::Symlink(b"to".to_vec()))),
        digest: Some(Digest([3; 32])),
    };
    vec![
        Request::Nothing,
        Request::OpenSource { root: 1, place: place.clone() },
        Request::OpenSink {
            root: 2,
            place,
            options: SinkOptions { compare: Compare::Checksum, update: true, ..SinkOptions::default() },
        },
        Request::Close { root: 3 },
        Request::Root { root: 4 },
        Request::ScanStart {
            root: 5,
            scan: 6,
            options: ScanOptions {
                starts: paths.clone(),
                min_size: Some(1),
                one_file_system: true,
                ..ScanOptions::default()
            },
        },
        Request::ScanNext { scan: 6, part: 300, acked: 299 },
        Request::ScanEnd { scan: 6 },
        Request::Lookup { root: 7, paths: paths.clone() },
        Request::Read { root: 8, batch: Arc::new(batch()), compress: Compress::Never },
        Request::Read { root: 8, batch: Arc::new(batch()), compress: Compress::Always(Method::Lz4) },
        Request::Digest { root: 9, paths: paths.clone() },
        Request::Offer { root: 10, offers: vec![offer] },
        Request::Write { root: 11, batch: Arc::new(batch()), slices: read(), packing: None },
        Request::Write { root: 11, batch: Arc::new(batch()), slices: read(), packing: PACKING },
        Request::Flush { root: 12 },
        Request::Discard { root: 13, paths: paths.clone() },
        Request::Link {
            root: 14,
            links: vec![HardLink { entry: Arc::new(entry("l", EntryKind::File)), to: path("a/b") }],
        },
        Request::Remove { root: 15, paths },
        Request::Finish { root: 16 },
    ]
}

pub(super) fn responses() -> Vec<Response> {
    let found = ScanBatch {
        entries: vec![entry("d", EntryKind::Dir), entry("n", EntryKind::BlockDevice(2049))],
        errors: vec![Failure { path: path("e"), error: error() }],
        excluded: 9,
    };
    let note = MetaNote { what: "owner".to_owned(), cause: "no".to_owned(), count: 3, example: path("a") };
    vec![
        Response::Done,
        Response::Failed(error()),
        Response::TooLarge,
        Response::Gone,
        Response::Root(Some(entry("", EntryKind::Dir))),
        Response::Scan(ScanPart { found, last: true }),
        Response::Lookup(vec![Ok(None), Ok(Some(entry("f", EntryKind::Fifo))), Err(error())]),
        Response::Read { slices: read(), packing: None },
        Response::Read { slices: read(), packing: PACKING },
        Response::Digest(vec![Ok(Digest([9; 32])), Err(error())]),
        Response::Answers(vec![
            Ok(Answer::Same),
            Ok(Answer::Updated),
            Ok(Answer::Made),
            Ok(Answer::Need { new: false, have: vec![0..2, 5..6] }),
            Ok(Answer::Left(Left::Newer)),
            Err(error()),
        ]),
        Response::Write(vec![
            Ok(Outcome::Stored),
            Ok(Outcome::Committed(Some(Digest([4; 32])))),
            Err(error()),
        ]),
        Response::Removed(vec![Ok(()), Err(error())]),
        Response::Finish(FinishReport { notes: vec![note] }),
    ]
}

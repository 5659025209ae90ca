//! Whatever can be said arrives as it was said, and no bytes bring the decoder down.

use std::sync::Arc;

use haul_core::{
    Answer, Batch, ChainingValue, Changes, Compress, Digest, Entry, EntryKind, Error, ErrorKind, Extent,
    Method, Offer, Outcome, Packing, PageHashes, RelPath, Retry, Side, Slice, SliceData, Timestamp,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use crate::{
    FrameHeader, FrameKind, HEADER_LEN, Hello, Request, Response, Welcome, check, decode_body, encode,
};

fn path() -> impl Strategy<Value = RelPath> {
    vec(vec(1_u8..255, 1..20), 0..5).prop_map(|parts| {
        let parts: Vec<Vec<u8>> = parts
            .into_iter()
            .map(|p| p.into_iter().map(|b| if b == b'/' { b'x' } else { b }).collect())
            .collect();
        RelPath::new(&parts.join(&b'/')).unwrap_or_default()
    })
}

fn kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        Just(EntryKind::File),
        Just(EntryKind::Dir),
        vec(any::<u8>(), 0..50).prop_map(EntryKind::Symlink),
        Just(EntryKind::Fifo),
        Just(EntryKind::Socket),
        any::<u64>().prop_map(EntryKind::CharDevice),
        any::<u64>().prop_map(EntryKind::BlockDevice),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let time = (any::<i64>(), 0_u32..1_000_000_000).prop_map(|(sec, nsec)| Timestamp { sec, nsec });
    let bytes = || vec(any::<u8>(), 0..30).prop_map(serde_bytes::ByteBuf::from);
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    (path(), kind(), time, numbers, vec((bytes(), bytes()), 0..4)).prop_map(
        |(path, kind, mtime, (len, mode, uid, gid, ino, nlink), xattrs)| Entry {
            path,
            kind,
            len,
            mtime,
            atime: mtime,
            ctime: (ino % 2 == 0).then_some(mtime),
            mode,
            uid,
            gid,
            names: None,
            dev: ino ^ len,
            ino,
            nlink,
            allocated: len / 2,
            xattrs,
        },
    )
}

fn error() -> impl Strategy<Value = Error> {
    let kind = prop_oneof![Just(ErrorKind::Corrupt), Just(ErrorKind::NoSpace), Just(ErrorKind::Io)];
    (kind, any::<String>(), vec(any::<u8>(), 0..40), option::of(any::<String>())).prop_map(
        |(kind, cause, subject, hint)| {
            let error = Error::new(kind, Side::Destination, "write", cause).on(subject);
            let error = error.with_retry(Retry::OtherStream);
            if let Some(hint) = hint { error.with_hint(hint) } else { error }
        },
    )
}

fn value() -> impl Strategy<Value = ChainingValue> {
    any::<[u8; 32]>().prop_map(ChainingValue)
}

fn slices() -> impl Strategy<Value = Vec<haul_core::Result<SliceData>>> {
    let extent = (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(start, len, same)| Extent {
        start,
        len,
        same,
    });
    let data = (vec(extent, 0..5), value()).prop_map(|(extents, value)| SliceData { extents, value });
    vec(prop_oneof![data.prop_map(Ok), error().prop_map(Err)], 0..10)
}

fn batch() -> impl Strategy<Value = Arc<Batch>> {
    let slice = (any::<u32>(), any::<u32>(), any::<Option<u8>>()).prop_map(|(entry, index, part)| Slice {
        entry,
        index,
        part,
    });
    (vec(entry().prop_map(Arc::new), 0..10), vec(slice, 0..10), any::<bool>())
        .prop_map(|(entries, slices, again)| Arc::new(Batch { entries, slices, again }))
}

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![Just(Method::Lz4), any::<i8>().prop_map(Method::Zstd)]
}

fn packing() -> impl Strategy<Value = Option<Packing>> {
    option::of((method(), any::<u32>()).prop_map(|(method, plain_len)| Packing { method, plain_len }))
}

fn compress() -> impl Strategy<Value = Compress> {
    prop_oneof![Just(Compress::Auto), Just(Compress::Never), method().prop_map(Compress::Always)]
}

fn pages() -> impl Strategy<Value = PageHashes> {
    vec(value(), 0..300).prop_map(|values| {
        let mut pages = PageHashes::default();
        values.iter().for_each(|value| pages.push(value));
        pages
    })
}

fn request() -> impl Strategy<Value = Request> {
    let digest = || option::of(any::<[u8; 32]>().prop_map(Digest));
    let offer = (entry(), digest()).prop_map(|(entry, digest)| Offer { entry: Arc::new(entry), digest });
    prop_oneof![
        (any::<u32>(), batch(), slices(), packing(), any::<bool>()).prop_map(
            |(root, batch, slices, packing, proof_follows)| {
                Request::Write { root, batch, slices, packing, proof_follows }
            }
        ),
        (any::<u32>(), batch(), option::of(pages()), compress(), any::<bool>()).prop_map(
            |(root, batch, pages, compress, proof_may_follow)| Request::Read {
                root,
                batch,
                pages,
                compress,
                proof_may_follow
            }
        ),
        (any::<u32>(), entry().prop_map(Arc::new), any::<std::ops::Range<u32>>())
            .prop_map(|(root, entry, slices)| Request::PageHashes { root, entry, slices }),
        (any::<u32>(), vec(offer, 0..10)).prop_map(|(root, offers)| Request::Offer { root, offers }),
        (any::<u32>(), vec(path(), 0..20)).prop_map(|(root, paths)| Request::Remove { root, paths }),
        (any::<u32>(), vec(entry(), 0..5))
            .prop_map(|(root, entries)| Request::RemoveUnchanged { root, entries }),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(scan, part, acked)| Request::ScanNext {
            scan,
            part,
            acked
        }),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    let answer = prop_oneof![
        Just(Answer::Same),
        (any::<u16>(), vec(any::<std::ops::Range<u32>>(), 0..5))
            .prop_map(|(bits, have)| Answer::Need { changes: Changes::from(bits), have }),
    ];
    let outcome = prop_oneof![
        Just(Outcome::Stored),
        any::<[u8; 32]>().prop_map(|d| Outcome::Committed(Some(Digest(d))))
    ];
    prop_oneof![
        error().prop_map(Response::Failed),
        vec(pages(), 0..5).prop_map(Response::PageHashes),
        (slices(), packing(), option::of(any::<u64>()), any::<bool>()).prop_map(
            |(slices, packing, ended, proof_follows)| Response::Read {
                slices,
                packing,
                ended,
                proof_follows
            }
        ),
        (vec(any::<u8>(), 0..20), any::<bool>())
            .prop_map(|(text, ended)| Response::Said(haul_core::Said { text, ended })),
        vec(prop_oneof![answer.prop_map(Ok), error().prop_map(Err)], 0..10).prop_map(Response::Answers),
        vec(prop_oneof![outcome.prop_map(Ok), error().prop_map(Err)], 0..10).prop_map(Response::Write),
        vec(prop_oneof![option::of(entry()).prop_map(Ok), error().prop_map(Err)], 0..10)
            .prop_map(Response::Lookup),
    ]
}

proptest! {
    #[test]
    fn requests(message in request(), id: u64, content in 0..crate::MAX_PAYLOAD) {
        let frame = encode(FrameKind::Request, id, &message, content).unwrap();
        let header = FrameHeader::decode(frame.first_chunk().unwrap()).unwrap();
        prop_assert_eq!((header.kind, header.id, header.payload_len as usize), (FrameKind::Request, id, content));
        header.check_body(&frame[HEADER_LEN..]).unwrap();
        prop_assert_eq!(decode_body::<Request>(&frame[HEADER_LEN..]).unwrap(), message);
    }

    #[test]
    fn responses(message in response(), id: u64) {
        let frame = encode(FrameKind::Response, id, &message, 0).unwrap();
        FrameHeader::decode(frame.first_chunk().unwrap()).unwrap().check_body(&frame[HEADER_LEN..]).unwrap();
        prop_assert_eq!(decode_body::<Response>(&frame[HEADER_LEN..]).unwrap(), message);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400), content in 0_usize..100) {
        if let Some(head) = bytes.first_chunk() {
            let _ = FrameHeader::decode(head);
        }
        let _ = decode_body::<Hello>(&bytes);
        let _ = decode_body::<Welcome>(&bytes);
        let _ = crate::peek_version(&bytes);
        if let Ok(request) = decode_body::<Request>(&bytes) {
            let _ = check::request(&request, content);
        }
        if let Ok(response) = decode_body::<Response>(&bytes) {
            let _ = check::response(&response, None, content);
        }
    }

    #[test]
    fn damaged_messages(message in request(), at: proptest::sample::Index, xor in 1_u8..) {
        let mut frame = encode(FrameKind::Request, 1, &message, 0).unwrap();
        let at = at.index(frame.len() - HEADER_LEN) + HEADER_LEN;
        frame[at] ^= xor;
        let header = FrameHeader::decode(frame.first_chunk().unwrap()).unwrap();
        assert!(header.check_body(&frame[HEADER_LEN..]).is_err());
        // And if somebody made the checksum fit, the decoder stands it.
        if let Ok(request) = decode_body::<Request>(&frame[HEADER_LEN..]) {
            let _ = check::request(&request, 0);
        }
    }
}

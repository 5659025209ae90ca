//! Messages that break a rule are refused.

use std::sync::Arc;

use haul_core::buffer::BUFFER_LEN;
use haul_core::delta::SLICE_PAGES;
use haul_core::probe::{MAX_SAMPLES, ProbeTask, ReadSample};
use haul_core::slice::MAX_BATCH_SLICES;
use haul_core::{
    Batch, ChainingValue, Compress, EntryKind, Extent, Packing, PageHashes, Place, PlaceRoot, RelPath, Slice,
    SliceData,
};

use super::samples::{CONTENT, PACKED, PACKING, batch, changed, entry, pages, read};
use crate::{FrameError, MAX_COMPARED, MAX_PAYLOAD, Request, Response, check, decode_body};

fn write(batch: Batch, slices: Vec<haul_core::Result<SliceData>>) -> Request {
    Request::Write { root: 1, batch: Arc::new(batch), slices, packing: None, proof_follows: false }
}

fn read_request(batch: Batch) -> Request {
    Request::Read {
        root: 1,
        batch: Arc::new(batch),
        pages: None,
        compress: Compress::Auto,
        proof_may_follow: false,
    }
}

fn answer() -> Response {
    Response::Read { slices: read(), packing: None, ended: None, proof_follows: false }
}

#[test]
fn writes_and_reads_are_checked_against_their_content() {
    assert_eq!(check::request(&write(batch(), read()), CONTENT), Ok(()));
    assert_eq!(check::response(&answer(), Some(&batch()), CONTENT), Ok(()));
    let refused =
        |request: &Request, len| assert!(matches!(check::request(request, len), Err(FrameError::Rule(_))));
    for len in [0, CONTENT - 1, CONTENT + 1] {
        refused(&write(batch(), read()), len);
        assert!(check::response(&answer(), Some(&batch()), len).is_err());
    }
    refused(&write(batch(), read()[..1].to_vec()), CONTENT);
    refused(&write(batch(), Vec::new()), 0);

    let with_extents = |extents: &[(u32, u32)]| {
        let mut read = read();
        if let Ok(data) = &mut read[0] {
            data.extents = extents.iter().map(|&(start, len)| Extent::data(start, len)).collect();
        }
        write(batch(), read)
    };
    // The first slice is the second of 5,000,000 bytes: 805,696 of them.
    assert_eq!(check::request(&with_extents(&[(805_686, 10)]), 10), Ok(()));
    refused(&with_extents(&[(805_687, 10)]), 10);
    refused(&with_extents(&[(u32::MAX, u32::MAX)]), 10);
    refused(&with_extents(&[(5, 5), (9, 5)]), 10);
    refused(&with_extents(&[(5, 5), (0, 5)]), 10);
}

#[test]
fn a_stream_grows_in_whole_slices() {
    use haul_core::entry::GROWING;
    let name = RelPath::new(b"stream").unwrap();
    let of = |entry: haul_core::Entry, slice: Slice| Batch {
        entries: vec![Arc::new(entry)],
        slices: vec![slice],
        again: false,
    };
    let growing = || haul_core::Entry::stream(name.clone(), GROWING);
    let slice = Slice::whole(0, 3);
    let data =
        |len| vec![Ok(SliceData { extents: vec![Extent::data(0, len)], value: ChainingValue::default() })];
    assert_eq!(check::request(&write(of(growing(), slice), data(5)), 5), Ok(()));
    let refused =
        |request: &Request, len| assert!(matches!(check::request(request, len), Err(FrameError::Rule(_))));
    // One at a time can be read, whose answer says where the stream ends.
    assert_eq!(check::request(&read_request(of(growing(), slice)), 0), Ok(()));
    let two = Batch { slices: vec![slice, slice], ..of(growing(), slice) };
    refused(&read_request(two), 0);
    let pull = Request::Pull {
        root: 1,
        batch: Arc::new(of(growing(), slice)),
        pages: None,
        compress: Compress::Auto,
        ticket: [0; 32],
        proof_may_follow: false,
    };
    refused(&pull, 0);
    let end = |asked: &Batch, len, ended| {
        let answer = Response::Read { slices: data(len), packing: None, ended, proof_follows: false };
        check::response(&answer, Some(asked), len as usize).is_ok()
    };
    let asked = of(growing(), slice);
    assert!(end(&asked, 5, None) && end(&asked, 5, Some(3 * haul_core::SLICE_LEN + 5)));
    assert!(!end(&asked, 5, Some(3 * haul_core::SLICE_LEN + 4)), "content behind the end");
    assert!(!end(&asked, 5, Some(GROWING)) && !end(&batch(), 5, Some(5)));
    let part = |part| of(growing(), Slice { part: Some(part), ..slice });
    assert!(end(&part(1), 1 << 20, None), "a stream passes in parts");
    assert!(end(&part(1), 5, Some(3 * haul_core::SLICE_LEN + (1 << 20) + 5)));
    assert!(!end(&part(1), 6, Some(3 * haul_core::SLICE_LEN + (1 << 20) + 5)), "content behind the end");
    assert!(end(&part(1), 0, Some(7)) && !end(&part(1), 1, Some(7)), "a short stream has no second part");
    refused(&write(part(4), data(5)), 5);
    refused(&write(of(growing(), slice), data(u32::MAX)), u32::MAX as usize);
    refused(&write(of(growing(), Slice::whole(0, u32::MAX)), data(5)), 5);
    let made_up = haul_core::Entry::new(name.clone(), EntryKind::File, GROWING);
    refused(&write(of(made_up, slice), data(5)), 5);
}

#[test]
fn equal_pages_are_of_one_slice_of_a_large_file() {
    let (one, data) = changed();
    assert_eq!(check::request(&write(one.clone(), data.clone()), CONTENT), Ok(()));
    let refused = |request: &Request, len| assert!(check::request(request, len).is_err(), "{request:?}");
    refused(&write(one.clone(), data.clone()), CONTENT + 16384);
    refused(&write(batch(), vec![data[0].clone(), data[0].clone()]), 2 * CONTENT);
    let mut small = entry("a/b", EntryKind::File);
    small.len = haul_core::SLICE_LEN;
    let small = Batch { entries: vec![Arc::new(small)], ..one.clone() };
    refused(&write(small.clone(), data), CONTENT);

    let read = |batch: &Batch, pages| Request::Read {
        root: 1,
        batch: Arc::new(batch.clone()),
        pages: Some(pages),
        compress: Compress::Auto,
        proof_may_follow: false,
    };
    assert_eq!(check::request(&read(&one, pages()), 0), Ok(()));
    refused(&read(&small, pages()), 0);
    refused(&read(&batch(), pages()), 0);
    let mut many = PageHashes::default();
    (0..=SLICE_PAGES).for_each(|_| many.push(&ChainingValue([1; 32])));
    refused(&read(&one, many.clone()), 0);
    assert!(check::response(&Response::PageHashes(vec![many]), None, 0).is_err());
    let most = MAX_COMPARED as usize;
    assert_eq!(check::response(&Response::PageHashes(vec![pages(); most]), None, 0), Ok(()));
    assert!(check::response(&Response::PageHashes(vec![pages(); most + 1]), None, 0).is_err());
    let ask = |slices| Request::PageHashes { root: 1, entry: one.entries[0].clone(), slices };
    assert_eq!(check::request(&ask(7..7 + MAX_COMPARED), 0), Ok(()));
    refused(&ask(7..8 + MAX_COMPARED), 0);
}

#[test]
fn packed_content_is_checked_by_its_plain_bytes() {
    let check = |packing: Option<Packing>, len: usize| {
        let request = Request::Write {
            root: 1,
            batch: Arc::new(batch()),
            slices: read(),
            packing,
            proof_follows: false,
        };
        let answer = Response::Read { slices: read(), packing, ended: None, proof_follows: false };
        let results = (check::request(&request, len), check::response(&answer, Some(&batch()), len));
        assert_eq!(results.0, results.1);
        results.0.is_ok()
    };
    assert!(check(PACKING, PACKED) && check(PACKING, 1) && check(PACKING, CONTENT - 1));
    assert!(!check(PACKING, 0) && !check(PACKING, CONTENT) && !check(None, PACKED));
    for plain_len in [0, CONTENT - 1, CONTENT + 1, BUFFER_LEN, BUFFER_LEN + 1, u32::MAX as usize] {
        let plain_len = plain_len as u32;
        assert!(!check(PACKING.map(|packing| Packing { plain_len, ..packing }), PACKED), "{plain_len}");
    }
}

#[test]
fn batches_name_only_entries_that_are_there() {
    let refused = |batch: Batch| {
        let count = batch.slices.len();
        let read = read_request(batch.clone());
        assert!(check::request(&read, 0).is_err());
        let error = super::samples::error();
        assert!(check::request(&write(batch, vec![Err(error); count]), 0).is_err());
    };
    refused(Batch { slices: vec![Slice::whole(1, 0)], ..batch() });
    refused(Batch { slices: vec![Slice::whole(u32::MAX, 0)], ..batch() });
    refused(Batch { slices: vec![Slice::whole(0, 2)], ..batch() });
    let part = |index, part| vec![Slice { part: Some(part), ..Slice::whole(0, index) }];
    refused(Batch { slices: part(0, 4), ..batch() });
    refused(Batch { slices: [part(0, 0), part(0, 1)].concat(), ..batch() });
    refused(Batch { slices: vec![Slice::whole(0, 0); MAX_BATCH_SLICES + 1], ..batch() });
    refused(Batch { entries: vec![batch().entries[0].clone(); MAX_BATCH_SLICES + 1], ..Batch::default() });
    refused(Batch { entries: vec![Arc::new(entry("d", EntryKind::Dir))], ..batch() });
}

#[test]
fn content_comes_only_where_it_was_asked_for() {
    assert!(check::request(&Request::Flush { root: 1 }, 1).is_err());
    assert!(check::request(&read_request(batch()), 1).is_err());
    assert!(check::response(&Response::Done, None, 1).is_err());
    assert!(check::response(&Response::Done, Some(&batch()), 1).is_err());
    assert!(check::response(&answer(), None, CONTENT).is_err());
}

#[test]
fn bytes_for_measuring_are_bounded_too() {
    assert_eq!(check::request(&Request::Swallow, 1), Ok(()));
    assert_eq!(check::response(&Response::Produced, None, 1), Ok(()));
    assert!(check::response(&Response::Produced, Some(&batch()), 1).is_err());
    let most = u32::try_from(MAX_PAYLOAD).unwrap();
    assert_eq!(check::request(&Request::Produce { bytes: most }, 0), Ok(()));
    assert!(check::request(&Request::Produce { bytes: most + 1 }, 0).is_err());
    assert!(check::request(&Request::Produce { bytes: 1 }, 1).is_err());
    let place = Place { path: Vec::new(), root: PlaceRoot::Exactly };
    let sample = ReadSample { path: RelPath::root(), offset: 0, len: 1, small: true };
    let read = |count| {
        Request::Probe(ProbeTask::Read { place: place.clone(), samples: vec![sample.clone(); count] })
    };
    assert_eq!(check::request(&read(MAX_SAMPLES), 0), Ok(()));
    assert!(check::request(&read(MAX_SAMPLES + 1), 0).is_err());
}

#[test]
fn no_path_leaves_its_root() {
    for bad in ["/etc/passwd", "../x", "a/../../b", "a//b", "a\0b"] {
        let mut body = postcard::to_stdvec(&(19_u32, 1_u32, 1_u32)).unwrap();
        body.extend(postcard::to_stdvec(&serde_bytes::ByteBuf::from(bad.as_bytes().to_vec())).unwrap());
        assert_eq!(decode_body::<Request>(&body), Err(FrameError::Body), "{bad}");
    }
    let paths = vec![RelPath::new(b"a/b").unwrap()];
    let body = postcard::to_stdvec(&(19_u32, 1_u32, paths.clone())).unwrap();
    assert_eq!(decode_body::<Request>(&body), Ok(Request::Remove { root: 1, paths }));
}

#[test]
fn a_count_that_is_a_lie_takes_no_memory() {
    // A list of 2^60 paths, in nine bytes.
    let body = [&[9, 1][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]].concat();
    assert_eq!(decode_body::<Request>(&body), Err(FrameError::Body));
}

#[test]
fn slices_that_a_sink_has_ascend_and_are_of_the_file() {
    let file = haul_core::Entry { len: 20_000_000, ..entry("a", EntryKind::File) };
    let have = |ranges: &[std::ops::Range<u32>]| check::have(&file, ranges).is_ok();
    assert!(have(&[]) && have(&[0..1, 1..2, 4..5]));
    for bad in [[0..1, 1..u32::MAX], [0..1, 1..6], [1..2, 0..1], [0..2, 1..3], [0..1, 1..1], [0..1, 0..1]] {
        assert!(!have(&bad), "{bad:?}");
    }
    assert!(check::have(&entry("a", EntryKind::Dir), &[0..1, 1..2]).is_err());
}

#[test]
fn a_part_of_a_scan_is_no_larger_than_ours() {
    let part = |count: usize, len: usize| {
        let mut entry = entry("a", EntryKind::File);
        entry.xattrs = vec![(Vec::new().into(), vec![0; len].into())];
        let found = haul_core::ScanBatch { entries: vec![entry; count], ..Default::default() };
        let response = Response::Scan(crate::ScanPart { found, last: false });
        check::response(&response, None, 0).is_ok()
    };
    assert!(part(check::PART_LEN, 10) && part(1, 2 << 20) && part(2, 1 << 19));
    assert!(!part(check::PART_LEN + 1, 10));
    assert!(!part(3, 2 << 20));
}

#[test]
fn a_fetch_returns_no_more_than_a_batch() {
    let most = MAX_PAYLOAD as u64;
    let fetched = |wire_bytes, matched_bytes, streams| {
        let outcomes = Vec::new();
        let response = Response::Fetched { outcomes, wire_bytes, matched_bytes, method: None, streams };
        check::response(&response, None, 0).is_ok()
    };
    assert!(fetched(most, 0, crate::MAX_CONNECTIONS) && fetched(0, most, 0));
    assert!(
        !fetched(most + 1, 0, 1) && !fetched(0, u64::MAX, 1) && !fetched(1, 1, crate::MAX_CONNECTIONS + 1)
    );
}

#[test]
fn a_proof_follows_the_plain_content_of_one_slice_only() {
    let (one, data) = changed();
    let ask = |batch: &Batch, slices: Vec<_>, packing, len| {
        let (slices_too, proof_follows) = (slices.clone(), true);
        let request =
            Request::Write { root: 1, batch: Arc::new(batch.clone()), slices, packing, proof_follows };
        let answer = Response::Read { slices: slices_too, packing, ended: None, proof_follows };
        let (asked, answered) = (check::request(&request, len), check::response(&answer, Some(batch), len));
        assert_eq!(asked, answered);
        asked.is_ok()
    };
    let len = data.iter().flatten().map(SliceData::data_len).sum::<u64>() as usize;
    assert!(ask(&one, data.clone(), None, len));
    assert!(!ask(&one, data.clone(), PACKING, PACKED));
    assert!(!ask(&one, vec![Err(FrameError::Body.into())], None, 0), "it has no content");
    assert!(!ask(&batch(), read(), None, CONTENT), "several slices");
    let hole = vec![Ok(SliceData { extents: Vec::new(), value: ChainingValue([1; 32]) })];
    assert!(!ask(&one, hole, None, 0));
}

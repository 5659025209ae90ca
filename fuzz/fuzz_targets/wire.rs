//! Arbitrary bytes as a stream of frames, and each body as every message.
#![no_main]

use haul_fuzz::{BASE, within};
use haul_wire::{
    FrameHeader, FrameKind, HEADER_LEN, Hello, Request, Response, Welcome, check, decode_body, encode,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Checksums are hard to guess: the bytes are also tried as a body.
    message(bytes, 0);
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let Ok(header) = FrameHeader::decode(head) else { return };
        assert_eq!(header.encode(), *head, "a header has one encoding");
        let Some((body, after)) = after.split_at_checked(header.body_len as usize) else { return };
        let Some((_, after)) = after.split_at_checked(header.payload_len as usize) else { return };
        if header.check_body(body).is_ok() {
            message(body, header.payload_len as usize);
        }
        rest = after;
    }
});

fn message(body: &[u8], payload_len: usize) {
    within(BASE, body.len(), || {
        let _ = haul_wire::peek_version(body);
        let _ = decode_body::<Hello>(body);
        let _ = decode_body::<Welcome>(body);
    });
    if let Ok(request) = within(BASE, body.len(), || decode_body::<Request>(body)) {
        let _ = check::request(&request, payload_len);
        if let Request::Read { batch, .. } | Request::Write { batch, .. } = &request
            && check::batch(batch).is_ok()
        {
            assert_eq!(batch.iter().count(), batch.slices.len(), "each slice has its entry");
        }
        same(FrameKind::Request, &request);
    }
    if let Ok(response) = within(BASE, body.len(), || decode_body::<Response>(body)) {
        let _ = check::response(&response, None, payload_len);
        same(FrameKind::Response, &response);
    }
}

/// A decoded message can be encoded and decoded again without a change.
fn same<T>(kind: FrameKind, message: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let Ok(frame) = encode(kind, 1, message, 0) else { return };
    let again = decode_body::<T>(&frame[HEADER_LEN..]);
    assert_eq!(again.as_ref(), Ok(message));
}

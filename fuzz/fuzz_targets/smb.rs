//! Arbitrary bytes as the messages of an SMB server, and as the listings, security descriptors and reparse
//! points in them.
#![no_main]

// Their crate depends on more.
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/attrs.rs"]
mod attrs;
#[path = "../../crates/ends/smb/src/chained.rs"]
mod chained;
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/descriptor.rs"]
mod descriptor;
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/named.rs"]
mod named;
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/reparse.rs"]
mod reparse;
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/reply.rs"]
mod reply;
#[allow(dead_code)]
#[path = "../../crates/ends/smb/src/stream_list.rs"]
mod stream_list;

use haul_fuzz::{BASE, within};
use libfuzzer_sys::fuzz_target;
use smb2::fuzzing;

/// The library reads a count of 16 bits and allocates memory for it, up to 4 MiB, before it reads the items.
const SMB2: usize = 64 * BASE;

fuzz_target!(|bytes: &[u8]| {
    within(BASE, bytes.len(), || {
        let names = named::parse(bytes).map_or(0, |names| names.len());
        assert!(names * 64 <= bytes.len());
    });
    within(BASE, bytes.len(), || {
        let streams = stream_list::parse(bytes).map_or(0, |streams| streams.len());
        assert!(streams * 24 <= bytes.len());
    });
    within(BASE, bytes.len(), || {
        if let Some(read) = descriptor::SecurityDescriptor::parse(bytes) {
            assert_eq!(descriptor::SecurityDescriptor::parse(&read.encode(false)), Some(read));
        }
    });
    within(BASE, bytes.len(), || {
        if let Some(read) = reparse::ReparsePoint::parse(bytes) {
            let _told = (read.relative_target(), read.describe());
            assert_eq!(reparse::ReparsePoint::parse(read.bytes()), Some(read));
        }
    });
    within(SMB2, bytes.len(), || fuzzing::fuzz_frame_parse(bytes));
    within(SMB2, bytes.len(), || fuzzing::fuzz_sub_frame_parse(bytes));
    within(SMB2, bytes.len(), || fuzzing::fuzz_transform_header_parse(bytes));
    within(SMB2, bytes.len(), || fuzzing::fuzz_negotiate_response_parse(bytes));
    within(SMB2, bytes.len(), || fuzzing::fuzz_create_response_parse(bytes));
    within(SMB2, bytes.len(), || fuzzing::fuzz_error_context_walk(bytes));
});

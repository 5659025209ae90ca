//! Arbitrary bytes as the packets of an SFTP server.
#![no_main]

// The codec. Its crate depends on more.
#[allow(dead_code)]
#[path = "../../crates/ends/sftp/src/packet.rs"]
mod packet;

use haul_fuzz::{BASE, within};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    within(BASE, bytes.len(), || {
        let _ = packet::decode_version(bytes);
        let _ = packet::decode_numbers::<11>(bytes);
        if let Ok((_, packet::SftpResponse::Data(data))) = packet::decode(bytes.to_vec()) {
            assert!(data.bytes().len() <= bytes.len());
        }
    });
});

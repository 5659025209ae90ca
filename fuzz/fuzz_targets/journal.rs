//! Arbitrary bytes as the journal of a staged file, and as the damaged tail of a valid one.
#![no_main]

use haul_core::entry::Identity;
use haul_core::journal::{HEADER_LEN, JournalHeader, RECORD_LEN, decode, encode_record};
use haul_core::{ChainingValue, Timestamp};
use haul_fuzz::{BASE, within};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((header, records)) = within(BASE, bytes.len(), || decode(bytes)) {
        // A header has one encoding, and each accepted record has bytes of its own.
        assert_eq!(header.encode(), bytes[..HEADER_LEN]);
        assert!(records.len() <= (bytes.len() - HEADER_LEN) / RECORD_LEN);
    }
    // Checksums are hard to guess: the bytes are also tried behind a valid journal.
    let ctime = Some(Timestamp { sec: 5, nsec: 6 });
    let identity = Identity { len: 1 << 30, mtime: Timestamp { sec: 1, nsec: 2 }, ctime, ino: 3 };
    let header = JournalHeader { identity, staged_ino: 4, boot: [5; 16], key: [6; 16], synced: true };
    let mut journal = header.encode().to_vec();
    let seed = header.seed();
    for index in 0..3 {
        journal.extend(encode_record(seed, index, &ChainingValue([index as u8; 32])));
    }
    journal.extend(bytes);
    let Some((read, records)) = decode(&journal) else { panic!("a valid header is read") };
    assert_eq!(read, header);
    assert!(records.len() >= 3);
});

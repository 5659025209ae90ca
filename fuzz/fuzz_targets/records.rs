//! Arbitrary bytes as records of TLS: as they come from a stranger, and sealed, as they come from another haul.
#![no_main]

use std::sync::Arc;

use haul_fuzz::{BASE, within};
use haul_transport::records::{KeyUpdates, RecordKey, RecordOpener, RecordSealer, RecordType};
use libfuzzer_sys::fuzz_target;
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

fn key() -> RecordKey {
    let secrets = ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([1; 32]), iv: Iv::from([2; 12]) };
    RecordKey::new((0, secrets)).unwrap()
}

/// All keys are the same.
fn updates() -> Arc<KeyUpdates> {
    Arc::new(KeyUpdates::new(Box::new(|_| Ok(key()))))
}

/// Reads received bytes with a buffer of `step` bytes, as a connection does.
fn read(mut received: &[u8], step: usize) -> Vec<u8> {
    let mut reader = RecordOpener::new(key(), updates(), Vec::new());
    let mut into = vec![0; step];
    let mut content = Vec::new();
    while !reader.is_closed() {
        let Ok(filled) = within(BASE, received.len(), || reader.open(&mut into)) else { break };
        content.extend_from_slice(&into[..filled]);
        if filled == 0 {
            let room = reader.room();
            assert!(!room.is_empty(), "a record fits into the buffer");
            let len = room.len().min(received.len());
            room[..len].copy_from_slice(&received[..len]);
            reader.received(len);
            received = &received[len..];
        }
    }
    content
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, rest)) = bytes.split_first() else { return };
    let step = usize::from(step) * 80 + 1;
    assert!(read(rest, step).is_empty(), "a stranger has no key");

    // Each message is its type, its length and so many bytes.
    let mut writer = RecordSealer::new(key(), u64::MAX, updates());
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    let mut messages = rest;
    while let [kind, len, next @ ..] = messages {
        let (message, next) = next.split_at(next.len().min(usize::from(*len) * 64));
        let kind = match kind % 8 {
            0 => RecordType::Alert,
            1 => RecordType::Handshake,
            _ => RecordType::Content,
        };
        writer.add(kind, message).unwrap();
        if kind == RecordType::Content {
            expected.extend_from_slice(message);
        }
        all.extend_from_slice(writer.sealed());
        writer.clear();
        if kind == RecordType::Handshake && matches!(message, [24, 0, 0, 1, 0 | 1]) {
            // The next record has the next key.
            writer = RecordSealer::new(key(), u64::MAX, updates());
        }
        messages = next;
    }
    let content = read(&all, step);
    assert!(expected.starts_with(&content), "content comes whole and in order, up to an error or an end");
});

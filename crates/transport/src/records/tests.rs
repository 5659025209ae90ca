use rustls::crypto::cipher::{AeadKey, Iv};

use super::*;

fn aes(number: u64, byte: u8) -> RecordKey {
    let secrets =
        ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([byte; 32]), iv: Iv::from([byte; 12]) };
    RecordKey::new((number, secrets)).unwrap()
}

/// Each next key of a direction has the next byte.
fn updates() -> Arc<KeyUpdates> {
    let (mut send, mut receive) = (1, 1);
    Arc::new(KeyUpdates::new(Box::new(move |direction| {
        let byte = if direction == Direction::Send { &mut send } else { &mut receive };
        *byte += 1;
        Ok(aes(0, *byte))
    })))
}

fn writer(limit: u64) -> RecordSealer {
    RecordSealer::new(aes(0, 1), limit, updates())
}

fn reader() -> RecordOpener {
    RecordOpener::new(aes(0, 1), updates(), Vec::new())
}

/// Reads these received bytes, with buffers of `step` bytes.
fn read(reader: &mut RecordOpener, mut received: &[u8], step: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut into = vec![0; step];
    while !reader.is_closed() {
        let filled = reader.open(&mut into)?;
        content.extend_from_slice(&into[..filled]);
        if filled == 0 {
            let room = reader.room();
            let len = room.len().min(received.len());
            room[..len].copy_from_slice(&received[..len]);
            reader.received(len);
            received = &received[len..];
        }
    }
    Ok(content)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn sealed(writer: &mut RecordSealer, mut content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !content.is_empty() {
        content = writer.seal(content).unwrap();
        bytes.extend_from_slice(writer.sealed());
        writer.clear();
    }
    bytes
}

#[test]
fn content_arrives_whatever_the_buffers() {
    let all = content(3 * CHUNK + 17);
    let mut bytes = sealed(&mut writer(u64::MAX), &all);
    for step in [1, 100, RECORD - 1, RECORD, RECORD + 1, 5 * RECORD, 8 * CHUNK] {
        assert!(read(&mut reader(), &bytes, step).unwrap() == all, "with buffers of {step} bytes");
    }
    // A record that is cut off is not content.
    bytes.truncate(bytes.len() - 1);
    let got = read(&mut reader(), &bytes, CHUNK).unwrap();
    assert!(got.len() < all.len() && all.starts_with(&got));
}

#[test]
fn the_key_changes_before_its_limit() {
    let all = content(20 * RECORD);
    for limit in [2, 3, 7, 21, 22] {
        let mut writer = writer(limit);
        let bytes = sealed(&mut writer, &all);
        assert!(writer.key.number <= limit);
        assert!(read(&mut reader(), &bytes, CHUNK).unwrap() == all, "with {limit} records for a key");
    }
}

#[test]
fn a_request_is_answered_once() {
    let shared = updates();
    let mut own = RecordSealer::new(aes(0, 1), u64::MAX, shared.clone());
    let mut reader = RecordOpener::new(aes(0, 1), shared, Vec::new());
    let mut other = writer(u64::MAX);
    other.add(RecordType::Handshake, &[24, 0, 0, 1, 1]).unwrap();
    other.key = aes(0, 2);
    other.add(RecordType::Handshake, &[24, 0, 0, 1, 1]).unwrap();
    other.key = aes(0, 3);
    other.add(RecordType::Content, b"after").unwrap();
    assert_eq!(read(&mut reader, other.sealed(), 100).unwrap(), b"after");
    let bytes = sealed(&mut own, b"answer");
    assert_eq!(bytes.len(), 2 * OVERHEAD + KEY_UPDATE.len() + 6);
    assert_eq!(read(&mut self::reader(), &bytes, 100).unwrap(), b"answer");
    assert_eq!(sealed(&mut own, b"more").len(), OVERHEAD + 4);
}

#[test]
fn every_damage_is_found() {
    let bytes = sealed(&mut writer(u64::MAX), b"some content");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // A length that is too large waits for more, and gets the end.
            let got = read(&mut reader(), &damaged, 100);
            assert!(got.is_err() || got.unwrap().is_empty(), "bit {bit} of byte {at}");
        }
    }
    let two = [&bytes[..], &bytes[..]].concat();
    assert!(read(&mut reader(), &two, 100).is_err(), "a record that comes a second time");
}

#[test]
fn other_messages() {
    let after = |kind, messages: &[&[u8]]| {
        let mut writer = writer(u64::MAX);
        for message in messages {
            writer.add(kind, message).unwrap();
        }
        writer.add(RecordType::Content, b"x").unwrap();
        read(&mut reader(), writer.sealed(), 100)
    };
    let ticket: &[u8] = &[4, 0, 0, 3, 1, 2, 3];
    assert_eq!(after(RecordType::Handshake, &[ticket]).unwrap(), b"x");
    assert_eq!(after(RecordType::Handshake, &[&[ticket, ticket].concat()]).unwrap(), b"x");
    assert_eq!(after(RecordType::Content, &[&b""[..]; IDLE_RECORDS as usize]).unwrap(), b"x");
    assert_eq!(after(RecordType::Alert, &[&CLOSE]).unwrap(), b"", "nothing after the end");
    for (kind, message) in [
        (RecordType::Alert, &[2, 20][..]),
        (RecordType::Alert, &[1]),
        (RecordType::Handshake, &[4, 0, 0, 4, 1, 2, 3]),
        (RecordType::Handshake, &[4, 0]),
        (RecordType::Handshake, &[24, 0, 0, 1, 2]),
        (RecordType::Handshake, &[24, 0, 0, 1, 0, 4, 0, 0, 0]),
        (RecordType::Handshake, &[1, 0, 0, 0]),
    ] {
        assert!(after(kind, &[message]).is_err(), "{kind:?} {message:?}");
    }
    assert!(after(RecordType::Content, &[&b""[..]; IDLE_RECORDS as usize + 1]).is_err());
}

#[test]
fn padding_and_types() {
    // A record as others may make it: its inner bytes end with the type and zeros.
    let record = |inner: &[u8]| {
        let len = inner.len() + TAG;
        let mut record = vec![23, 3, 3, (len >> 8) as u8, len as u8];
        let mut sealed = inner.to_vec();
        let mut key = aes(0, 1);
        let nonce = key.nonce().unwrap();
        let tag = key.key.seal_in_place_separate_tag(nonce, Aad::from(&record[..]), &mut sealed).unwrap();
        record.extend(sealed);
        record.extend(tag.as_ref());
        record
    };
    assert_eq!(read(&mut reader(), &record(b"ab\x17\0\0\0"), 100).unwrap(), b"ab");
    assert_eq!(read(&mut reader(), &record(b"ab\0\x17"), 3).unwrap(), b"ab\0");
    assert!(read(&mut reader(), &record(&[0; 20]), 100).is_err(), "only padding");
    assert!(read(&mut reader(), &record(b"ab\x18"), 100).is_err(), "no type");
    assert!(read(&mut reader(), &record(b""), 100).is_err());
    let longest = [&content(RECORD)[..], &[23]].concat();
    assert_eq!(read(&mut reader(), &record(&longest), CHUNK).unwrap().len(), RECORD);
    let longer = [&content(RECORD)[..], &[23, 0]].concat();
    assert!(read(&mut reader(), &record(&longer), CHUNK).is_err());
    let mut plain = vec![21, 3, 3, 0, 2];
    plain.extend(CLOSE);
    assert!(read(&mut reader(), &plain, 100).is_err(), "an alert without encryption");
}

#[test]
fn numbers_do_not_come_round() {
    let mut key = aes(u64::MAX - 1, 1);
    let mut out = [0; 100];
    assert!(key.seal(RecordType::Content, b"x", &mut out).is_ok());
    assert!(key.seal(RecordType::Content, b"x", &mut out).is_err());
    assert!(aes(0, 1).seal(RecordType::Content, &content(RECORD + 1), &mut vec![0; CHUNK]).is_err());
    assert!(aes(0, 1).seal(RecordType::Content, &content(100), &mut out).is_err(), "no room");
}

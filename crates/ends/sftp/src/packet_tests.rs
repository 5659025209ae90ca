use super::*;

fn encoded(request: &SftpRequest<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(7, &mut bytes);
    bytes
}

/// An answer as a server makes it, without its length field.
fn answer(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0, 7];
    fields.iter().for_each(|field| bytes.extend(*field));
    bytes
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

#[test]
fn requests_are_as_the_draft_has_them() {
    let path = b"a\xff";
    let open = encoded(&SftpRequest::Open { path, flags: READ, mode: 0o600 });
    assert_eq!(open, b"\0\0\0\x17\x03\0\0\0\x07\0\0\0\x02a\xff\0\0\0\x01\0\0\0\x04\0\0\x01\x80");
    // OpenSSH wants the target first, where the draft has it last.
    let link = encoded(&SftpRequest::Symlink { target: b"to", path: b"at" });
    assert_eq!(link, b"\0\0\0\x11\x14\0\0\0\x07\0\0\0\x02to\0\0\0\x02at");
    let attrs = Attrs { size: Some(1), owner: Some((2, 3)), mode: Some(0o644), times: Some((4, u32::MAX)) };
    let set = encoded(&SftpRequest::Fsetstat { handle: b"\0", attrs });
    let tail = b"\0\0\0\x0f\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\x01\xa4\0\0\0\x04\xff\xff\xff\xff";
    assert!(set.ends_with(tail), "{set:?}");
    let sync = encoded(&SftpRequest::Fsync { handle: b"h" });
    assert_eq!(sync[4], 200);
    assert!(sync.ends_with(b"\0\0\0\x11fsync@openssh.com\0\0\0\x01h"));
}

#[test]
fn a_write_counts_the_data_that_follows() {
    let bytes = encoded(&SftpRequest::Write { handle: b"hndl", offset: 1 << 40, len: 1000 });
    let len = u32::from_be_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(len as usize, bytes.len() - 4 + 1000);
    assert!(bytes.ends_with(&1000_u32.to_be_bytes()));
}

/// Packets that a server would send, and the responses that haul reads from them.
fn samples() -> Vec<(Vec<u8>, SftpResponse)> {
    let mode = [0, 0, 0, 4, 0, 0, 0x41, 0xed];
    let attrs = Attrs { mode: Some(0o40755), ..Attrs::default() };
    let all = Attrs {
        size: Some(1 << 33),
        owner: Some((1, u32::MAX)),
        mode: Some(0o100_644),
        times: Some((1, 4_000_000_000)),
    };
    let mut packet = Packet(&mut Vec::new()).attrs(&all).0.clone();
    packet[0] |= 0x80;
    packet.extend([0, 0, 0, 1]);
    packet.extend([string(b"x"), string(b"y")].concat());
    let named =
        [string(b"\xff"), string(b"-rw"), mode.to_vec(), string(b""), string(b""), vec![0; 4]].concat();
    let data = answer(103, &[&string(b"bytes")]);
    vec![
        (
            answer(101, &[&[0, 0, 0, 2], &string(b"no"), &string(b"en")]),
            SftpResponse::Status(2, b"no".to_vec()),
        ),
        (answer(101, &[&[0, 0, 0, 1]]), SftpResponse::Status(1, Vec::new())),
        (answer(102, &[&string(b"\0\0\0\x80")]), SftpResponse::Handle(vec![0, 0, 0, 0x80])),
        (data.clone(), SftpResponse::Data(Data { packet: data, start: 9, len: 5 })),
        (
            answer(104, &[&[0, 0, 0, 2], &named]),
            SftpResponse::Names(vec![(vec![0xff], attrs), (Vec::new(), Attrs::default())]),
        ),
        (answer(105, &[&packet]), SftpResponse::Attrs(all)),
        (answer(201, &[&[0; 32]]), SftpResponse::Extended(vec![0; 32])),
    ]
}

#[test]
fn answers_are_read() {
    for (packet, response) in samples() {
        assert_eq!(decode(packet.clone()), Ok((7, response)), "{packet:?}");
    }
    let SftpResponse::Data(data) = decode(answer(103, &[&string(b"bytes")])).unwrap().1 else { panic!() };
    assert_eq!(data.bytes(), b"bytes");
    let version = [&[2, 0, 0, 0, 3][..], &string(b"fsync@openssh.com"), &string(b"1")].concat();
    let offered = vec![(b"fsync@openssh.com".to_vec(), b"1".to_vec())];
    assert_eq!(decode_version(&version), Ok((3, offered)));
    assert_eq!(decode_numbers::<2>(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]), Ok([1, 256]));
}

#[test]
fn a_packet_that_is_cut_off_is_refused_and_never_read_past() {
    for (packet, response) in samples() {
        for end in 0..packet.len() {
            let cut = decode(packet[..end].to_vec());
            // Words of a status and the end of an extension's answer may be missing.
            let open = matches!(response, SftpResponse::Status(..) | SftpResponse::Extended(_));
            assert!(cut.is_err() || open, "{packet:?} cut at {end}: {cut:?}");
        }
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    for kind in [101, 102, 103, 104, 105] {
        for fill in [0xff, 0x7f, 0x80] {
            let _ = decode(answer(kind, &[&[fill; 40]]));
        }
    }
    assert_eq!(decode(answer(104, &[&[0xff; 4]])), Err(Malformed));
    assert_eq!(decode(answer(104, &[&[0x10, 0, 0, 0], &[0; 64]])), Err(Malformed));
    assert_eq!(decode(answer(102, &[&[0xff; 4], b"x"])), Err(Malformed));
    assert_eq!(decode(answer(99, &[])), Err(Malformed));
    // Extended attributes without end.
    assert_eq!(decode(answer(105, &[&[0x80, 0, 0, 0], &[0xff; 4]])), Err(Malformed));
    assert_eq!(decode_version(&[2, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff]), Err(Malformed));
    assert_eq!(decode_numbers::<4>(&[0; 31]), Err(Malformed));
}

#[test]
fn random_bytes_are_refused_or_read_within_their_bounds() {
    let mut seed = 1_u64;
    for _ in 0..50_000 {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        };
        let len = usize::from(next()) / 3;
        let mut packet: Vec<u8> = (0..len).map(|_| next() & next()).collect();
        if let Some(first) = packet.first_mut() {
            *first = 100 + *first % 8;
        }
        if let Ok((_, SftpResponse::Data(data))) = decode(packet) {
            assert!(data.bytes().len() <= len);
        }
    }
}

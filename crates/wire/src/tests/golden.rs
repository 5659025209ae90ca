//! The bytes of each message. If this fails, the protocol has changed: raise [`crate::VERSION`] and take the new
//! bytes over.

use haul_core::digest::hex;

use super::samples;
use crate::{FrameKind, HEADER_LEN, Hello, Request, Response, Welcome, decode_body, encode, encode_ping};

#[test]
fn each_message_has_its_bytes() {
    let mut lines = Vec::new();
    let mut line = |name: &str, frame: &[u8]| lines.push(format!("{name} {}", hex(frame)));
    let frame = encode(FrameKind::Hello, 0, &samples::hello(), 0).unwrap();
    assert_eq!(decode_body::<Hello>(&frame[HEADER_LEN..]).unwrap(), samples::hello());
    line("Hello", &frame);
    for welcome in samples::welcomes() {
        let frame = encode(FrameKind::Welcome, 0, &welcome, 0).unwrap();
        assert_eq!(decode_body::<Welcome>(&frame[HEADER_LEN..]).unwrap(), welcome);
        line("Welcome", &frame);
    }
    line("Ping", &encode_ping());
    for request in samples::requests() {
        let content = match request {
            Request::Write { packing: None, .. } => samples::CONTENT,
            Request::Write { .. } => samples::PACKED,
            _ => 0,
        };
        let frame = encode(FrameKind::Request, 1 << 33, &request, content).unwrap();
        assert_eq!(decode_body::<Request>(&frame[HEADER_LEN..]).unwrap(), request);
        line(&name(&request), &frame);
    }
    for response in samples::responses() {
        let content = match response {
            Response::Read { packing: None, .. } => samples::CONTENT,
            Response::Read { .. } => samples::PACKED,
            _ => 0,
        };
        let frame = encode(FrameKind::Response, 1 << 33, &response, content).unwrap();
        assert_eq!(decode_body::<Response>(&frame[HEADER_LEN..]).unwrap(), response);
        line(&format!("-> {}", name(&response)), &frame);
    }
    let known: Vec<&str> = include_str!("golden.txt").lines().collect();
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(known.get(at).copied(), Some(line.as_str()), "all lines now:\n{}\n", lines.join("\n"));
    }
    assert_eq!(known.len(), lines.len());
}

fn name(message: &impl std::fmt::Debug) -> String {
    let text = format!("{message:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

//! Slices that are read while they are sent: whole, unreadable, on a broken stream, and beside other frames.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use haul_wire::{ChunkReader, HEADER_LEN};

use super::*;
use crate::frames::LinkError;

const HEAD: &[u8] = b"head";
const PROOF: ChainingValue = ChainingValue([7; 32]);

#[derive(Default)]
struct Wire {
    sent: Vec<u8>,
    /// It breaks after so many bytes.
    breaks: Option<usize>,
    closed: bool,
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Wire>>);

impl Output {
    fn sent(&self) -> Vec<u8> {
        self.0.lock().sent.clone()
    }
}

impl FrameOutput for Output {
    fn write(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut wire = self.0.lock();
        wire.sent.extend_from_slice(head);
        wire.sent.extend_from_slice(payload);
        let is_broken = wire.breaks.is_some_and(|breaks| wire.sent.len() > breaks);
        if is_broken { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) {
        self.0.lock().closed = true;
    }
}

/// Content of a file, piece by piece, and its proof. `before` is called before each piece is read, with its number.
struct ReadContent<'a> {
    pieces: Vec<Result<Vec<u8>>>,
    proof: Result<Option<ChainingValue>>,
    number: usize,
    piece: Vec<u8>,
    before: &'a mut dyn FnMut(usize),
}

impl ArrivingContent for ReadContent<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        (self.before)(self.number);
        self.number += 1;
        self.piece = if self.pieces.is_empty() { Vec::new() } else { self.pieces.remove(0)? };
        Ok(&self.piece)
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        self.proof.clone()
    }
}

/// Content of 200,000 bytes in two pieces.
fn good(before: &mut dyn FnMut(usize)) -> ReadContent<'_> {
    let pieces = vec![Ok(vec![1; 150_000]), Ok(vec![2; 50_000])];
    ReadContent { pieces, proof: Ok(Some(PROOF)), number: 0, piece: Vec::new(), before }
}

/// Sends content of 200,000 bytes. Returns the error with which it was withdrawn.
fn pass(writer: &SharedWriter, content: &mut ReadContent<'_>) -> io::Result<Option<Error>> {
    let mut withdrawn = None;
    writer.pass(HEAD, content, 200_000, &mut |error| withdrawn = Some(error))?;
    Ok(withdrawn)
}

/// The content and the proof that the other end reads, and the bytes that follow.
fn received(sent: &[u8]) -> (Vec<u8>, Option<ChainingValue>, Vec<u8>) {
    let mut left = sent.strip_prefix(HEAD).unwrap();
    let mut fill = |room: &mut [u8]| -> std::result::Result<(), LinkError> {
        let (now, later) = left.split_at_checked(room.len()).ok_or(LinkError::Closed)?;
        room.copy_from_slice(now);
        left = later;
        Ok(())
    };
    let (mut chunks, mut content) = (ChunkReader::default(), vec![0; 200_000]);
    chunks.content(&mut content, &mut fill).unwrap();
    let proof = chunks.trailer(&mut fill).unwrap();
    (content, proof, left.to_vec())
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Io, Side::Source, "read", "Input/output error")
}

#[test]
fn the_proof_follows_the_content() {
    let output = Output::default();
    let writer = SharedWriter::new(Box::new(output.clone()));
    assert_eq!(pass(&writer, &mut good(&mut |_| ())).unwrap(), None);
    writer.write(b"next", b" frame").unwrap();
    let (content, proof, rest) = received(&output.sent());
    assert!(content == [vec![1; 150_000], vec![2; 50_000]].concat());
    assert_eq!((proof, &rest[..]), (Some(PROOF), &b"next frame"[..]));
}

#[test]
fn content_that_cannot_be_read_leaves_a_whole_frame_without_a_proof() {
    let changed = || Error::new(ErrorKind::SourceChanged, Side::Source, "read", "it changed");
    for (pieces, proof, expected) in [
        (vec![Err(unreadable())], Ok(Some(PROOF)), unreadable()),
        (vec![Ok(vec![1; 150_000]), Err(unreadable())], Ok(Some(PROOF)), unreadable()),
        (vec![Ok(vec![1; 200_000])], Err(changed()), changed()),
        (vec![Ok(vec![1; 199_999])], Ok(Some(PROOF)), other_length()),
        (vec![Ok(vec![1; 200_001])], Ok(Some(PROOF)), other_length()),
        (vec![Ok(vec![1; 200_000])], Ok(None), other_length()),
    ] {
        let output = Output::default();
        let writer = SharedWriter::new(Box::new(output.clone()));
        let mut before = |_| ();
        let mut content = ReadContent { pieces, proof, ..good(&mut before) };
        assert_eq!(pass(&writer, &mut content).unwrap(), Some(expected));
        writer.write(b"next", &[]).unwrap();
        let (_, proof, rest) = received(&output.sent());
        assert_eq!((proof, &rest[..]), (None, &b"next"[..]));
    }
}

#[test]
fn a_broken_stream_withdraws_nothing_and_takes_no_more_frames() {
    for breaks in [0, 100, 180_000, 200_020] {
        let output = Output::default();
        output.0.lock().breaks = Some(breaks);
        let writer = SharedWriter::new(Box::new(output.clone()));
        let mut withdraw = |error| panic!("{error}");
        let passed = writer.pass(HEAD, &mut good(&mut |_| ()), 200_000, &mut withdraw);
        assert!(passed.is_err(), "{breaks}");
        assert!(writer.write(b"next", &[]).is_err(), "{breaks}");
        assert!(writer.sign_of_life().is_err(), "{breaks}");
    }
}

#[test]
fn signs_of_life_go_out_while_a_piece_is_read() {
    let output = Output::default();
    let writer = SharedWriter::new(Box::new(output.clone()));
    let mut before = |_| {
        assert!(!writer.is_writing());
        let sent = output.sent().len();
        writer.sign_of_life().unwrap();
        assert!(output.sent().len() > sent);
    };
    assert_eq!(pass(&writer, &mut good(&mut before)).unwrap(), None);
    // The first one, before the frame, is a Ping.
    let sent = output.sent();
    assert_eq!(sent[..HEADER_LEN], encode_ping());
    let (content, proof, rest) = received(&sent[HEADER_LEN..]);
    assert!(content == [vec![1; 150_000], vec![2; 50_000]].concat());
    assert_eq!((proof, rest.len()), (Some(PROOF), 0));
}

#[test]
fn frames_wait_for_the_slice_and_give_signs_of_life() {
    let output = Output::default();
    let writer = SharedWriter::new(Box::new(output.clone()));
    thread::scope(|scope| {
        let mut other = None;
        let mut before = |number| {
            if number == 1 {
                let (writer, sent) = (&writer, output.sent().len());
                other = Some(scope.spawn(move || writer.write(b"next", b" frame").unwrap()));
                // The disk stalls until the other thread has shown that this end lives.
                while output.sent().len() == sent {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        };
        assert_eq!(pass(&writer, &mut good(&mut before)).unwrap(), None);
        other.unwrap().join().unwrap();
    });
    let (_, proof, rest) = received(&output.sent());
    assert_eq!((proof, &rest[..]), (Some(PROOF), &b"next frame"[..]));
}

#[test]
fn a_panic_within_a_frame_ends_the_direction() {
    for number in [0, 1] {
        let output = Output::default();
        let writer = SharedWriter::new(Box::new(output.clone()));
        let mut before = |at| assert!(at != number, "a bug");
        let passed = catch_unwind(AssertUnwindSafe(|| pass(&writer, &mut good(&mut before))));
        assert!(passed.is_err());
        // Nothing of the frame was written before its first piece.
        assert_eq!(writer.write(b"next", &[]).is_ok(), number == 0);
        assert_eq!(output.sent() == b"next", number == 0);
    }
}

#[test]
fn a_closed_direction_takes_nothing() {
    let output = Output::default();
    let writer = SharedWriter::new(Box::new(output.clone()));
    let mut before = |number| {
        if number == 1 {
            writer.close();
        }
    };
    assert!(pass(&writer, &mut good(&mut before)).is_err());
    assert!(output.0.lock().closed && writer.write(b"next", &[]).is_err());
    assert!(writer.sign_of_life().is_err());
}

//! Arbitrary bytes as a stream with members, and as the index of one.
#![no_main]

use haul_fuzz::within;
use haul_members::{Scanner, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte decides where the stream is cut into pieces.
    let Some((first, stream)) = bytes.split_first() else { return };
    let scan = |len: usize| {
        let mut scanner = Scanner::default();
        stream.chunks(len).for_each(|piece| scanner.push(piece));
        scanner.finish(&[])
    };
    let whole = within(8 << 20, stream.len(), || scan(stream.len().max(1)));
    let pieces = scan(usize::from(*first) + 1);
    assert!(whole == pieces, "the pieces make no difference");
    if let Ok(packed) = &whole {
        let Ok(index) = decode(packed) else { panic!("an encoded index can be decoded") };
        let end = index.members.iter().flat_map(|member| &member.pieces).map(|piece| {
            let from = piece.at as usize;
            assert!(
                piece.proves(&stream[from..from + piece.len as usize]),
                "content is where the index says"
            );
            piece.at + u64::from(piece.len)
        });
        assert!(end.max().unwrap_or_default() <= index.len && index.len == stream.len() as u64);
    }
    let _ = decode(bytes);
});

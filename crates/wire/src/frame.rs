//! Frames: header, body, payload.

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FrameError;

/// The length of a header in bytes.
pub const HEADER_LEN: usize = 32;
/// The most bytes in a body.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
/// The most bytes in a payload.
pub const MAX_PAYLOAD: usize = haul_core::buffer::BUFFER_LEN;

const MAGIC: [u8; 4] = [0x89, b'h', b'l', 1];

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The first frame from the local end.
    Hello,
    /// The first frame from the remote end.
    Welcome,
    /// A request.
    Request,
    /// The response to a request.
    Response,
    /// A sign of life.
    Ping,
}

impl FrameKind {
    fn byte(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Welcome => 2,
            Self::Request => 3,
            Self::Response => 4,
            Self::Ping => 5,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Request,
            4 => Self::Response,
            5 => Self::Ping,
            _ => return None,
        })
    }
}

/// A header that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The length of the body, at most [`MAX_BODY`].
    pub body_len: u32,
    /// The length of the payload, at most [`MAX_PAYLOAD`].
    pub payload_len: u32,
    /// The number of the request.
    pub id: u64,
    /// CRC-32C of the body.
    pub body_crc: u32,
}

impl FrameHeader {
    /// Reads a header and checks it. No length in the result is over its limit.
    ///
    /// # Errors
    /// Says which rule is broken.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, FrameError> {
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        if crc32c::crc32c(&bytes[..28]) != number(bytes, 28) {
            return Err(FrameError::HeaderCrc);
        }
        if bytes[5..8] != [0; 3] {
            return Err(FrameError::Kind);
        }
        let kind = FrameKind::from_byte(bytes[4]).ok_or(FrameError::Kind)?;
        let header = Self {
            kind,
            body_len: number(bytes, 8),
            payload_len: number(bytes, 12),
            id: u64::from(number(bytes, 16)) | u64::from(number(bytes, 20)) << 32,
            body_crc: number(bytes, 24),
        };
        let content_allowed = matches!(kind, FrameKind::Request | FrameKind::Response);
        if header.body_len as usize > MAX_BODY
            || header.payload_len as usize > MAX_PAYLOAD
            || (header.payload_len > 0 && !content_allowed)
            || (header.body_len > 0 && kind == FrameKind::Ping)
        {
            return Err(FrameError::Length);
        }
        Ok(header)
    }

    /// Whether the first bytes that came could begin a header.
    ///
    /// # Errors
    /// [`FrameError::Magic`] if not.
    pub fn check_prefix(bytes: &[u8]) -> Result<(), FrameError> {
        let n = bytes.len().min(MAGIC.len());
        if bytes[..n] == MAGIC[..n] { Ok(()) } else { Err(FrameError::Magic) }
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind.byte();
        bytes[8..12].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Whether `body` is the body that the header was made for.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn check_body(&self, body: &[u8]) -> Result<(), FrameError> {
        if body.len() == self.body_len as usize && crc32c::crc32c(body) == self.body_crc {
            Ok(())
        } else {
            Err(FrameError::BodyCrc)
        }
    }
}

fn number(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Header and body of a message that `payload_len` bytes of payload will follow, ready to be written.
///
/// # Errors
/// [`FrameError::TooLarge`] if the body would be over [`MAX_BODY`]; nothing else.
pub fn encode<T: Serialize>(
    kind: FrameKind,
    id: u64,
    message: &T,
    payload_len: usize,
) -> Result<Vec<u8>, FrameError> {
    if payload_len > MAX_PAYLOAD {
        return Err(FrameError::TooLarge);
    }
    let mut bytes = Vec::with_capacity(256);
    bytes.resize(HEADER_LEN, 0);
    let mut bytes =
        postcard::serialize_with_flavor(message, Bounded(bytes)).map_err(|_| FrameError::TooLarge)?;
    let body = &bytes[HEADER_LEN..];
    let header = FrameHeader {
        kind,
        body_len: u32::try_from(body.len()).map_err(|_| FrameError::TooLarge)?,
        payload_len: u32::try_from(payload_len).map_err(|_| FrameError::TooLarge)?,
        id,
        body_crc: crc32c::crc32c(body),
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    Ok(bytes)
}

/// A whole Ping.
#[must_use]
pub fn encode_ping() -> [u8; HEADER_LEN] {
    FrameHeader { kind: FrameKind::Ping, body_len: 0, payload_len: 0, id: 0, body_crc: crc32c::crc32c(&[]) }
        .encode()
}

/// Gives a frame from [`encode`] another id, for sending the same message again.
///
/// # Errors
/// If `frame` does not begin with a header.
pub fn set_id(frame: &mut [u8], id: u64) -> Result<(), FrameError> {
    let head = frame.first_chunk_mut::<HEADER_LEN>().ok_or(FrameError::Magic)?;
    let mut header = FrameHeader::decode(head)?;
    header.id = id;
    *head = header.encode();
    Ok(())
}

/// Reads the message in a body, which must be all of it.
///
/// # Errors
/// If the body holds no such message, or more than it, or one that takes more memory than [`crate::budget`] allows.
pub fn decode_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    crate::budget::decode(body)
}

/// Collects a body and stops at its limit, so that a message that is too large does not take the memory first.
struct Bounded(Vec<u8>);

impl Flavor for Bounded {
    type Output = Vec<u8>;

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if self.0.len() + data.len() > HEADER_LEN + MAX_BODY {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.try_extend(&[data])
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(frame: &[u8]) -> [u8; HEADER_LEN] {
        *frame.first_chunk().unwrap()
    }

    #[test]
    fn any_flipped_bit_of_header_or_body_is_found() {
        let frame = encode(FrameKind::Request, 7, &"some message".to_owned(), 99).unwrap();
        for at in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[at / 8] ^= 1 << (at % 8);
            let found = FrameHeader::decode(&head(&bad)).and_then(|h| h.check_body(&bad[HEADER_LEN..]));
            assert!(found.is_err(), "bit {at}");
        }
        let header = FrameHeader::decode(&head(&frame)).unwrap();
        assert_eq!((header.id, header.payload_len), (7, 99));
        assert!(header.check_body(&frame[HEADER_LEN..]).is_ok());
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_taken() {
        let good = FrameHeader { kind: FrameKind::Request, body_len: 1, payload_len: 1, id: 1, body_crc: 0 };
        let decode = |h: FrameHeader| FrameHeader::decode(&h.encode());
        assert!(decode(good).is_ok());
        assert!(
            decode(FrameHeader { body_len: MAX_BODY as u32, payload_len: MAX_PAYLOAD as u32, ..good })
                .is_ok()
        );
        for bad in [
            FrameHeader { body_len: MAX_BODY as u32 + 1, ..good },
            FrameHeader { payload_len: MAX_PAYLOAD as u32 + 1, ..good },
            FrameHeader { kind: FrameKind::Hello, ..good },
            FrameHeader { kind: FrameKind::Ping, payload_len: 0, ..good },
        ] {
            assert_eq!(decode(bad), Err(FrameError::Length));
        }
        let large = serde_bytes::ByteBuf::from(vec![0; MAX_BODY]);
        assert_eq!(encode(FrameKind::Request, 1, &large, 0), Err(FrameError::TooLarge));
        assert_eq!(encode(FrameKind::Request, 1, &(), MAX_PAYLOAD + 1), Err(FrameError::TooLarge));
    }

    #[test]
    fn the_same_message_again_under_another_id() {
        let mut frame = encode(FrameKind::Response, 3, &5_u32, 0).unwrap();
        set_id(&mut frame, u64::MAX - 1).unwrap();
        assert_eq!(frame, encode(FrameKind::Response, u64::MAX - 1, &5_u32, 0).unwrap());
    }

    #[test]
    fn a_body_is_one_message_and_nothing_more() {
        assert_eq!(decode_body::<u32>(&[5]), Ok(5));
        assert_eq!(decode_body::<u32>(&[5, 0]), Err(FrameError::Body));
        assert_eq!(decode_body::<u32>(&[]), Err(FrameError::Body));
    }
}

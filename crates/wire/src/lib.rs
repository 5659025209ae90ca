//! The protocol between two haul processes, version [`VERSION`]: frames and messages, no input or output.
//!
//! This text and the types of [`message`] are the specification.
//!
//! # Goals and non-goals
//!
//! * One *near* process (it was started by a person) talks to one *far* process over any number of *connections*. A connection
//!   is a pair of byte streams, one each way: the standard input and output of `haul agent`, started by ssh, or a TCP
//!   connection with TLS 1.3.
//! * Any request may travel on any connection. The death of a connection loses no work but what was on it, and that can be
//!   asked for again on another one.
//! * A connection that stalls is told from one that is idle, without a timer for each request.
//! * Content is neither copied nor hashed by the protocol: it goes from the frame into the buffer that it is
//!   written to disk from. Its proof, a BLAKE3 chaining value for each slice or part of one, travels with it.
//! * Not a goal: secrecy and login (ssh and TLS do both), fairness between users, other transports than streams that
//!   keep order, peers of another version.
//!
//! # Frame
//!
//! Both directions are a sequence of frames with nothing between them. A frame is a header of [`HEADER_LEN`] = 32
//! bytes, a body and a payload. Numbers are little-endian.
//!
//! | offset | bytes | field | |
//! |--:|--:|---|---|
//! | 0 | 4 | magic | `89 68 6c 01`: no text begins so; the last byte is the version of this header |
//! | 4 | 1 | kind | 1 Hello, 2 Welcome, 3 Request, 4 Response, 5 Ping |
//! | 5 | 3 | zero | reserved |
//! | 8 | 4 | body length | at most [`MAX_BODY`] |
//! | 12 | 4 | payload length | at most [`MAX_PAYLOAD`]; 0 unless the kind is Request or Response |
//! | 16 | 8 | id | of the request; 0 for Hello, Welcome and Ping |
//! | 24 | 4 | body checksum | CRC-32C of the body |
//! | 28 | 4 | header checksum | CRC-32C of the 28 bytes before it |
//!
//! The header has a checksum of its own so that a length is never believed, nor waited for, on the word of a
//! damaged byte. The body is one message in [postcard](https://postcard.jamesmunns.com/wire-format) encoding, with
//! nothing after it. The payload is raw content and is *not* covered by a checksum here: each slice in it is
//! checked against its chaining value by whoever writes it, and a slice that does not verify is sent again.
//! (The payload of [`Request::Swallow`] and [`Response::Produced`] is nobody's content and is not checked.)
//!
//! # Packed content
//!
//! The content of one batch may be packed, as one piece: then [`haul_core::Packing`] tells how, and how many bytes it
//! was before (at most one buffer, 4 MiB, and more than the payload has). Extents and chaining values are those of the
//! content before packing. Content that does not get smaller travels as it is. Who sends it chooses, for each batch
//! anew; for [`Request::Read`] the local end says what it wishes.
//!
//! | method | payload |
//! |---|---|
//! | `Zstd` | one [zstd frame](https://www.rfc-editor.org/rfc/rfc8878); the level is told for people only |
//! | `Lz4` | for each 256 KiB of content, the last one shorter: the length of a block in 4 bytes, and an [LZ4 block](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md) |
//!
//! What does not unpack to exactly the length that was told counts as slices that did not verify.
//!
//! # Files that changed a little
//!
//! Of a file that is to be replaced the sink tells the pages ([`Request::PageHashes`], [`haul_core::delta`]): half of the
//! BLAKE3 chaining value of each 16 KiB. They go to the source with [`Request::Read`] or [`Request::Pull`]; what is the
//! same there is named by its extent and not sent. The sink takes it from the file that it has, and checks the whole
//! slice against its chaining value as any other.
//!
//! # Order of things
//!
//! 1. On each connection the local end sends one Hello, the remote end one Welcome. Hello names the session to join; the
//!    first one names none, and the Welcome tells the session that was made for it. If the session is not there
//!    any more, Hello says whether a new one is wanted instead; the local end tells by the session in Welcome.
//!    The first connection goes through ssh. Hello and Welcome on it carry a public key of each end, and the port that the
//!    remote end listens on. A direct connection is a TCP connection to it, or, after [`Request::Connect`], one from the remote end
//!    to the local end. Who listens is the TLS server. Both ends prove that they hold their keys (raw public keys, RFC
//!    7250) and accept no other; then the local end says Hello on it as on any connection.
//! 2. Then the local end sends Requests, each with an id that it has not used in this session, and the remote end sends
//!    exactly one Response with the same id on the same connection, in any order, as late as it takes: a
//!    [`Request::Write`] is answered when its content is durable.
//! 3. Either end sends a Ping, an empty body, when it has sent nothing for a second. A Ping is not answered. Who has
//!    heard nothing at all for the time given in Hello may take the connection for dead.
//! 4. A connection ends when its streams end. The remote end makes durable what it has taken and ends when its last connection is
//!    gone.
//!
//! Requests of one connection are *begun* in their order as far as this holds: a [`Request::Write`] has been taken by the
//! sink before a request that follows it on the same connection is begun. So a [`Request::Flush`] covers the writes before
//! it on its connection. Nothing else is ordered; who needs order waits for the response.
//!
//! # Two remote ends
//!
//! Where the source is at one remote end, A, and the sink at another, B, content may go from A to B by connections between these
//! two. The local end tells each the other's public key, has A listen ([`Request::Admit`]) and B connect
//! ([`Request::Meet`]); if B cannot reach A, B listens ([`Request::Expect`]) and A connects ([`Request::Visit`]), for the
//! first connection; for more of them B says [`Request::Connect`] on that one. On these connections B is what the local end is on
//! others: it says Hello with A's session, and then [`Request::Pull`]. The local end goes on saying what is to be copied: it sends B
//! a [`Request::Fetch`] in the place of a [`Request::Write`]. A reads for B only what a ticket of the local end is for
//! ([`ticket`]), and does not live on for B's connections alone.
//!
//! # Repeating
//!
//! Every request is idempotent. When a connection dies, each request on it that has no response may have been carried out
//! or not, and is sent again on another connection. What makes this safe: roots and scans have numbers chosen by the near
//! end, parts of a scan are kept until they are acknowledged, and the far operations themselves give the same
//! outcome when repeated ([`haul_core::Sink`]).
//!
//! # Errors
//!
//! A failure of one thing (an entry, a slice) is part of the response. A failure of a whole request is
//! [`Response::Failed`]. A response that would not fit into a body is [`Response::TooLarge`]: the local end asks for
//! less. A root or scan that the remote end does not have is [`Response::Gone`].
//!
//! A frame that breaks a rule of this text ends the connection that it came on and nothing else.
//!
//! # Security
//!
//! Neither end trusts the other, nor one remote end another one. Lengths are bounded before memory is taken for them. Paths are [`haul_core::RelPath`]:
//! they cannot be absolute nor hold `..`. Batches and extents are checked against each other and against the payload
//! ([`check`]) before they reach a source or a sink. Unpacking writes into one buffer and no further, whatever a frame
//! claims to hold. The digest of what was written is computed by who writes it.
//!
//! # Versions
//!
//! The two ends must speak the same [`VERSION`]; it is raised with every change of a message, and of the types of
//! haul-core in it. What never changes, so that two versions can tell each other what they are: the header, the
//! kinds 1 and 2, and that the bodies of Hello and Welcome begin with the version (postcard `u32`) and the release
//! (postcard string). Who gets a Hello of another version sends its own Welcome and ends the connection.

pub mod budget;
pub mod check;
pub mod frame;
pub mod message;
pub mod ticket;

pub use frame::{
    FrameError, HEADER_LEN, Header, Kind, MAX_BODY, MAX_PAYLOAD, decode_body, encode, encode_ping, set_id,
};
pub use message::{
    DirectAnswer, DirectOffer, Hello, Neighbour, PairId, Reach, Request, Response, RootId, ScanId, ScanPart,
    SessionId, Welcome, peek_version,
};

/// The version of the protocol.
pub const VERSION: u32 = 8;

/// Slices that are compared in one [`Request::PageHashes`] at most.
pub const MAX_COMPARED: u32 = 64;

/// Kinds of metadata that are named in one [`Response::Finish`] at most.
pub const MAX_NOTES: usize = 1000;

/// Addresses of one end that a message names at most.
pub const MAX_ADDRESSES: usize = 16;

/// Connections between two remote ends that one [`Response::Fetched`] may tell of.
pub const MAX_CONNECTIONS: u32 = 1024;

/// Operations that are named in one [`Response::HungOperation`] at most.
pub const MAX_STUCK: usize = 100;

#[cfg(test)]
mod tests;

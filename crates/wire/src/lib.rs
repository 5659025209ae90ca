//! The protocol between two haul processes, version [`VERSION`]: frames and messages, without input or output.
//!
//! This text and the types of [`message`] are the specification.
//!
//! # Terms
//!
//! * The *local end* is the process that a person started. It sends requests.
//! * The *remote end* is the process `haul agent`, which the local end started over ssh. It sends responses.
//! * A *connection* is a pair of byte streams, one in each direction: the standard input and output of `haul agent`, or
//!   a TCP connection with TLS 1.3.
//! * A *session* is all connections between one local end and one remote end. It has a random name.
//! * A *root* is a source or a sink that the remote end has opened. The local end gives it a number.
//!
//! # Goals and non-goals
//!
//! * Any request may travel on any connection. When a connection dies, only the requests on it are lost, and the local
//!   end sends them again on another connection.
//! * Both ends can tell a stalled connection from an idle one without a timer for each request.
//! * The protocol neither copies nor hashes content: content goes from the frame into the buffer that is written to
//!   disk. A BLAKE3 chaining value for each slice, or part of a slice, travels with it as its proof.
//! * Non-goals: encryption and login (ssh and TLS provide both), fairness between users, transports that reorder bytes,
//!   and peers of another version.
//!
//! # Frame
//!
//! Each direction is a sequence of frames with nothing between them. A frame is a header of [`HEADER_LEN`] = 32 bytes,
//! a body and a payload. Numbers are little-endian.
//!
//! | offset | bytes | field | value |
//! |--:|--:|---|---|
//! | 0 | 4 | magic | `89 68 6c 01`; no text starts with it, and the last byte is the version of this header |
//! | 4 | 1 | kind | 1 Hello, 2 Welcome, 3 Request, 4 Response, 5 Ping |
//! | 5 | 3 | reserved | zero |
//! | 8 | 4 | body length | at most [`MAX_BODY`] |
//! | 12 | 4 | payload length | at most [`MAX_PAYLOAD`]; 0 unless the kind is Request or Response |
//! | 16 | 8 | id | the number of the request; 0 for Hello, Welcome and Ping |
//! | 24 | 4 | body checksum | CRC-32C of the body |
//! | 28 | 4 | header checksum | CRC-32C of the 28 bytes before it |
//!
//! The header has its own checksum so that a damaged length is never used. The body is one message in
//! [postcard](https://postcard.jamesmunns.com/wire-format) encoding, with no bytes after it. The payload is content. No
//! checksum of the frame covers it: the end that writes a slice checks it against its chaining value, and a slice that
//! does not match is sent again. (The payloads of [`Request::Swallow`] and [`Response::Produced`] belong to no slice
//! and are not checked.)
//!
//! # Compressed content
//!
//! The content of a batch may be compressed as one piece. [`haul_core::Packing`] then holds the method and the
//! uncompressed length, which is at most one buffer (4 MiB) and more than the length of the payload. Extents and
//! chaining values describe the uncompressed content. Content that does not get smaller is sent uncompressed. The
//! sender chooses for each batch; for [`Request::Read`] the request holds the wish of the local end.
//!
//! | method | payload |
//! |---|---|
//! | `Zstd` | one [zstd frame](https://www.rfc-editor.org/rfc/rfc8878); the level is for display only |
//! | `Lz4` | for each 256 KiB of content (the last piece may be shorter): the length of a block in 4 bytes, and an [LZ4 block](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md) |
//!
//! If a payload does not decompress to exactly the stated length, its slices count as not verified.
//!
//! # Slices that are read while they are sent
//!
//! The end that reads a slice may send it while it reads it (`proof_follows`). The proof is not known yet when the frame
//! begins. The payload then comes in chunks ([`passing`]), whose headers the length in the header of the frame does not
//! count, and a trailer follows: a byte 1 and the chaining value, or 33 zeros if the slice could not be read to its end.
//! Zeros take the place of missing content then, and nothing of the slice counts. An empty chunk is a sign of life while a
//! disk is slow. The sender of a [`Request::Write`] waits for no outcome of a slice without a proof. The sender of a
//! [`Request::Read`] asks for the slice again, with its proof before the content, and gets the error.
//!
//! # Delta transfer
//!
//! For a file that is to be replaced, the sink can send hashes of its pages ([`Request::PageHashes`],
//! [`haul_core::delta`]): the first half of the BLAKE3 chaining value of every 16 KiB. The local end passes them to the
//! source with [`Request::Read`] or [`Request::Pull`]. The source sends an extent without content for each page that is
//! equal. The sink takes these pages from its own file, and checks the whole slice against its chaining value as
//! always.
//!
//! # Streams
//!
//! The slices of a stream ([`haul_core::Entry::stream`]: its inode number is 2⁶⁴ − 1) may be written before its length is
//! known. Its entry then has the length 2⁶⁴ − 1, and all of its slices are whole. The last slice is written with the true
//! length. A slice whose only extent is equal, and that has no content, asks whether the sink has it from an interrupted
//! run. Only [`Request::Offer`], [`Request::Write`] and [`Request::Read`] may have an entry of that length.
//!
//! # Programs
//!
//! A remote end runs a program ([`Request::RunProducer`], [`Request::RunConsumer`]) whose standard output is a source,
//! or whose standard input is a sink, of one stream. A [`Request::Read`] of one slice of it waits until the slice is
//! complete; the answer has the length of the stream if it ends in the slice or before it. The source keeps as many
//! slices as it was told to: a Read says that the local end has all slices further back. The sink answers a
//! [`Request::Write`] once the program has taken the slice, in order, and the last slice with the digest of the whole
//! stream. The program sees the end of its input only with [`Request::Finish`], which is answered when it has exited.
//! With [`Request::Stop`], with [`Request::Discard`], and when the session ends, the program is killed. A remote end that
//! was started again has no such root: a program is never run twice.
//!
//! # Sequence
//!
//! 1. On each connection the local end sends one Hello, and the remote end sends one Welcome. The first Hello names no
//!    session; its Welcome names the session that the remote end made. Each further Hello names the session to join. If
//!    that session has ended, the flag `fresh` in Hello says whether the remote end shall make another one; the name in
//!    Welcome shows which one it is. The first connection goes through ssh. Its Hello and Welcome carry a public key of
//!    each end, and the port on which the remote end listens. A direct connection is a TCP connection to that port or,
//!    after [`Request::Connect`], a TCP connection from the remote end to the local end. The end that listens is the
//!    TLS server. Both ends prove that they hold their keys (raw public keys, RFC 7250) and accept no other key. The
//!    local end then sends Hello as on any connection.
//! 2. The local end then sends Requests. Each has an id that is new in this session. The remote end sends exactly one
//!    Response with the same id on the same connection, in any order and at any time: it answers a [`Request::Write`]
//!    when the content is durable.
//! 3. An end that has sent nothing for a second sends a Ping, which has an empty body and no answer. An end that has
//!    received nothing for the timeout in Hello may treat the connection as dead.
//! 4. A connection ends when its streams end. When its last connection has ended, the remote end makes all accepted
//!    writes durable, and exits.
//!
//! The remote end *begins* the requests of one connection in their order in one respect: the sink has accepted a
//! [`Request::Write`] before a later request on the same connection begins. A [`Request::Flush`] therefore covers the
//! writes before it on its connection. Nothing else is ordered. A local end that needs an order waits for the response.
//!
//! # Third-party copy
//!
//! If the source is at one remote end, A, and the sink at another one, B, content may go directly from A to B. The
//! local end gives each the public key of the other. A listens ([`Request::Admit`]) and B connects ([`Request::Meet`]).
//! If B cannot reach A, B listens ([`Request::Expect`]) and A makes the first connection ([`Request::Visit`]); B asks
//! for more with [`Request::Connect`] on that one. On these connections B takes the part of the local end: it sends
//! Hello with the session of A, and then [`Request::Pull`]. The local end still decides which batches are copied: it
//! sends a [`Request::Fetch`] to B where it would otherwise send a [`Request::Write`]. A reads for B only batches with
//! a ticket of the local end ([`ticket`]). The connections of B do not keep A running.
//!
//! # Repeated requests
//!
//! Every request is idempotent. When a connection dies, any request on it without a response may or may not have been
//! carried out. The local end sends it again on another connection. Three rules make this safe: the local end chooses
//! the numbers of roots and scans; the remote end keeps the parts of a scan until they are acknowledged; and a repeated
//! operation has the same outcome ([`haul_core::Sink`]).
//!
//! # Errors
//!
//! If one entry or one slice fails, its error is part of the response. If the whole request fails, the response is
//! [`Response::Failed`]. If the response would not fit into a body, it is [`Response::TooLarge`], and the local end
//! asks for less. If the remote end does not have the root or scan, the response is [`Response::Gone`].
//!
//! A frame that breaks a rule of this text ends the connection that it came on, and nothing else.
//!
//! # Security
//!
//! No end trusts another one. Each end checks a length against its limit before it allocates memory. Paths are
//! [`haul_core::RelPath`], which cannot be absolute and cannot contain `..`. Batches and extents are checked against
//! each other and against the payload ([`check`]) before a source or a sink gets them. Decoding a message may take a
//! limited amount of memory ([`budget`]). Decompression writes into one buffer of fixed size. The end that writes
//! content computes its digest.
//!
//! # Versions
//!
//! Both ends must use the same [`VERSION`]. It is raised with every change of a message, or of a type of haul-core
//! inside a message. Three things never change, so that two versions can report each other's: the header, the kinds 1
//! and 2, and the start of the bodies of Hello and Welcome, which is the version (postcard `u32`) and the release
//! (postcard string). An end that receives a Hello of another version sends its own Welcome and ends the connection.

pub mod budget;
pub mod check;
mod error;
pub mod frame;
mod hello;
mod ids;
mod limits;
pub mod message;
pub mod passing;
pub mod ticket;

pub use error::FrameError;
pub use frame::{
    FrameHeader, FrameKind, HEADER_LEN, MAX_BODY, MAX_PAYLOAD, decode_body, encode, encode_ping, set_id,
};
pub use hello::{DirectAnswer, DirectOffer, Hello, Welcome, peek_version};
pub use ids::{PairId, RootId, ScanId, SessionId};
pub use limits::{MAX_ADDRESSES, MAX_COMPARED, MAX_CONNECTIONS, MAX_NOTES, MAX_STUCK, VERSION};
pub use message::{Granter, Reach, Request, Response, ScanPart};
pub use passing::ChunkReader;

#[cfg(test)]
mod tests;

//! How bytes travel between two haul processes: frames over the pipes of ssh, or over TCP with TLS.
//!
//! From the bottom up: [`liveness`] tells a stalled stream from an idle one; `nonblocking` waits for descriptors;
//! [`identity`] makes the keys that are exchanged over ssh; [`tcp`] connects; [`records`] encrypts and decrypts,
//! with the keys that `tls` gets from the handshake;
//! [`stream`] is either kind of stream; [`secure`] turns a socket into a TLS connection; `admission` decides which
//! strangers may wait at a port; [`listener`] waits for the other end; [`frames`] reads and writes frames.

mod admission;
pub mod frames;
pub mod identity;
pub mod listener;
pub mod liveness;
mod nonblocking;
pub mod records;
pub mod secure;
pub mod shared_writer;
pub mod stream;
pub mod tcp;
pub mod tls;

pub use frames::{FrameReader, FrameWriter, LinkError};
pub use identity::{KeyPair, PublicKey};
pub use listener::{Listener, Ports};
pub use liveness::Liveness;
pub use secure::ConnectionKeys;
pub use shared_writer::{FrameOutput, SharedWriter};
pub use stream::{Receive, Streams, Transmit};

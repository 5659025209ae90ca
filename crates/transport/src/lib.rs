//! How bytes travel between two haul processes: frames over pipes, and over TCP with TLS.
//!
//! Read [`frames`] (frames over streams), then [`stream`] (what a stream may be: descriptors of ssh, or a TLS
//! connection), [`identity`] (who may connect: keys that were exchanged over ssh), [`secure`] (TLS on a socket) and
//! [`listener`] (waiting for the other end among strangers; the private module `door` says who may wait). [`liveness`] tells
//! a stalled stream from an idle one.

mod door;
pub mod frames;
pub mod identity;
pub mod listener;
pub mod liveness;
pub mod secure;
pub mod stream;
pub mod tcp;

pub use frames::{FrameReader, FrameWriter, LinkError};
pub use identity::{Identity, PublicKey};
pub use listener::{Listener, Ports};
pub use liveness::Liveness;
pub use secure::Credentials;
pub use stream::{Receive, Streams, Transmit};

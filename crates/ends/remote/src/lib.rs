//! A remote haul, reached over one or more connections, as a source and a sink.
//!
//! A [`Peer`] is a session with one remote process. Any request may go over any connection. The first connection goes
//! through ssh (`haul-ssh`) and must be up before work begins; further ones are opened when content has to wait. When a
//! connection dies, the requests on it are sent again on another one. Content goes over TLS connections around ssh
//! where there is a way, and from one remote end to another where these two reach each other.
//!
//! From the bottom up:
//!
//! * `connection`, `state`, `session`, `requests`: the connections, the answers that they owe, and the requests on
//!   them;
//! * `greeting`, `direct`, `admit`, `reader`: how a connection is opened, greeted and read;
//! * `supervisor`, `tuner`, `straggler`, `carried`, `hint`: who opens, watches and replaces connections, how many there
//!   are, and the facts for later runs;
//! * `peer`, `root`, `source`, `sink`, `parts`, `watch`: the calls of the contract as requests;
//! * `third_party`: copies between two remote ends;
//! * `probe`: measures the link.
//!
//! Frames are in `haul-transport`, messages in `haul-wire`.

mod admit;
mod carried;
mod config;
mod connection;
mod direct;
mod gate;
mod greeting;
mod hashed;
mod hint;
mod open;
mod parts;
mod peer;
mod probe;
mod reader;
mod reply_content;
mod requests;
mod root;
mod session;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
mod sink;
mod source;
mod state;
mod straggler;
mod supervisor;
mod third_party;
mod traffic;
mod tuner;
mod watch;

pub use config::{PeerConfig, Transport};
pub use direct::addresses;
pub use greeting::is_other_version;
pub use haul_transport::Ports;
pub use peer::Peer;
pub use probe::{ContentDirection, LinkThroughput};
pub use third_party::broker::Broker;
pub use third_party::puller::{ExpectedGranter, Puller};

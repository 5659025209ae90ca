//! The first message of each end on a connection.

use std::net::IpAddr;

use haul_core::text::{Clean, shown};
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::limits::VERSION;

/// The first message on a connection, from the local end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The sender's release, for display.
    #[serde(deserialize_with = "shown")]
    pub release: String,
    /// The session to join; `None` on the first connection.
    pub session: Option<SessionId>,
    /// Whether to make a new session if that one has ended.
    pub fresh: bool,
    /// The memory budget of the remote process for content, in bytes.
    pub max_memory: u64,
    /// The limit of file-system operations per second on each side; `None` is no limit.
    pub iops: Option<u64>,
    /// The most connections that the local end opens.
    pub connections: u32,
    /// Seconds of silence after which a connection counts as dead.
    pub timeout: u32,
    /// The parameters of direct connections; `None` if none are wanted.
    pub direct: Option<DirectOffer>,
}

/// The parameters of direct connections (TLS over TCP), from the local end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectOffer {
    /// The local end's public key: a DER-encoded SubjectPublicKeyInfo.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The first and the last port that an end may listen on; `None` allows any.
    pub ports: Option<(u16, u16)>,
    /// The congestion control to set; `None` keeps that of the system.
    pub congestion: Option<String>,
    /// The addresses that ssh connects to without a proxy, as far as the local end knows them. A remote end uses them
    /// if sshd reports none.
    pub at: Vec<IpAddr>,
    /// The local end's address on that route, if it is known.
    pub from: Option<IpAddr>,
}

/// The parameters of direct connections, from the remote end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectAnswer {
    /// The remote end's public key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The port on which the remote end listens, or why it cannot listen.
    #[serde(deserialize_with = "shown")]
    pub port: std::result::Result<u16, String>,
    /// The address at which ssh reached the remote end, as its own system reports it.
    pub address: Option<IpAddr>,
}

/// The answer to [`Hello`], from the remote end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The sender's release, for display.
    #[serde(deserialize_with = "shown")]
    pub release: String,
    /// The session that the connection now belongs to, or why it was not accepted.
    #[serde(deserialize_with = "shown")]
    pub session: std::result::Result<SessionId, String>,
    /// The parameters of direct connections, if Hello asked for them.
    pub direct: Option<DirectAnswer>,
}

impl Welcome {
    /// A welcome of this version.
    #[must_use]
    pub fn new(session: std::result::Result<SessionId, String>) -> Self {
        Self { version: VERSION, release: env!("CARGO_PKG_VERSION").to_owned(), session, direct: None }
    }
}

/// The version and the release at the start of a body of Hello or Welcome, of any version.
#[must_use]
pub fn peek_version(body: &[u8]) -> Option<(u32, String)> {
    let (version, rest) = postcard::take_from_bytes::<u32>(body).ok()?;
    let (release, _) = postcard::take_from_bytes::<String>(rest).ok()?;
    Some((version, release.clean()))
}

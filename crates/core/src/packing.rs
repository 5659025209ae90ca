//! Compression of content in transit, and statistics of connections. Digests are always of the uncompressed bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Method {
    /// LZ4 blocks: fast, with a low compression ratio.
    Lz4,
    /// A zstd frame of this level.
    Zstd(i8),
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// The compression that the user asked for (`--compress`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Compress {
    /// Chosen for each batch by the speed of the link and the CPUs.
    #[default]
    Auto,
    /// No compression.
    Never,
    /// Always this method; batches that do not become smaller are sent uncompressed.
    Always(Method),
}

/// The compression of one batch, which is compressed as one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The method.
    pub method: Method,
    /// The uncompressed length in bytes: more than the compressed length, and at most [`crate::buffer::BUFFER_LEN`].
    pub plain_len: u32,
}

/// The traffic between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// The bytes of content as sent, compressed or not.
    pub wire_bytes: u64,
    /// The bytes of content that were not sent between two remote ends because the destination had them.
    pub matched_bytes: u64,
    /// The bytes of content that were not sent because an interrupted run had sent them.
    pub resumed_bytes: u64,
    /// The compression of the last batch; `None` if it was not compressed, or if none was sent yet.
    pub method: Option<Method>,
    /// The TCP statistics of the local kernel, for direct connections.
    pub tcp: Option<Tcp>,
}

/// TCP statistics of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// The mean round-trip time of the connections, in microseconds.
    pub rtt_micros: u32,
    /// The segments that this end retransmitted.
    pub retransmits: u64,
    /// The limit that held back sending for most of the time, besides the network.
    pub held_by: Option<HeldBy>,
}

/// The limit of a connection, besides the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// The receive window of the other end (its `net.ipv4.tcp_rmem`).
    Window,
    /// The send buffer of this end (`net.ipv4.tcp_wmem`).
    Buffer,
}

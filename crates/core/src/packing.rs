//! How content is packed on its way between two machines. Digests are always those of the plain bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to make bytes fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Method {
    /// LZ4 blocks: quick, and not very small.
    Lz4,
    /// A zstd frame, made at this level.
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

/// What the person asked for (`--compress`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Compress {
    /// As the link and the processors suggest, batch by batch.
    #[default]
    Auto,
    /// Content travels as it is.
    Never,
    /// Always this; what does not get smaller by it travels as it is.
    Always(Method),
}

/// How the content of one batch is packed, as one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The way.
    pub method: Method,
    /// Bytes before packing: more than after it, and at most [`crate::buffer::BUFFER_LEN`].
    pub plain_len: u32,
}

/// What has passed between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes of content as they travelled, packed or not.
    pub wire_bytes: u64,
    /// Bytes of content that did not travel between two remote ends because they were there.
    pub matched_bytes: u64,
    /// Bytes of content that did not travel because an interrupted run had sent them.
    pub resumed_bytes: u64,
    /// How the last batch was packed; `None` if it was not, or if none has travelled yet.
    pub method: Option<Method>,
    /// What the kernel here knows of the connections, where they are haul's own.
    pub tcp: Option<Tcp>,
}

/// What the kernel knows of TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// The round-trip time, in microseconds; the mean over the connections.
    pub rtt_micros: u32,
    /// Segments that this end had to send again.
    pub retransmits: u64,
    /// What held this end's sending back for most of the time, besides the network itself.
    pub held_by: Option<HeldBy>,
}

/// What holds a connection back, besides the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// The receive window of the other end (its `net.ipv4.tcp_rmem`).
    Window,
    /// The send buffer of this end (`net.ipv4.tcp_wmem`).
    Buffer,
}

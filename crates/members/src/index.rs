//! The index of the members of a stream.

use std::fmt;

use haul_core::entry::Xattr;
use haul_core::{EntryKind, RelPath, Timestamp};
use serde::{Deserialize, Serialize};

/// The format of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamFormat {
    /// xbstream, of Percona XtraBackup and mariadb-backup.
    Xbstream,
    /// tar: ustar, pax or GNU.
    Tar,
}

impl fmt::Display for StreamFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xbstream => "xbstream",
            Self::Tar => "tar",
        })
    }
}

/// Why a stream has no index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexFault {
    /// It is neither xbstream nor tar.
    Unknown,
    /// It is damaged, or has a name that no member may have, at this offset.
    Damaged(u64, String),
    /// It holds a kind of member that this version cannot unpack, at this offset.
    Unsupported(u64, String),
    /// It has more members than an index holds.
    TooMany,
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it is neither xbstream nor tar"),
            Self::Damaged(at, why) | Self::Unsupported(at, why) => write!(f, "{why} (byte {at})"),
            Self::TooMany => f.write_str("it has more members than an index holds"),
        }
    }
}

/// The metadata of a member, which the stream has before its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHead {
    /// Its path.
    pub path: RelPath,
    /// Its kind.
    pub kind: EntryKind,
    /// The member that it is another name of (hard link).
    pub link: Option<RelPath>,
    /// Its metadata; xbstream has none.
    pub metadata: Option<TarMetadata>,
}

/// The metadata of a member of tar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TarMetadata {
    /// The permission bits.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// The modification time.
    pub mtime: Timestamp,
    /// The extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
}

/// A run of the content of a member. It lies in one slice of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPiece {
    /// Its offset in the member.
    pub start: u64,
    /// Its offset in the stream.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Its CRC-32.
    pub crc: u32,
}

impl MemberPiece {
    /// Whether these bytes have its CRC-32.
    #[must_use]
    pub fn proves(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len as usize && crc32(bytes) == self.crc
    }
}

/// The CRC-32 of ISO 3309, which xbstream has of each chunk.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its metadata.
    pub head: MemberHead,
    /// Its length in bytes.
    pub len: u64,
    /// Its content, ascending; the gaps are holes.
    pub pieces: Vec<MemberPiece>,
}

impl Member {
    /// The bytes of its content that are not in holes.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.len)).sum()
    }
}

/// The members of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberIndex {
    /// The format.
    pub format: StreamFormat,
    /// The length of the stream in bytes.
    pub len: u64,
    /// The members, in the order of the stream; each path once.
    pub members: Vec<Member>,
    /// The lengths of the frames that the stream is stored in, if it is compressed.
    pub frames: Vec<u32>,
}

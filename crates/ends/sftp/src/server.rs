//! The extensions and limits of an SFTP server.

use std::time::Duration;

use super::packet::{self, PLAIN_DATA};

/// The most data in one request. OpenSSH allows a little less than a packet.
const MOST_DATA: u32 = 255 * 1024;
/// The least data in one write, whatever the server asks for: with a few bytes per write a copy would never end.
const LEAST_WRITE: u32 = 4 * 1024;
/// Open files at a time, if the server does not report a limit.
const FEW_HANDLES: usize = 64;
/// Handles to keep for journals and listings, if the server has that many.
const SPARE_HANDLES: u64 = 64;

/// The extensions and limits of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerFeatures {
    pub(super) posix_rename: bool,
    pub(super) hardlink: bool,
    pub(super) fsync: bool,
    pub(super) lsetstat: bool,
    pub(super) statvfs: bool,
    pub(super) expand_path: bool,
    /// Whether it tells its limits.
    pub(super) limits: bool,
    /// The most data in one read.
    pub(super) max_read: u32,
    /// The most data in one write.
    pub(super) max_write: u32,
    /// The most open files.
    pub(super) handles: usize,
    /// The directory that relative paths start from.
    pub(super) home: Vec<u8>,
    /// The round trip of a request that costs the server nothing.
    pub(super) round_trip: Duration,
}

impl ServerFeatures {
    /// A server with these extensions, before its limits are known.
    pub(super) fn with_extensions(offered: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let offers = |name: &str| offered.iter().any(|(offered, _)| offered == name.as_bytes());
        Self {
            posix_rename: offers(packet::POSIX_RENAME),
            hardlink: offers(packet::HARDLINK),
            fsync: offers(packet::FSYNC),
            lsetstat: offers(packet::LSETSTAT),
            statvfs: offers(packet::STATVFS),
            expand_path: offers(packet::EXPAND_PATH),
            limits: offers(packet::LIMITS),
            max_read: PLAIN_DATA,
            max_write: PLAIN_DATA,
            handles: FEW_HANDLES,
            home: Vec::new(),
            round_trip: Duration::ZERO,
        }
    }

    /// Applies the answer to `limits@openssh.com`: the longest packet, read and write, and the open handles.
    pub(super) fn limit(&mut self, [longest, read, write, handles]: [u64; 4]) {
        // Zero means that there is no limit, or that the server does not know it.
        let unknown = |limit: u64| if limit == 0 { u64::from(PLAIN_DATA) } else { limit };
        let data = |limit: u64, least: u32| u32::try_from(limit).unwrap_or(u32::MAX).clamp(least, MOST_DATA);
        // The packet of a write has a head beside its data.
        let packet = if longest == 0 { u64::MAX } else { longest.saturating_sub(1024) };
        // A server that is asked for too much sends less, so asking for it does no harm.
        self.max_read = data(unknown(read), PLAIN_DATA);
        self.max_write = data(unknown(write).min(packet), LEAST_WRITE);
        let handles = if handles == 0 {
            FEW_HANDLES as u64
        } else {
            handles.saturating_sub(SPARE_HANDLES).max(handles / 2)
        };
        self.handles = usize::try_from(handles).unwrap_or(FEW_HANDLES).clamp(1, 1000);
    }
}

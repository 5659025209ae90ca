//! How a small store is.

use std::time::Duration;

/// How a store is.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Content is counted and checked, and only small objects are kept.
    pub forgets: bool,
    /// It knows CRC-64/NVME; else it takes no notice of it.
    pub crc64: bool,
    /// Marks are MD5s; else they only look so, as where a key service encrypts.
    pub md5: bool,
    /// Parts that an object may have.
    pub max_parts: u32,
    /// How long it thinks about each request.
    pub delay: Duration,
}

impl Default for Habits {
    fn default() -> Self {
        Self { forgets: false, crc64: true, md5: true, max_parts: 10_000, delay: Duration::ZERO }
    }
}

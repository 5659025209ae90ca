//! The numbers and secrets that messages name things by.

/// The name of a session: random, so that nobody else can guess it.
pub type SessionId = [u8; 16];

/// The number of an open source or sink, chosen by the local end.
pub type RootId = u32;

/// The number of a scan, chosen by the local end.
pub type ScanId = u32;

/// The number of a third-party copy, chosen by the local end.
pub type PairId = u32;

/// The permission to fetch one batch from another remote end: see [`crate::ticket`].
pub type Ticket = [u8; 32];

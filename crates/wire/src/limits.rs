//! The version of the protocol, and the limits of lists in messages.

/// The version of the protocol.
pub const VERSION: u32 = 22;

/// The most slices in one [`crate::Request::PageHashes`].
pub const MAX_COMPARED: u32 = 64;

/// The most warnings in one [`crate::Response::Finish`].
pub const MAX_NOTES: usize = 1000;

/// The most addresses of one end in a message.
pub const MAX_ADDRESSES: usize = 16;

/// The most connections that one [`crate::Response::Fetched`] may report.
pub const MAX_CONNECTIONS: u32 = 1024;

/// The most operations in one [`crate::Response::HungOperation`].
pub const MAX_STUCK: usize = 100;

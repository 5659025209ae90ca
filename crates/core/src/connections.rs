//! How many TCP connections a long link needs.

use std::time::Duration;

/// The most bytes in flight on one connection with default settings of Linux: the largest send buffer
/// (`net.ipv4.tcp_wmem`).
const IN_FLIGHT: f64 = 4.0 * 1024.0 * 1024.0;
/// A link of 10 Gbit/s, in bytes per second.
const LINK: f64 = 1.25e9;

/// The connections that fill a link of 10 Gbit/s with this round trip: each carries at most its buffer in a round trip.
#[must_use]
pub fn connections_for_link(round_trip: Duration) -> u32 {
    (LINK * round_trip.as_secs_f64() / IN_FLIGHT).ceil() as u32
}

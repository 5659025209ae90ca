//! How many requests a stream will take.

use super::plan::Plan;
use crate::client::Client;

/// Requests for one stream into one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Those that write.
    pub put: u64,
    /// Those that ask.
    pub get: u64,
    /// Parts of the object; 0 if it goes in one request.
    pub parts: u64,
}

/// For a stream of `len` bytes. `None` if it does not fit into `max_parts` parts.
#[must_use]
pub fn estimate(client: &Client, len: u64, max_parts: u32, no_clobber: bool) -> Option<Estimate> {
    let plan = Plan::new(max_parts);
    let (mut left, mut parts) = (len, 0);
    while left > 0 {
        parts += 1;
        left = left.saturating_sub(plan.size(parts)?);
    }
    let looks = u64::from(no_clobber);
    if parts <= 1 {
        return Some(Estimate { put: 1, get: looks, parts: 0 });
    }
    let parts = u64::from(parts);
    // The beginning, where it is a request, the end, and the sidecar. Whether a sidecar may be written is asked; if
    // there is one already, it is read too. That nothing is there is asked once more at the end.
    let begins = u64::from(client.keeps_uploads().is_none());
    Some(Estimate { put: begins + parts + 2, get: 1 + 2 * looks, parts })
}

//! Estimates the requests of a stream.

use super::plan::PartPlan;
use haul_object::Client;

/// The requests for one stream into one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestEstimate {
    /// Requests that write.
    pub put: u64,
    /// Requests that read.
    pub get: u64,
    /// Parts of the object; 0 if it takes one request.
    pub parts: u64,
}

/// Estimates a stream of `len` bytes; `None` if it does not fit into `max_parts` parts.
#[must_use]
pub fn estimate(client: &Client, len: u64, max_parts: u32, no_clobber: bool) -> Option<RequestEstimate> {
    let plan = PartPlan::new(max_parts);
    let (mut left, mut parts) = (len, 0);
    while left > 0 {
        parts += 1;
        left = left.saturating_sub(plan.size(parts)?);
    }
    let looks = u64::from(no_clobber);
    if parts <= 1 {
        return Some(RequestEstimate { put: 1, get: looks, parts: 0 });
    }
    let parts = u64::from(parts);
    // Writes: creation (where it is a request), parts, completion, sidecar. Reads: the check of the sidecar's key (two
    // if a sidecar exists), and for no_clobber a check at the beginning and one at the end.
    let begins = u64::from(client.terms().keeps_uploads.is_none());
    Some(RequestEstimate { put: begins + parts + 2, get: 1 + 2 * looks, parts })
}

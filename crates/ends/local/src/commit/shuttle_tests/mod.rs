//! Tests of the sink and its committing threads in many orders of threads: each write is answered once, and no thread
//! waits forever. The locks of the crate shuttle never time out, so a missed wake-up is a deadlock, which shuttle
//! reports.

mod large;
pub(super) mod model;
mod small;

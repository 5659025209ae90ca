//! The threads that wait for requests.

use haul_ends::thread_pool::ThreadPool;
use haul_object::client::MANY_AT_ONCE;

/// Requests of one kind that are in flight at first. A store answers in milliseconds, so few requests do not load it.
const FIRST: usize = 32;

/// The threads for one kind of request.
pub(super) fn threads() -> ThreadPool {
    ThreadPool::growing(FIRST, MANY_AT_ONCE)
}

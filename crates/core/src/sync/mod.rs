//! Locks without poisoning, and the threads that wait for them.
//!
//! With the feature `shuttle` both come from the crate of that name, which runs a test with many interleavings of its
//! threads. A thread of the standard library cannot wait for the locks of that crate.

mod locks;
pub mod thread;

pub use locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};

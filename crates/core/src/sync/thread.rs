//! Threads: [`std::thread`], as far as the crates that are tested with the feature `shuttle` need it.

#[cfg(feature = "shuttle")]
mod shuttled;

#[cfg(feature = "shuttle")]
pub use shuttled::{Builder, JoinHandle, Scope, ScopedJoinHandle, scope, sleep};
#[cfg(not(feature = "shuttle"))]
pub use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, scope, sleep};

//! From written to complete: files are synced in groups, then renamed into place.

pub(crate) mod committer;
mod group;
mod large;
pub(crate) mod queue;
pub(crate) mod rechecks;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
pub(crate) mod superseded;
pub(crate) mod sync;
pub(crate) mod unsynced;

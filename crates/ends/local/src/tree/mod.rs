//! The tree of one end: its root, and the facts that the run knows about the file systems below it.

mod devices;
mod folding;
mod in_flight;
pub(crate) mod local_tree;
pub(crate) mod lock_timeout;
mod network;
mod unlocked;
mod xattr_support;

//! The parts that several ends use: caches, digests in batches, directories at the end of a run, names without case,
//! the work of walks and the number of entries that they still expect, warnings about metadata, and thread pools. The
//! ends that ask a server about many entries at a time also share the walk, the answers to offers, and staged large
//! files.

pub mod cache;
pub mod digests;
pub mod dirs;
pub mod folded_names;
pub mod forecast;
pub mod frontier;
pub mod full;
pub mod hashed;
pub mod large_file;
pub mod metadata_warnings;
pub mod offers;
pub mod server_tree;
pub mod sha256;
pub mod staged_names;
pub mod thread_pool;
pub mod walk;

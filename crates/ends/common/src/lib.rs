//! The parts that several ends use: caches, digests in batches, directories at the end of a run, names without case, the
//! work of walks and what they still expect, warnings about metadata, thread pools; and of trees on servers that are asked
//! about many entries at a time the walk, offers, and large files that are staged.

pub mod cache;
pub mod digests;
pub mod dirs;
pub mod folded_names;
pub mod forecast;
pub mod frontier;
pub mod large_file;
pub mod metadata_warnings;
pub mod offers;
pub mod server_tree;
pub mod sha256;
pub mod staged_names;
pub mod thread_pool;
pub mod walk;

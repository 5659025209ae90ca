//! A file tree in memory that is read and written through the contracts of `haul-core`.
//!
//! It keeps everything that an entry can hold, obeys every option of a sink, and stages content: a name exists only
//! with complete content. Staged slices belong to the tree, so that a sink that is opened later resumes from them.

mod sink;
mod source;
mod staged;
mod tree;

pub use sink::MemSink;
pub use source::MemSource;
pub use tree::MemTree;

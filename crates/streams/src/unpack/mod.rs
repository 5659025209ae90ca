//! The members of a stream as a source: each is a file, and its slices are read where they are in the stream.
//!
//! So a copy restores them like any tree: in parallel, in any order, staged, verified, resumed. [`open_object`],
//! [`FoundChunks`] and [`open_file`] find the index of a stream, or read the stream once to make one.
//! [`SequentialStream`] and [`FoundChunks::unpack`] need no index: they write the members while the stream passes.

mod aged;
mod at;
mod blocks;
mod frames;
mod joined;
mod member_files;
mod open;
mod pages;
mod passing_chunks;
mod scan;
mod sequential;
mod source;

pub use joined::join;
pub use member_files::{FileDone, SequentialSettings};
pub use open::{FoundChunks, IndexOrigin, MemberStream, open_file, open_object, write_index};
pub use passing_chunks::PassingStatus;
pub use sequential::{SequentialOutcome, SequentialStream};
pub use source::{MemberSource, RESERVED};

//! The members of a stream as a source: each is a file, and its slices are read where they are in the stream.
//!
//! So a copy restores them like any tree: in parallel, in any order, staged, verified, resumed. [`open_object`],
//! [`open_chunks`] and [`open_file`] find the index of a stream, or read the stream once to make one.

mod aged;
mod at;
mod blocks;
mod frames;
mod joined;
mod member_files;
mod open;
mod pages;
mod scan;
mod sequential;
mod source;

pub use joined::join;
pub use member_files::{FileDone, SequentialSettings};
pub use open::{IndexOrigin, MemberStream, open_chunks, open_file, open_object, write_index};
pub use sequential::{SequentialOutcome, SequentialStream};
pub use source::{MemberSource, RESERVED};

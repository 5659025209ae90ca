//! An index of a source, so that the next run need not list unchanged directories again.
//!
//! A directory with the same inode and times has the same names as before: its entries come from the index, and only
//! its subdirectories are examined, each by itself. An index does not depend on a destination or on filter rules, which
//! are applied when entries are read from it. So it can be wrong in one way only: a change in place (content written
//! into an existing file, its mode, owner, times and attributes) does not change the times of the directory and is not
//! seen. This ends when the directory is listed again: when a name in it changes, or at the latest after the refresh
//! interval.
//!
//! New entries are sorted outside of memory ([`haul_spool::Sorter`]); those of unchanged directories are copied from
//! the previous file. Of that file, memory holds only the first key of each block.

mod format;
mod index;
mod known;
mod name;
mod recording;
mod sighting;
mod stored;
mod writer;

#[cfg(test)]
mod tests;

pub use format::Stamp;
pub use index::{Index, Use};
pub use known::KnownDir;
pub use name::name_of;
pub use recording::Recording;

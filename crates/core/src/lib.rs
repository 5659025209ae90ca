//! What moves, and the contracts of the two ends.
//!
//! This crate is plain data: it opens nothing, starts no thread and prints nothing. Everything that moves is a
//! [`Batch`] of [`Slice`]s; every pair of ends is a [`Source`] and a [`Sink`]. Read the modules in the order of
//! the data: [`path`] and [`entry`] (what a scan finds), [`slice`](mod@slice) (what moves), [`digest`] (how it is
//! proved), [`source`] and [`sink`] (who reads and who writes), [`event`] and [`report`] (what is said of it), [`probe`]
//! (what is measured ahead of a copy).

pub mod buffer;
pub mod delta;
pub mod digest;
pub mod entry;
pub mod error;
pub mod event;
mod file_tree;
pub mod filter;
pub mod journal;
pub mod limit;
pub mod location;
pub mod ops;
pub mod options;
pub mod packing;
pub mod path;
pub mod pressure;
pub mod probe;
pub mod report;
pub mod sink;
pub mod slice;
pub mod source;
pub mod staging;
pub mod sync;
pub mod text;

pub use buffer::{Buffer, BufferPool};
pub use delta::{Delta, PageHashes};
pub use digest::{ChainingValue, Digest, SLICE_LEN};
pub use entry::{Entry, EntryKind, OwnerNames, Timestamp};
pub use error::{Error, ErrorKind, Result, Retry, Side};
pub use event::{Event, Limit, Progress, Reporter};
pub use file_tree::FileTree;
pub use limit::{Limiter, Pace};
pub use location::{Location, ObjectKind, ObjectPlace, Place, PlaceRoot};
pub use ops::Ops;
pub use options::{Compare, ScanOptions, SinkOptions};
pub use packing::{Compress, HeldBy, Method, Packing, Tcp, Traffic};
pub use path::RelPath;
pub use pressure::Pressure;
pub use report::{Failure, HungOperation, MetaNote, Report, Totals};
pub use sink::{Answer, FinishReport, HardLink, Left, Offer, Outcome, Sink, WriteDone};
pub use slice::{Batch, BatchData, Extent, Slice, SliceData};
pub use source::{ScanBatch, Source};

//! The data model of haul, and the contracts of its two ends.
//!
//! This crate is plain data: it opens no file, starts no thread and prints nothing. All content moves as a [`Batch`] of
//! [`Slice`]s from a [`Source`] to a [`Sink`]. Read the modules in the order of the data: [`path`] and [`entry`] (the
//! results of a scan), [`slice`](mod@slice) (the unit of transfer), [`digest`] (its proof), [`source`] and [`sink`]
//! (the contracts), [`policy`] (whether the destination is up to date), [`event`] and [`report`] (progress and
//! results), [`probe`] (measurements before a copy).

pub mod backup;
pub mod buffer;
pub mod caps;
pub mod changes;
pub mod chmod;
mod cleared_paths;
mod connections;
pub mod delta;
mod device_names;
pub mod digest;
pub mod entry;
pub mod error;
pub mod event;
mod file_tree;
pub mod filter;
mod foreign_location;
mod ip_family;
pub mod journal;
pub mod limit;
pub mod location;
pub mod ops;
pub mod options;
pub mod owner_map;
pub mod packing;
pub mod page_checks;
pub mod path;
pub mod policy;
pub mod preserve;
pub mod pressure;
pub mod probe;
pub mod program;
pub mod random;
pub mod report;
pub mod retry;
pub mod sink;
pub mod slice;
mod slice_parts;
pub mod source;
pub mod staging;
pub mod sync;
pub mod text;

pub use backup::{Backup, BackupNames, twin_place};
pub use buffer::{Buffer, BufferPool};
pub use caps::{SinkCaps, SourceCaps};
pub use changes::Changes;
pub use chmod::ModeChange;
pub use cleared_paths::ClearedPaths;
pub use connections::connections_for_link;
pub use delta::{Delta, PageHashes};
pub use device_names::is_device_name;
pub use digest::{ChainingValue, Digest, SLICE_LEN, Sha256};
pub use entry::{Entry, EntryKind, OwnerNames, Timestamp};
pub use error::{Error, ErrorKind, Result, Side};
pub use event::{Event, Limit, Note, Phase, Progress, Reporter};
pub use file_tree::FileTree;
pub use ip_family::IpFamily;
pub use limit::{ContentLimit, Limiter, Pace, RateTurn};
pub use location::{Location, ObjectKind, ObjectPlace, Place, PlaceRoot, StoreNumber};
pub use ops::Ops;
pub use options::{
    Compare, DirLinks, Links, MAX_REFERENCES, ReferencePurpose, References, ScanOptions, SinkOptions,
    SourceOptions,
};
pub use owner_map::{IdRule, OwnerMap};
pub use packing::{Compress, HeldBy, Method, Packing, Tcp, Traffic};
pub use page_checks::{BadPage, Databases, PageChecks, PageCounts, PageReport};
pub use path::RelPath;
pub use preserve::Preserve;
pub use pressure::Pressure;
pub use program::{Program, Said};
pub use report::{Failure, HungOperation, MetaNote, Report, Totals};
pub use retry::{Retries, Retry};
pub use sink::{Answer, FinishReport, HardLink, Offer, Outcome, Sink, SkipReason, WriteDone};
pub use slice::{Batch, BatchData, Extent, Slice, SliceData};
pub use slice_parts::SliceParts;
pub use source::{LeftOut, ScanBatch, Source};

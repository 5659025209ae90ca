//! The pipeline from scan to commit, between any source and any sink.
//!
//! ```text
//!   scan ──entries──▶ offer ──needed files──▶ queue ──batches──▶ workers: read, write ──outcomes──▶ ledger
//!  (source)          (sink, in bulk)         (bounded)          (source)  (sink)                   (counts,
//!                                                                                                   retries)
//! ```
//!
//! This crate uses only the contracts of `haul-core`: no file system, no network, no terminal. `copy.rs` has the passes
//! of a copy and `pipeline.rs` the threads of a pass. [`hash()`] and [`verify()`] share a smaller pipeline in
//! `inspect.rs`, and [`RateController`] has threads of its own.

mod answers;
mod backoff;
mod bottleneck;
mod cancel;
mod changes;
mod check_manifest;
mod chunks;
mod cloning;
mod comparer;
mod confirmed;
mod copy;
mod deferred;
mod delete_guard;
mod disk_full;
mod eta;
mod expected;
mod extra;
mod feed;
mod flusher;
mod hard_links;
mod hash;
mod hashing;
mod hung;
mod in_flight;
mod inspect;
mod ledger;
mod listed;
mod locked;
mod make_links;
mod metadata_comparer;
mod meter;
mod offer;
mod open_files;
mod options;
mod outlook;
mod overlap;
mod page_report;
mod path_key;
mod path_list;
mod pipeline;
mod prune;
mod queue;
mod rate_controller;
mod removal_size;
mod remove_sources;
mod repeat;
mod root_gate;
mod run;
mod scan;
mod scan_budget;
mod second_pass;
mod sha256;
#[cfg(test)]
mod tests;
mod trust;
mod verify;
mod worker;

pub use answers::one_each;
pub use cancel::Cancel;
pub use changes::MetadataChanges;
pub use check_manifest::check_manifest;
pub use confirmed::ConfirmedEntries;
pub use copy::copy;
pub use eta::floor as least_eta;
pub use hash::{Algorithm, HashLine, hash};
pub use offer::no_entry_fits_below;
pub use options::{CopyOptions, Delete, EndPair, LockedRetries, OnFull, OtherSource, PathSelection, Paths};
pub use page_report::tell_pages;
pub use rate_controller::{PlannedRate, PressureGauge, RateController, RateHandle};
pub use remove_sources::{Copied, remove_sources};
pub use sha256::sha256;
pub use trust::Trust;
pub use verify::{VerifyDifference, VerifyOptions, verify};

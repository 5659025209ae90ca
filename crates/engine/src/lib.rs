//! The pipeline: scan → offer → queue → read → write → commit, between any source and any sink.
//!
//! ```text
//!   scan ──entries──▶ offer ──needed files──▶ queue ──batches──▶ workers: read → write ──outcomes──▶ ledger
//!  (source)          (asks the sink           (bounded)          (source)  (sink)                   (counts,
//!                     in bulk)                                                                       retries)
//! ```
//!
//! This crate knows only the contracts of `haul-core`: no file system, no network, no terminal. [`mod@copy`] starts
//! the threads of a run, and no other module starts any but [`mod@hash`] and [`mod@verify`], which are small
//! pipelines of their own, and [`governor`], which keeps the limits of a run.

mod aside;
mod backoff;
pub mod cancel;
mod compare;
pub mod copy;
#[cfg(test)]
mod copy_tests;
mod extra;
mod feed;
mod flusher;
mod gate;
pub mod governor;
mod guard;
pub mod hash;
mod ledger;
mod links;
mod meter;
mod prune;
mod queue;
mod rivals;
mod room;
pub mod sift;
mod small;
pub mod verify;
mod way;
mod weigh;
mod worker;

pub use cancel::Cancel;
pub use copy::{CopyOptions, Delete, Part, copy};
pub use governor::Governor;
pub use hash::{HashLine, hash};
pub use rivals::Rival;
pub use room::OnFull;
pub use sift::Trust;
pub use verify::{Checked, VerifyOptions, check_manifest, verify};

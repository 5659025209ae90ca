//! Estimates the seconds left of a copy from two rates: the cost of a file and the cost of a byte.
//!
//! Files and bytes are copied side by side, so the time that passes tells only their sum. How much a file costs beside
//! its bytes ([`FileCost`]) comes from the batches: bundles of small files have many files and few bytes, slices of
//! large files only bytes. How fast the sum is done comes from the outcomes of the last seconds ([`Throughput`]),
//! and from how long the batches on their way usually take ([`InProgress`]).
//! Entries that are not compared yet are expected to need as much content as those before them; also those that the
//! source expects, which the scan has not found yet, as the copy holds the scan back. Time in which no content is copied is
//! the cost of comparing.

mod deletion;
mod estimator;
mod file_cost;
mod in_progress;
#[cfg(test)]
mod simulation;
mod throughput;

pub(crate) use deletion::Deletion;
pub use estimator::floor;
pub(crate) use estimator::{Estimator, Standing, is_sane};
pub(crate) use file_cost::FileCost;
pub(crate) use in_progress::InProgress;
pub(crate) use throughput::{Throughput, WorkAmount};

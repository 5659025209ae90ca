//! The promises of [`haul_core::Source`] and [`haul_core::Sink`] as cases that every end runs.
//!
//! A [`TestedEnd`] names an end, states in [`Keeps`] the properties that it keeps, and makes a [`Subject`] for each case:
//! an empty place and the functions that open it. [`TestedEnd::check_source`] and [`TestedEnd::check_sink`] run all
//! cases, and name every case that failed in one message. They skip a case that needs more than the end keeps.

mod arriving;
mod bench;
mod capabilities;
mod case;
mod content;
mod end;
mod keeps;
mod sink_changes;
mod sink_content;
mod sink_names;
mod sink_offers;
mod sink_resume;
mod sink_streams;
mod source_read;
mod source_scan;
mod world;

pub use bench::Subject;
pub use case::ConformanceCase;
pub use end::{KnownFailure, TestedEnd};
pub use keeps::Keeps;
pub use world::{OnDisk, OpenSink, SourceOpener, ThroughEnds, World};

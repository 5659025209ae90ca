//! The writing end: offers are answered, content is written, and the run is finished.

mod answer;
mod arriving;
mod claims;
mod clone;
mod compare;
mod directory;
mod entry_points;
mod finish;
mod full;
mod kept;
mod link;
mod look;
mod make;
pub(crate) mod open;
mod rebuild;
mod references;
mod remove;
pub(crate) mod state;
mod unwritable;
mod write;

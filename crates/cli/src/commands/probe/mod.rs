//! `haul probe`: measures what a copy will meet, or looks for problems.

mod doctor;
mod measure;
mod rerun;
mod run;
mod state;

pub(super) use run::run;

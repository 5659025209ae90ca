//! `haul probe`: measures the ends and the link of a copy, or looks for problems.

mod doctor;
mod measure;
mod rerun;
mod run;
mod state;

pub(super) use run::run;

//! `haul ls`: objects, and entries of directories.

mod objects;
mod run;
mod tree;

pub(super) use run::run;

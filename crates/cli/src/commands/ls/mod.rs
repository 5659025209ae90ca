//! `haul ls`: buckets, objects, and entries of directories.

mod buckets;
mod objects;
mod run;
mod tree;

pub(super) use run::run;

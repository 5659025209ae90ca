//! Walking a tree with several threads: one stack of work, and open directories all the way down.

mod indexed;
mod lineage;
pub(crate) mod list;
mod names;
pub(crate) mod rules;
mod stack;

//! `haul plan`: analyses a tree and splits it.

mod figures;
mod lists;
mod run;

pub(super) use run::run;

//! Where bytes live and how they travel: one folder for each kind of end.

pub mod local;
pub mod peer;

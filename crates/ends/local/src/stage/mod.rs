//! Staged files: content under a staging name beside the final name.
//!
//! The staging name is derived from the final name, so a later run finds the staged file of an interrupted run. A
//! staged file is locked until it is renamed into place, so two runs that write the same file cannot mix their content.

pub(crate) mod arriving;
pub(crate) mod clean;
pub(crate) mod journal;
pub(crate) mod large;
pub(crate) mod lock;
pub(crate) mod mark;
pub(crate) mod names;
pub(crate) mod publish;
pub(crate) mod recheck;
pub(crate) mod small;
pub(crate) mod staged;
pub(crate) mod write;

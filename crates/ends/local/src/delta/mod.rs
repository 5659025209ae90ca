//! Large files that replace an older version: pages that are unchanged are taken from the old file.

pub(crate) mod base;
pub(crate) mod merge;
pub(crate) mod share;

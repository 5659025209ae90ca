//! Metadata: reading it as an entry, comparing it and setting it.

pub(crate) mod entry;
pub(crate) mod ids;
mod kept;
pub(crate) mod metadata;
pub(crate) mod new_mode;
mod target;
pub(crate) mod times;

//! Path resolution: from a path as the user gave it to a name in a directory that is held open.

pub(crate) mod ancestors;
pub(crate) mod at;
pub(crate) mod descriptors;
pub(crate) mod dirlinks;
pub(crate) mod held;
mod held_dirs;
pub(crate) mod links;
pub(crate) mod place;
pub(crate) mod root;
pub(crate) mod stat;
pub(crate) mod xattrs;

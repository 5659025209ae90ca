//! Methods for network file systems only, where each operation may be a request to a server.

pub(crate) mod dir_prefetch;
pub(crate) mod direct;

//! What is done otherwise on network file systems, where each operation may be a request to a server.

pub(crate) mod dir_prefetch;
pub(crate) mod direct;

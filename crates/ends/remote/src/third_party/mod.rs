//! Third-party copies: content goes from one remote end to another, and the local end only requests the batches.
//!
//! Three roles: the *broker* is the local end, which introduces the two remote ends and requests every batch. The
//! *puller* is the end of the sink, which fetches content. The *granter* is the end of the source, which sends the
//! batches that the broker made tickets for; its part is in the crate `haul-agent`.

pub(crate) mod broker;
pub(crate) mod puller;

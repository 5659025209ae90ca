//! How a stream is reached.

use clap::Args;

use super::{ConnectionArgs, GivenArgs, HostArgs, LinkArgs, MemoryArgs, StoreArgs};

/// The longest silence of a connection of a stream, in seconds: the default of copies.
const TIMEOUT: u32 = 30;

/// How the file or the object of a stream is reached.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) connections: ConnectionArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

impl ReachArgs {
    /// The options for a host of the stream, with all of its memory. A host answers within seconds, unlike a store.
    pub(crate) fn link(&self) -> LinkArgs {
        LinkArgs {
            host: self.host.clone(),
            connections: self.connections.clone(),
            timeout: self.store.timeout.min(TIMEOUT),
            max_memory: self.memory.max_memory,
        }
    }
}

//! How sources and destinations are opened.

use std::num::NonZeroU64;
use std::sync::Arc;

use haul_core::{BufferPool, Ops};
use haul_object::{PutOptions, StoreSettings};
use haul_remote::PeerConfig;

/// How sources and destinations are opened.
pub struct EndsConfig {
    /// Settings for remote hosts.
    pub peer: PeerConfig,
    /// Upload this haul to hosts that have none.
    pub bootstrap: bool,
    /// The user gave the path of haul on the remote host: SFTP is no substitute.
    pub haul_named: bool,
    /// Memory for the content that this process holds.
    pub pool: BufferPool,
    /// Limits of file-system operations for local sources and destinations.
    pub ops: SideOps,
    /// Settings for object stores.
    pub stores: StoreSettings,
    /// Attributes of the objects that are written.
    pub stored: PutOptions,
}

/// A limit of file-system operations for each side.
#[derive(Clone, Default)]
pub struct SideOps {
    /// The limit of the source.
    pub source: Arc<Ops>,
    /// The limit of the destination.
    pub destination: Arc<Ops>,
}

impl EndsConfig {
    /// Limits the file-system operations of each side to `iops` per second; `None`: no limit.
    pub fn limit_operations(&mut self, iops: Option<NonZeroU64>) {
        let rate = iops.map(NonZeroU64::get);
        self.peer.iops = rate;
        self.ops.source.limit(rate);
        self.ops.destination.limit(rate);
    }
}

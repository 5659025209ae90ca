//! How sources and destinations are opened.

use std::num::NonZeroU64;
use std::sync::Arc;

use haul_core::{BufferPool, ObjectPlace, Ops, Pace};
use haul_object::{PutOptions, StoreSettings};
use haul_remote::PeerConfig;

use super::host_config::HostConfig;
use super::share_settings::ShareSettings;

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
    /// Hosts that are reached in another way. The first that says something counts.
    pub hosts: Vec<HostConfig>,
    /// Settings for object stores.
    pub stores: StoreSettings,
    /// Settings for the stores of some locations, by [`haul_core::StoreNumber`] from 1.
    pub other_stores: Vec<StoreSettings>,
    /// Attributes of the objects that are written.
    pub stored: PutOptions,
    /// Settings for SMB shares.
    pub shares: ShareSettings,
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
    /// The settings for the store of a place.
    #[must_use]
    pub fn store(&self, place: &ObjectPlace) -> &StoreSettings {
        let other = usize::from(place.store.settings).checked_sub(1).and_then(|at| self.other_stores.get(at));
        other.unwrap_or(&self.stores)
    }

    /// Limits the bytes per second of all connections.
    pub fn set_pace(&mut self, pace: Pace) {
        self.set_pace_of_stores(&pace);
        self.peer.pace = pace;
    }

    /// Gives the requests that send to stores a limit of their own, and returns it. The engine keeps the limit of the run
    /// for content that it hands over to a store: without that, all content that memory can hold would count as sent.
    pub(crate) fn pace_of_stores(&mut self) -> Pace {
        let mut pace = self.peer.pace.clone();
        pace.outbound = Arc::default();
        self.set_pace_of_stores(&pace);
        pace
    }

    fn set_pace_of_stores(&mut self, pace: &Pace) {
        self.stores.pace = pace.clone();
        self.other_stores.iter_mut().for_each(|store| store.pace = pace.clone());
    }

    /// Limits the file-system operations of each side to `iops` per second; `None`: no limit.
    pub fn limit_operations(&mut self, iops: Option<NonZeroU64>) {
        let rate = iops.map(NonZeroU64::get);
        self.peer.iops = rate;
        self.ops.source.limit(rate);
        self.ops.destination.limit(rate);
    }
}

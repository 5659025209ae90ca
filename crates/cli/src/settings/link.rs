//! How remote ends are reached, from the words about it.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{BufferPool, Compress, Location, Ops, Pace, Result};
use haul_object::{PutOptions, StoreSettings};
use haul_remote::{PeerConfig, Ports, Transport};
use haul_ssh::SshConfig;

use super::{check_endpoint, parse_size, store_end_settings, stored_options, usage, words::split_words};
use crate::address_space;
use crate::args::{CompressArgs, LinkArgs, StoreEndArgs, StoredArgs};

/// The least memory that haul works with: a few buffers for each end.
const MIN_MEMORY: u64 = 32 * 1024 * 1024;

/// What starts haul on other machines unless another one is named; as in the definition of the option.
const DEFAULT_HAUL: &str = "haul";

/// How long a store is tried; as in the definition of the option.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// How ends are opened.
pub(crate) struct LinkSettings {
    /// For ends on other machines.
    pub(crate) peer: PeerConfig,
    /// Whether to put haul onto machines that have none.
    pub(crate) bootstrap: bool,
    /// Whether the person said where haul is on other machines: then nothing else will do.
    pub(crate) haul_named: bool,
    /// Memory for content of this process.
    pub(crate) pool: BufferPool,
    /// What lets file-system operations of ends on this machine through.
    pub(crate) ops: SideOps,
    /// How object stores are reached.
    pub(crate) stores: StoreSettings,
    /// What objects are written with.
    pub(crate) stored: PutOptions,
    /// Options that were given and matter only where another machine is an end.
    pub(crate) remote_only: Vec<&'static str>,
}

/// A limit for each side of a run.
#[derive(Clone, Default)]
pub(crate) struct SideOps {
    /// The source's.
    pub(crate) source: Arc<Ops>,
    /// The destination's.
    pub(crate) destination: Arc<Ops>,
}

impl LinkSettings {
    /// Checks and resolves the words.
    ///
    /// # Errors
    /// If the remote shell cannot be split, or the memory is too little.
    pub(crate) fn resolve(args: &LinkArgs) -> Result<Self> {
        let shell = match &args.rsh {
            None => vec!["ssh".to_owned()],
            Some(command) => split_words(command)
                .map_err(|cause| usage("read the remote shell of -e", cause).on(command.as_bytes()))?,
        };
        if args.remote_haul.trim().is_empty() {
            return Err(usage("read --remote-haul", "it is empty"));
        }
        let given = [
            ("-e", args.rsh.is_some()),
            ("--streams", args.streams.is_some()),
            ("--transport", Transport::from(args.transport) != Transport::Auto),
            ("--ports", args.ports.is_some()),
            ("--bind", args.bind.is_some()),
            ("--congestion", args.congestion.is_some()),
        ];
        let remote_only = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        let max_memory = address_space::content(args.max_memory);
        let peer = PeerConfig {
            transport: args.transport.into(),
            ports: args.ports,
            bind: args.bind,
            congestion: args.congestion.clone(),
            ssh: SshConfig { shell, shell_given: args.rsh.is_some(), timeout: args.timeout },
            remote_haul: args.remote_haul.clone(),
            streams: args.streams.unwrap_or(0),
            max_memory,
            iops: None,
            pace: Pace::default(),
            compress: Compress::Auto,
            hints: crate::jobs::Folder::hosts().ok(),
            defer: false,
        };
        Ok(Self {
            peer,
            bootstrap: args.missing.bootstrap,
            haul_named: args.remote_haul != DEFAULT_HAUL,
            pool: BufferPool::new(max_memory),
            ops: SideOps::default(),
            stores: StoreSettings { timeout: STORE_TIMEOUT, ..StoreSettings::default() },
            stored: PutOptions::default(),
            remote_only,
        })
    }

    /// With at most so many file-system operations per second on each side.
    pub(crate) fn limit_operations(&mut self, iops: Option<NonZeroU64>) {
        let rate = iops.map(NonZeroU64::get);
        self.peer.iops = rate;
        self.ops.source.limit(rate);
        self.ops.destination.limit(rate);
    }

    /// With object stores reached by these words.
    pub(crate) fn with_stores(mut self, args: &StoreEndArgs) -> Self {
        self.stores = store_end_settings(args);
        self
    }

    /// Looks whether `--endpoint` can be that of all ends which are in a store.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check_endpoint<'a>(&self, ends: impl Iterator<Item = &'a Location>) -> Result<()> {
        let places = ends.filter_map(|end| match end {
            Location::Object(place) => Some(place),
            _ => None,
        });
        check_endpoint(self.stores.endpoint.as_deref(), places)
    }

    /// With objects written by these words.
    pub(crate) fn storing(mut self, args: &StoredArgs) -> Self {
        self.stored = stored_options(args);
        self
    }

    /// With content packed as these words say.
    pub(crate) fn packed(mut self, args: &CompressArgs) -> Self {
        let wish = args.wish();
        self.remote_only.extend(wish.map(|_| "--compress"));
        self.peer.compress = wish.unwrap_or_default();
        self
    }
}

/// Reads a range of ports, as in `40000-40100`, or one port.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn parse_ports(text: &str) -> std::result::Result<Ports, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| match text.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is no port; ports are from 1 to 65535, as in 40000-40100 or 40000")),
    };
    let ports = Ports { first: port(first)?, last: port(last)? };
    if ports.first > ports.last {
        return Err(format!("`{text}` ends before it begins; the lower port comes first"));
    }
    Ok(ports)
}

/// Reads an IP address.
///
/// # Errors
/// A sentence for clap.
pub(crate) fn parse_address(text: &str) -> std::result::Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no IP address; addresses are like 192.0.2.7 or 2001:db8::7"))
}

/// Reads the memory for content.
///
/// # Errors
/// A sentence for clap.
pub(crate) fn parse_memory(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < MIN_MEMORY {
        Err(format!("`{text}` is less than 32MiB, the least that haul needs"))
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_or_one() {
        assert_eq!(parse_ports("4000-4010"), Ok(Ports { first: 4000, last: 4010 }));
        assert_eq!(parse_ports("4000"), Ok(Ports { first: 4000, last: 4000 }));
        for bad in ["", "0", "70000", "a-b", "5-4", "1-2-3"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}

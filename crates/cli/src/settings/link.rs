//! Settings of remote hosts, from the options.

use std::net::IpAddr;
use std::time::Duration;

use haul_core::{BufferPool, Compress, Location, Pace, Result};
use haul_job::{EndsConfig, SideOps};
use haul_object::{PutOptions, StoreSettings};
use haul_remote::{PeerConfig, Ports, Transport};
use haul_ssh::SshConfig;

use super::errors::usage;
use super::object::{check_endpoint, store_end_settings, stored_options};
use super::size::parse_size;
use super::words::split_words;
use crate::address_space;
use crate::args::{CompressArgs, LinkArgs, StoreEndArgs, StoredArgs};

/// The minimum memory: a few buffers per side.
const MIN_MEMORY: u64 = 32 * 1024 * 1024;

/// The default of `--remote-haul`.
const DEFAULT_HAUL: &str = "haul";

/// The default of `--store-timeout`.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// How sources and destinations are opened, from the options.
pub(crate) struct LinkSettings {
    /// The settings.
    pub(crate) config: EndsConfig,
    /// Given options that have no effect if source and destination are local.
    pub(crate) remote_only: Vec<&'static str>,
}

impl LinkSettings {
    /// Converts the options.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the remote shell cannot be parsed or `--remote-haul` is empty.
    pub(crate) fn resolve(args: &LinkArgs) -> Result<Self> {
        let shell = match &args.rsh {
            None => vec!["ssh".to_owned()],
            Some(command) => split_words(command)
                .map_err(|cause| usage("parse the remote shell of -e", cause).on(command.as_bytes()))?,
        };
        if args.remote_haul.trim().is_empty() {
            return Err(usage("use --remote-haul", "it is empty"));
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
            hints: haul_job::hosts_dir().ok(),
            defer: false,
        };
        let config = EndsConfig {
            peer,
            bootstrap: args.missing.bootstrap,
            haul_named: args.remote_haul != DEFAULT_HAUL,
            pool: BufferPool::new(max_memory),
            ops: SideOps::default(),
            stores: StoreSettings { timeout: STORE_TIMEOUT, ..StoreSettings::default() },
            stored: PutOptions::default(),
        };
        Ok(Self { config, remote_only })
    }

    /// Adds the options of object stores.
    pub(crate) fn with_stores(mut self, args: &StoreEndArgs) -> Self {
        self.config.stores = store_end_settings(args);
        self
    }

    /// Checks that `--endpoint` fits all locations in stores.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if it does not.
    pub(crate) fn check_endpoint<'a>(&self, ends: impl Iterator<Item = &'a Location>) -> Result<()> {
        let places = ends.filter_map(|end| match end {
            Location::Object(place) => Some(place),
            _ => None,
        });
        check_endpoint(self.config.stores.endpoint.as_deref(), places)
    }

    /// Adds the attributes of objects.
    pub(crate) fn storing(mut self, args: &StoredArgs) -> Self {
        self.config.stored = stored_options(args);
        self
    }

    /// Adds the compression in transit.
    pub(crate) fn compressed(mut self, args: &CompressArgs) -> Self {
        let wish = args.wish();
        self.remote_only.extend(wish.map(|_| "--compress"));
        self.config.peer.compress = wish.unwrap_or_default();
        self
    }
}

/// Reads a range of ports, as in `40000-40100`, or one port.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_ports(text: &str) -> std::result::Result<Ports, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| match text.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is not a port; ports are from 1 to 65535, as in 40000-40100 or 40000")),
    };
    let ports = Ports { first: port(first)?, last: port(last)? };
    if ports.first > ports.last {
        return Err(format!("`{text}` is not a port range; the lower port comes first, as in 40000-40100"));
    }
    Ok(ports)
}

/// Reads an IP address.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_address(text: &str) -> std::result::Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not an IP address; addresses are like 192.0.2.7 or 2001:db8::7"))
}

/// Reads a value of `--max-memory`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_memory(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < MIN_MEMORY { Err(format!("`{text}` is less than 32MiB, the minimum")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_or_a_single_port() {
        assert_eq!(parse_ports("4000-4010"), Ok(Ports { first: 4000, last: 4010 }));
        assert_eq!(parse_ports("4000"), Ok(Ports { first: 4000, last: 4000 }));
        for bad in ["", "0", "70000", "a-b", "5-4", "1-2-3"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}

//! Settings of remote hosts, from the options.

use std::time::Duration;

use haul_core::{BufferPool, Compress, Error, Location, Pace, Result, Side};
use haul_job::{EndsConfig, HostConfig, ShareOptions, ShareSettings, SideOps};
use haul_object::{PutOptions, StoreSettings};
use haul_remote::{PeerConfig, Transport};
use haul_ssh::{Persist, SshConfig};

use super::errors::{of_option, usage};
use super::object::{check_endpoint, other_store_settings, store_end_settings, stored_options};
use super::words::split_words;
use crate::address_space;
use crate::args::{CompressArgs, GivenArgs, HostOptions, LinkArgs, ShareArgs, StoreEndArgs, StoredArgs};

/// The default of `--remote-haul`.
const DEFAULT_HAUL: &str = "haul";

/// The default of `--timeout`, in seconds.
const TIMEOUT: u32 = 30;

/// The default of `--store-timeout`.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// How sources and destinations are opened, from the options.
pub(crate) struct LinkSettings {
    /// The settings.
    pub(crate) config: EndsConfig,
    /// Given options that have no effect if source and destination are local.
    pub(crate) remote_only: Vec<&'static str>,
    /// The command line gave `--timeout`.
    timeout_typed: bool,
}

impl LinkSettings {
    /// Converts the options.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the remote shell cannot be parsed or `--remote-haul` is empty.
    pub(crate) fn resolve(args: &LinkArgs, given: &GivenArgs) -> Result<Self> {
        let shell = match &args.host.rsh {
            None => vec!["ssh".to_owned()],
            Some(command) => shell(command)?,
        };
        if args.host.remote_haul.trim().is_empty() {
            return Err(usage("use --remote-haul", "it is empty"));
        }
        let family = args.host.family();
        if let (Some(family), Some(address)) = (family, args.connections.bind)
            && !family.has(address)
        {
            let why = format!("{address} is no address of it; omit one of the two options");
            return Err(usage(&format!("use {} with --bind", family.option()), why));
        }
        let ssh = SshConfig {
            shell,
            shell_given: args.host.rsh.is_some(),
            family,
            timeout: args.timeout,
            persist: args.host.persist.map(persist).transpose()?,
        };
        if ssh.persist.is_some() && !ssh.is_ssh() && !given.has("persist") {
            return Err(usage("use --persist", "the program of -e is not ssh, which alone keeps a login"));
        }
        let typed = [
            ("-e", args.host.rsh.is_some() && !given.has("rsh")),
            ("-4", args.host.family.ipv4 && !given.has("ipv4")),
            ("-6", args.host.family.ipv6 && !given.has("ipv6")),
            ("--persist", args.host.persist.is_some() && !given.has("persist")),
            ("--streams", args.connections.streams.is_some() && !given.has("streams")),
            (
                "--transport",
                Transport::from(args.connections.transport) != Transport::Auto && !given.has("transport"),
            ),
            ("--ports", args.connections.ports.is_some() && !given.has("ports")),
            ("--bind", args.connections.bind.is_some() && !given.has("bind")),
            ("--congestion", args.connections.congestion.is_some() && !given.has("congestion")),
        ];
        let typed = typed.into_iter().filter(|(_, typed)| *typed).map(|(name, _)| name);
        let remote_only = typed.chain(typed_for_shares(&args.host.share, given)).collect();
        let max_memory = address_space::content(args.max_memory);
        let peer = PeerConfig {
            transport: args.connections.transport.into(),
            ports: args.connections.ports,
            bind: args.connections.bind,
            congestion: args.connections.congestion.clone(),
            ssh,
            remote_haul: args.host.remote_haul.clone(),
            streams: args.connections.streams.unwrap_or(0),
            max_memory,
            iops: None,
            pace: Pace::default(),
            compress: Compress::Auto,
            hints: haul_job::hosts_dir().ok(),
            defer: false,
            explains: false,
        };
        let config = EndsConfig {
            peer,
            bootstrap: args.host.missing.bootstrap,
            haul_named: args.host.remote_haul != DEFAULT_HAUL,
            pool: BufferPool::new(max_memory),
            ops: SideOps::default(),
            hosts: given.get().hosts.iter().map(host_config).collect::<Result<_>>()?,
            stores: StoreSettings { family, timeout: STORE_TIMEOUT, ..StoreSettings::default() },
            other_stores: Vec::new(),
            stored: PutOptions::default(),
            shares: share_settings(&args.host.share),
        };
        let timeout_typed = args.timeout != TIMEOUT && !given.has("timeout");
        Ok(Self { config, remote_only, timeout_typed })
    }

    /// The note for `--timeout` where the option of stores is meant: no host is among the locations.
    pub(crate) fn timeout_note<'a>(&self, ends: impl Iterator<Item = &'a Location>) -> Option<&'static str> {
        let mut has_store = false;
        for end in ends {
            match end {
                Location::Object(_) => has_store = true,
                Location::Local(_) => {}
                Location::Ssh { .. } | Location::Sftp { .. } | Location::Smb { .. } => return None,
            }
        }
        let is_meant = self.timeout_typed && has_store && self.config.stores.timeout == STORE_TIMEOUT;
        is_meant.then_some(
            "--timeout does not count for stores: --store-timeout sets how long haul tries there (120 s by default)",
        )
    }

    /// With `explains`, adds to the report why a way for content cannot be used.
    pub(crate) fn explaining(mut self, explains: bool) -> Self {
        self.config.peer.explains = explains;
        self
    }

    /// Adds the options of object stores.
    pub(crate) fn with_stores(mut self, args: &StoreEndArgs, given: &GivenArgs) -> Self {
        let PeerConfig { streams, ssh, .. } = &self.config.peer;
        self.config.stores =
            StoreSettings { family: ssh.family, streams: *streams, ..store_end_settings(args) };
        self.config.other_stores = other_store_settings(&self.config.stores, given);
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
    pub(crate) fn compressed(mut self, args: &CompressArgs, given: &GivenArgs) -> Self {
        // `-z` is a habit, as in `rsync -avz`: only the long name is a wish that has to be refused in words.
        let is_typed = !args.zstd && args.compress.is_some() && !given.has("compress");
        self.remote_only.extend(is_typed.then_some("--compress"));
        self.config.peer.compress = args.wish().unwrap_or_default();
        self
    }
}

/// A login that stays for so many seconds.
fn persist(seconds: u32) -> Result<Persist> {
    let dir = haul_job::logins_dir();
    let dir =
        dir.map_err(|error| of_option(Error::io(Side::Local, "keep a login with --persist", &error)))?;
    Ok(Persist { dir, seconds })
}

/// The words of a remote shell.
fn shell(command: &str) -> Result<Vec<String>> {
    split_words(command).map_err(|cause| usage("parse the remote shell of -e", cause).on(command.as_bytes()))
}

/// How a host of the settings is reached.
fn host_config(options: &HostOptions) -> Result<HostConfig> {
    let HostOptions { host, port, rsh, remote_haul, bootstrap, streams } = options;
    Ok(HostConfig {
        host: host.clone(),
        port: *port,
        shell: rsh.as_deref().map(shell).transpose()?,
        remote_haul: remote_haul.clone(),
        bootstrap: *bootstrap,
        streams: *streams,
    })
}

fn share_settings(args: &ShareArgs) -> ShareSettings {
    let options = ShareOptions {
        encrypt: args.smb_encrypt,
        map_names: args.smb_map_names,
        acls: args.smb_acls || args.smb_sacls,
        sacls: args.smb_sacls,
        streams: args.smb_streams,
        creation_times: args.smb_creation_times,
        backup_intent: args.smb_backup_intent,
    };
    ShareSettings { credentials: args.smb_credentials.clone(), options }
}

/// The options of shares on the command line.
fn typed_for_shares(args: &ShareArgs, given: &GivenArgs) -> impl Iterator<Item = &'static str> {
    let typed = [
        ("--smb-credentials", args.smb_credentials.is_some()),
        ("--smb-encrypt", args.smb_encrypt),
        ("--smb-map-names", args.smb_map_names),
        ("--smb-acls", args.smb_acls),
        ("--smb-sacls", args.smb_sacls),
        ("--smb-streams", args.smb_streams),
        ("--smb-creation-times", args.smb_creation_times),
        ("--smb-backup-intent", args.smb_backup_intent),
    ];
    let typed = typed.into_iter().filter(|(name, typed)| *typed && !given.has(name.trim_start_matches('-')));
    typed.map(|(name, _)| name)
}

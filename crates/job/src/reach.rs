//! How a host is reached: the settings of all hosts, and its own.

use haul_core::location::SshHost;
use haul_remote::PeerConfig;

use super::ends_config::EndsConfig;
use super::host_config::HostConfig;

/// All that is needed to reach a host.
pub(crate) struct HostAccess {
    /// The host, with its port.
    pub(crate) host: SshHost,
    /// The settings for a remote haul and for ssh.
    pub(crate) peer: PeerConfig,
    /// Upload this haul if the host has none.
    pub(crate) bootstrap: bool,
    /// The user gave the path of haul there.
    pub(crate) haul_named: bool,
}

impl HostAccess {
    /// How to reach a host.
    pub(crate) fn of(config: &EndsConfig, host: &SshHost) -> Self {
        let bare = host.destination.rsplit_once('@').map_or(&host.destination[..], |(_, bare)| bare);
        let exact = config.hosts.iter().filter(|other| other.host == host.destination);
        let of_all_users = config.hosts.iter().filter(|other| bare != host.destination && other.host == bare);
        let about: Vec<&HostConfig> = exact.chain(of_all_users).collect();
        let mut reach = Self {
            host: host.clone(),
            peer: config.peer.clone(),
            bootstrap: about.iter().find_map(|host| host.bootstrap).unwrap_or(config.bootstrap),
            haul_named: config.haul_named,
        };
        reach.host.port = host.port.or_else(|| about.iter().find_map(|host| host.port));
        if let Some(shell) = about.iter().find_map(|host| host.shell.as_ref()) {
            reach.peer.ssh.shell.clone_from(shell);
            reach.peer.ssh.shell_given = true;
        }
        if let Some(remote_haul) = about.iter().find_map(|host| host.remote_haul.as_ref()) {
            reach.peer.remote_haul.clone_from(remote_haul);
            reach.haul_named = true;
        }
        if let Some(streams) = about.iter().find_map(|host| host.streams) {
            reach.peer.streams = streams;
        }
        reach
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haul_core::{BufferPool, Compress, Pace};
    use haul_object::{PutOptions, StoreSettings};
    use haul_remote::Transport;
    use haul_ssh::SshConfig;

    use super::*;
    use crate::SideOps;

    fn config(hosts: Vec<HostConfig>) -> EndsConfig {
        let peer = PeerConfig {
            transport: Transport::Auto,
            ports: None,
            bind: None,
            congestion: None,
            ssh: SshConfig {
                shell: vec!["ssh".to_owned()],
                shell_given: false,
                family: None,
                timeout: 30,
                persist: None,
            },
            remote_haul: "haul".to_owned(),
            streams: 0,
            max_memory: 1 << 28,
            iops: None,
            pace: Pace::default(),
            compress: Compress::Auto,
            hints: None,
            defer: false,
            explains: false,
        };
        EndsConfig {
            peer,
            bootstrap: false,
            haul_named: false,
            pool: BufferPool::new(1 << 28),
            ops: SideOps { source: Arc::default(), destination: Arc::default() },
            hosts,
            stores: StoreSettings::default(),
            other_stores: Vec::new(),
            stored: PutOptions::default(),
            shares: crate::ShareSettings::default(),
        }
    }

    fn host(destination: &str, port: Option<u16>) -> SshHost {
        SshHost { destination: destination.to_owned(), port }
    }

    #[test]
    fn each_host_is_reached_in_its_own_way() {
        let words = |text: &str| Some(text.split(' ').map(str::to_owned).collect());
        let own = |host: &str, port, shell, remote_haul: Option<&str>| HostConfig {
            host: host.to_owned(),
            port,
            shell,
            remote_haul: remote_haul.map(str::to_owned),
            ..HostConfig::default()
        };
        let config = config(vec![
            own("db1", Some(2222), words("ssh -4"), Some("/opt/haul")),
            own("me@db1", None, words("ssh -6"), None),
        ]);
        let reach = |destination: &str, port| HostAccess::of(&config, &host(destination, port));
        let other = reach("db2", None);
        assert_eq!(
            (other.peer.remote_haul.as_str(), other.host.port, other.haul_named),
            ("haul", None, false)
        );
        assert!(!other.peer.ssh.shell_given);
        let anyone = reach("you@db1", None);
        assert_eq!((anyone.peer.ssh.shell.join(" ").as_str(), anyone.host.port), ("ssh -4", Some(2222)));
        assert!(anyone.haul_named && anyone.peer.ssh.shell_given);
        let me = reach("me@db1", Some(22));
        assert_eq!((me.peer.ssh.shell.join(" ").as_str(), me.host.port), ("ssh -6", Some(22)));
        assert_eq!(me.peer.remote_haul, "/opt/haul");
    }
}

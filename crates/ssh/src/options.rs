//! The options that haul adds to an ssh command.

use std::process::{Command, Stdio};

use haul_core::location::SshHost;
use haul_transport::identity::has_aes;

/// Ciphers that run at several GB/s on a CPU with AES instructions. The first choice of OpenSSH before version 10 is
/// four times slower.
const FAST: [&str; 2] = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

/// The options of a connection, and the configuration of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SshOptions {
    /// Whether the command takes ssh's options.
    pub(super) is_ssh: bool,
    /// The options to add for every connection.
    pub(super) words: Vec<String>,
    /// Whether the user has configured a control master for this host. The first connection then uses it, as any ssh
    /// command does, and the user need not log in twice.
    pub(super) user_master: bool,
    /// The host name that the configuration resolves the name to.
    pub(super) hostname: Option<String>,
    /// Whether ssh goes through a proxy (ProxyJump or ProxyCommand).
    pub(super) proxied: bool,
}

impl SshOptions {
    /// The options of a command that may not be ssh: none.
    pub(super) fn foreign() -> Self {
        Self::default()
    }

    /// The options of ssh. Reads its configuration for this host (`ssh -G`), so that haul overrides no choice of the
    /// user.
    pub(super) fn of(shell: &[String], host: &SshHost, timeout: u32) -> Self {
        let mut command = Command::new(shell.first().map_or("ssh", String::as_str));
        command.args(shell.iter().skip(1)).arg("-G");
        if let Some(port) = host.port {
            command.args(["-p", &port.to_string()]);
        }
        command.arg(&host.destination).stdin(Stdio::null()).stderr(Stdio::null());
        let said = command.output().ok().filter(|output| output.status.success());
        let said =
            said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        Self::from_config(&said, timeout, has_aes())
    }

    fn from_config(config: &str, timeout: u32, has_aes: bool) -> Self {
        let value = |key: &str| {
            config
                .lines()
                .find_map(|line| line.split_once(' ').filter(|(k, _)| *k == key).map(|(_, v)| v.trim()))
        };
        // No terminal, no X11. Forwards would fail on the second connection.
        let mut words: Vec<String> =
            ["-T", "-x", "-oCompression=no", "-oClearAllForwardings=yes"].map(str::to_owned).to_vec();
        // As scp and sftp do: no agent forwarding, and no other commands.
        words.extend(
            ["-oForwardAgent=no", "-oPermitLocalCommand=no", "-oRemoteCommand=none"].map(str::to_owned),
        );
        // Without this, ssh notices a dead network only after many minutes, should haul be killed.
        if value("serveraliveinterval") == Some("0") {
            words.push("-oServerAliveInterval=15".to_owned());
        }
        if value("connecttimeout") == Some("none") {
            words.push(format!("-oConnectTimeout={timeout}"));
        }
        if has_aes && let Some(ciphers) = value("ciphers").and_then(fast_first) {
            words.push(format!("-oCiphers={ciphers}"));
        }
        let user_master = value("controlpath").is_some_and(|path| path != "none");
        let proxied =
            ["proxyjump", "proxycommand"].iter().any(|key| value(key).is_some_and(|how| how != "none"));
        let hostname = value("hostname").map(str::to_owned);
        Self { is_ssh: true, words, user_master, hostname, proxied }
    }
}

/// The same ciphers with the fast ones first; `None` if nothing changes. No cipher is added, as the user may have
/// excluded it.
fn fast_first(ciphers: &str) -> Option<String> {
    let all: Vec<&str> = ciphers.split(',').collect();
    if all.first().is_none_or(|first| FAST.contains(first)) {
        return None;
    }
    let fast: Vec<&str> = FAST.into_iter().filter(|cipher| all.contains(cipher)).collect();
    if fast.is_empty() {
        return None;
    }
    let rest = all.iter().copied().filter(|cipher| !fast.contains(cipher));
    Some(fast.iter().copied().chain(rest).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "host db1\ncontrolmaster false\nserveraliveinterval 0\nconnecttimeout none\n\
        ciphers chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com\n";

    #[test]
    fn adds_options_that_are_not_decided() {
        let options = SshOptions::from_config(USUAL, 30, true);
        assert!(!options.user_master);
        let words = options.words.join(" ");
        assert!(words.contains("-oServerAliveInterval=15") && words.contains("-oConnectTimeout=30"));
        let ciphers = "-oCiphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr";
        assert!(words.ends_with(ciphers), "{words}");
        for refused in ["-oForwardAgent=no", "-oPermitLocalCommand=no", "-oRemoteCommand=none"] {
            assert!(words.contains(refused), "{words}");
        }
        assert!(!SshOptions::from_config(USUAL, 30, false).words.join(" ").contains("Ciphers"));
    }

    #[test]
    fn leaves_options_that_a_person_has_decided() {
        let config = "ciphers chacha20-poly1305@openssh.com\nserveraliveinterval 60\nconnecttimeout 5\n\
            controlpath /run/user/1/x";
        let options = SshOptions::from_config(config, 30, true);
        assert!(options.user_master);
        let nothing_known = SshOptions::from_config("", 30, true);
        assert!(!nothing_known.user_master);
        for options in [options, nothing_known] {
            let words = options.words.join(" ");
            for decided in ["ServerAliveInterval", "ConnectTimeout", "Ciphers"] {
                assert!(!words.contains(decided), "{words}");
            }
        }
    }

    #[test]
    fn a_fast_first_choice_stays() {
        assert_eq!(fast_first("aes256-gcm@openssh.com,aes128-ctr"), None);
        assert_eq!(fast_first(""), None);
        assert_eq!(fast_first("a,b"), None);
    }

    #[test]
    fn a_proxy_is_seen() {
        let of = |line: &str| SshOptions::from_config(&format!("hostname db1\n{line}\n"), 30, true).proxied;
        for proxied in ["proxyjump gate", "proxycommand nc -X 5 %h %p"] {
            assert!(of(proxied), "{proxied}");
        }
        for straight in ["", "proxyjump none", "proxycommand none", "proxyusefdpass no"] {
            assert!(!of(straight), "{straight}");
        }
    }
}

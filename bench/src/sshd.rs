//! A real sshd in the remote namespace, with its own keys and configuration.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::link::{EmulatedLink, FAR_IP};
use crate::measure::HostProcesses;
use crate::process::{CommandPlace, RunningCommand, await_listener, run_aside};
use crate::programs::which;
use crate::stop::Stop;

const PORT: u16 = 22_022;

/// Access to the remote host.
pub(crate) struct SshAccess {
    /// Its address.
    pub(crate) host: String,
    /// The port of its sshd.
    pub(crate) port: u16,
    /// The private key of the client.
    pub(crate) key: String,
    /// The client configuration file with these settings.
    pub(crate) config: String,
}

impl SshAccess {
    /// The remote-shell command for tools.
    pub(crate) fn command(&self) -> String {
        format!("ssh -F {}", self.config)
    }
}

/// The running server. Killed on drop.
pub(crate) struct BenchSshd {
    running: RunningCommand,
    /// How to connect to it.
    pub(crate) access: SshAccess,
}

/// Writes the configuration files of server and client.
fn write_configs(dir: &Path) -> Result<()> {
    let at = |name: &str| dir.join(name).display().to_string();
    let sftp = sftp_server().map_or(String::new(), |path| format!("Subsystem sftp {}\n", path.display()));
    // A bash that sshd starts as the first shell reads the start-up files of the user. SHLVL makes it a later one, so
    // that their commands are no part of the measurement.
    let server = format!(
        "Port {PORT}\nListenAddress {FAR_IP}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nStrictModes no\nUsePAM no\nUseDNS no\n\
         SetEnv SHLVL=1\n\
         PrintMotd no\nPrintLastLog no\n{sftp}",
        at("host_key"),
        at("authorized_keys"),
    );
    fs::write(at("sshd_config"), server)?;
    let client = format!(
        "Host *\n  User root\n  Port {PORT}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  \
         BatchMode yes\n  LogLevel ERROR\n",
        at("client_key"),
        at("known_hosts"),
    );
    fs::write(at("ssh_config"), client)?;
    Ok(())
}

impl BenchSshd {
    /// Starts the server and waits until it listens.
    pub(crate) fn start(dir: &Path, link: &EmulatedLink, far: &HostProcesses, stop: &Stop) -> Result<Self> {
        let program = which("sshd")
            .or_else(|| which("/usr/sbin/sshd"))
            .context("sshd is not installed (package openssh-server)")?;
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::DirBuilder::new().mode(0o700).create(dir)?;
        // sshd requires this directory, which the system service creates at boot.
        let privileged = Path::new("/run/sshd");
        if !privileged.exists() {
            fs::DirBuilder::new().mode(0o755).create(privileged).context("cannot make /run/sshd")?;
        }
        let log = dir.join("sshd.log");
        let at = |name: &str| dir.join(name).display().to_string();
        for name in ["host_key", "client_key"] {
            run_aside(&format!("ssh-keygen -q -t ed25519 -N '' -C haul-bench -f {}", at(name)), &log, stop)?;
        }
        fs::copy(at("client_key.pub"), at("authorized_keys"))?;
        fs::set_permissions(at("authorized_keys"), fs::Permissions::from_mode(0o600))?;
        let host_key = fs::read_to_string(at("host_key.pub"))?;
        fs::write(at("known_hosts"), format!("[{FAR_IP}]:{PORT} {host_key}"))?;

        write_configs(dir)?;
        let place = CommandPlace { netns: Some(link.far()), side: Some(far), log: &log };
        let config = at("sshd_config");
        let mut running = RunningCommand::program(
            &program.display().to_string(),
            ["-D", "-e", "-f", config.as_str()],
            place,
        )?;
        if let Err(error) = await_listener(&mut running, PORT, stop) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(error.context(format!("sshd: {}", crate::process::last_lines(&said))));
        }
        let access = SshAccess {
            host: FAR_IP.to_owned(),
            port: PORT,
            key: at("client_key"),
            config: at("ssh_config"),
        };
        let sshd = Self { running, access };
        sshd.try_login(dir, link, stop)?;
        Ok(sshd)
    }

    /// The process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// One login that does nothing, so that a faulty setup is told from a faulty tool.
    fn try_login(&self, dir: &Path, link: &EmulatedLink, stop: &Stop) -> Result<()> {
        let log = dir.join("login.log");
        let text = format!("{} root@{FAR_IP} true", self.access.command());
        let mut running =
            RunningCommand::shell(&text, CommandPlace { netns: Some(link.near()), side: None, log: &log })?;
        let start = std::time::Instant::now();
        loop {
            stop.check()?;
            ensure!(start.elapsed().as_secs() < 15, "no login to the far sshd within 15 s");
            if let Some((_, status)) = running.wait_for(std::time::Duration::from_millis(20))? {
                let said = fs::read_to_string(&log).unwrap_or_default();
                ensure!(status.success(), "cannot log in: {}", crate::process::last_lines(&said));
                return Ok(());
            }
        }
    }
}

fn sftp_server() -> Option<PathBuf> {
    ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

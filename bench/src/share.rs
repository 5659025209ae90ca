//! A real SMB server in the remote namespace, whose share is the directory of the trees; and the commands of its
//! clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::link::EmulatedLink;
use crate::measure::HostProcesses;
use crate::process::{CommandPlace, RunningCommand, await_listener, last_lines, run_aside};
use crate::stop::Stop;

const PORT: u16 = 445;
const SERVER: &str = "/usr/sbin/smbd";
/// The user of the share.
pub(crate) const USER: &str = "root";
/// Their password.
pub(crate) const PASSWORD: &str = "bench-secret";
/// The name of the share.
pub(crate) const SHARE: &str = "bench";

/// Access to the share.
pub(crate) struct ShareAccess {
    /// The directory that is shared.
    root: String,
    /// The file with user and password.
    pub(crate) credentials: String,
    /// The settings of Samba, for its client.
    pub(crate) config: String,
}

impl ShareAccess {
    /// The path of a directory on the share.
    pub(crate) fn below<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/')
    }
}

/// The running server. Killed on drop.
pub(crate) struct Share {
    running: RunningCommand,
    pub(crate) access: ShareAccess,
}

impl Share {
    /// Starts the server and waits until it listens.
    pub(crate) fn start(
        dir: &Path,
        root: &Path,
        link: &EmulatedLink,
        far: &HostProcesses,
        stop: &Stop,
    ) -> Result<Self> {
        ensure!(Path::new(SERVER).exists(), "smbd is not installed (Debian: samba)");
        let at = |name: &str| dir.join(name).display().to_string();
        for name in ["private", "lock", "state", "cache", "pid", "rpc"] {
            fs::create_dir_all(dir.join(name))?;
        }
        let mut config = format!(
            "[global]\nserver role = standalone server\nsmb ports = {PORT}\ndisable netbios = yes\nload printers = no\n\
             printcap name = /dev/null\ndisable spoolss = yes\nlog file = {}\nncalrpc dir = {}\n",
            at("log"),
            at("rpc")
        );
        for name in ["private", "lock", "state", "cache", "pid"] {
            let key = if name == "private" { "private dir".to_owned() } else { format!("{name} directory") };
            config += &format!("{key} = {}\n", at(name));
        }
        config += &format!("[{SHARE}]\npath = {}\nread only = no\nforce user = root\n", root.display());
        fs::write(at("smb.conf"), config)?;
        let credentials = at("credentials");
        fs::write(&credentials, format!("username={USER}\npassword={PASSWORD}\n"))?;
        fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600))?;
        let set =
            format!("printf '{PASSWORD}\\n{PASSWORD}\\n' | smbpasswd -c {} -s -a {USER}", at("smb.conf"));
        run_aside(&set, &dir.join("smbpasswd.log"), stop).context("smbpasswd")?;
        let log = dir.join("smbd.log");
        let place = CommandPlace { netns: Some(link.far()), side: Some(far), log: &log };
        let config = at("smb.conf");
        let mut running = RunningCommand::program(
            SERVER,
            ["--foreground", "--no-process-group", "-s", config.as_str()],
            place,
        )?;
        if let Err(error) = await_listener(&mut running, PORT, stop) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(error.context(format!("smbd: {}", last_lines(&said))));
        }
        let root = root.display().to_string();
        Ok(Self { running, access: ShareAccess { root, credentials, config } })
    }

    /// The process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }
}

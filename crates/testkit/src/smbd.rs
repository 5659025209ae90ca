//! Starts a real smbd with its own configuration, state and passwords. Needs root and Samba.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::needs::Need;
use crate::process::{descendants, kill, wait_until};
use crate::scratch::Scratch;

/// The user of the server. A user of Samba has to be one of the system, too.
pub const USER: &str = "root";
/// The password of [`USER`] at this server.
pub const PASSWORD: &str = "a secret, with #=;@";
/// A user of the server that may not use the share.
pub const STRANGER: &str = "nobody";
/// The name of the share.
pub const SHARE: &str = "disk";

const SMBD: &str = "/usr/sbin/smbd";
/// A server that keeps reparse points, which the Samba of Debian 12 does not; `scripts/test` installs it.
pub const REPARSE_SMBD: &str = "smbd-reparse";
/// The smbclient that makes and shows them.
pub const REPARSE_CLIENT: &str = "smbclient-reparse";

/// The requirements of the server.
pub const NEEDS: [Need; 2] = [Need::Root, Need::Program("smbd")];

/// Differences from the default configuration.
#[derive(Clone, Debug, Default)]
pub struct SmbdOptions {
    /// Lines added to the global section.
    pub global: Vec<String>,
    /// Lines added to the section of the share.
    pub share: Vec<String>,
    /// The program; `None`: the smbd of the system.
    pub program: Option<&'static str>,
    /// Variables of the server.
    pub environment: Vec<(&'static str, String)>,
}

/// A running server on a free port of 127.0.0.1, with one share. Killed on drop, with all its sessions.
#[derive(Debug)]
pub struct Smbd {
    child: Option<Child>,
    port: u16,
    program: &'static str,
    environment: Vec<(&'static str, String)>,
    scratch: Scratch,
}

impl Smbd {
    /// Starts a server whose share is the directory `path`, and waits until it accepts connections.
    #[must_use]
    pub fn start(path: &Path, options: &SmbdOptions) -> Self {
        let scratch = Scratch::new();
        for dir in ["private", "lock", "state", "cache", "pid", "rpc"] {
            fs::create_dir(scratch.join(dir)).unwrap();
        }
        let (program, environment) = (options.program.unwrap_or(SMBD), options.environment.clone());
        let mut server = Self { child: None, port: 0, program, environment, scratch };
        // Another process may take the free port before smbd does.
        for _ in 0..5 {
            server.port = free_port();
            server.configure(path, options);
            for user in [USER, STRANGER] {
                server.set_password(user, PASSWORD);
            }
            server.spawn();
            if server.waits_for_clients() {
                return server;
            }
        }
        panic!("smbd does not start: {}", server.log());
    }

    fn configure(&self, path: &Path, options: &SmbdOptions) {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        let mut config = format!(
            "[global]\nserver role = standalone server\nworkgroup = HAUL\nnetbios name = HAULTEST\n\
             smb ports = {}\ninterfaces = 127.0.0.1\nbind interfaces only = yes\ndisable netbios = yes\n\
             private dir = {}\nlock directory = {}\nstate directory = {}\ncache directory = {}\npid directory = {}\n\
             ncalrpc dir = {}\nload printers = no\nprintcap name = /dev/null\n\
             disable spoolss = yes\nlog file = {}\nlog level = 1 auth:3\nmax log size = 0\nmap to guest = never\n",
            self.port,
            at("private"),
            at("lock"),
            at("state"),
            at("cache"),
            at("pid"),
            at("rpc"),
            at("log"),
        );
        options.global.iter().for_each(|line| writeln!(config, "{line}").unwrap());
        let _ = writeln!(config, "[{SHARE}]\npath = {}\nread only = no\nforce user = root", path.display());
        let _ = writeln!(config, "valid users = {USER} guest");
        options.share.iter().for_each(|line| writeln!(config, "{line}").unwrap());
        fs::write(self.config(), config).unwrap();
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.scratch.join("smb.conf")
    }

    /// Gives a user a password.
    pub fn set_password(&self, user: &str, password: &str) {
        let mut command = Command::new("smbpasswd");
        command.arg("-c").arg(self.config()).args(["-s", "-a", user]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{password}\n{password}").unwrap();
        assert!(child.wait().unwrap().success(), "smbpasswd {user}");
    }

    fn spawn(&mut self) {
        let mut command = Command::new(self.program);
        command.args(["--foreground", "--no-process-group", "-s"]).arg(self.config());
        command.envs(self.environment.clone());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("cannot start smbd: {error}")));
    }

    fn waits_for_clients(&mut self) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut answers = false;
        wait_until("smbd answers", Duration::from_secs(20), || {
            answers = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
            let ended = self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            answers || ended
        });
        answers
    }

    /// Kills the server and all its sessions, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let below = descendants(child.id());
            let _ = child.kill();
            let _ = child.wait();
            below.into_iter().for_each(kill);
        }
    }

    /// Starts the server again on the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        assert!(self.waits_for_clients(), "smbd does not start again: {}", self.log());
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The location of a path on the share.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("smb://{USER}@127.0.0.1:{}/{SHARE}/{path}", self.port)
    }

    /// A file with user and password, as mount.cifs(8) and smbclient(1) take it.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.credentials_of(USER, PASSWORD)
    }

    /// The same for another user or password.
    #[must_use]
    pub fn credentials_of(&self, user: &str, password: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.scratch.join(format!("credentials-{user}-{}", password.len()));
        fs::write(&path, format!("username={user}\npassword={password}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.scratch.join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// The number of lines in its log that contain these words.
    #[must_use]
    pub fn logged(&self, words: &str) -> usize {
        self.log().lines().filter(|line| line.contains(words)).count()
    }
}

impl Drop for Smbd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port of 127.0.0.1 that nobody uses.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

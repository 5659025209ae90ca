//! Starts a real sshd with its own keys and configuration.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::needs::tool;
use crate::pam::{SERVICE, Secrets};
use crate::process::{TAG, descendants, kill, wait_until};
use crate::scratch::Scratch;

/// Differences from the default configuration.
#[derive(Clone, Debug, Default)]
pub struct SshdOptions {
    /// Lines added to its configuration.
    pub lines: Vec<String>,
    /// A command to run instead of the one that the client requests (`SSH_ORIGINAL_COMMAND`).
    pub force_command: Option<String>,
}

/// A running server on a free port of 127.0.0.1. Killed on drop, with all its sessions.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    port: u16,
    scratch: Scratch,
}

impl Sshd {
    /// Starts a server whose sessions have the tag `tag`, and waits until it accepts connections.
    #[must_use]
    pub fn start(tag: &str, options: &SshdOptions) -> Self {
        Self::begin(tag, options, None)
    }

    /// Starts a server that accepts these secrets and no key. PAM checks them, which needs root.
    #[must_use]
    pub fn start_asking(tag: &str, secrets: &Secrets) -> Self {
        Self::begin(tag, &SshdOptions::default(), Some(secrets))
    }

    fn begin(tag: &str, options: &SshdOptions, secrets: Option<&Secrets>) -> Self {
        let scratch = Scratch::new();
        for key in ["host_key", "client_key"] {
            tool(
                Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(scratch.join(key)),
            );
        }
        fs::copy(scratch.join("client_key.pub"), scratch.join("authorized_keys")).unwrap();
        if crate::needs::is_root() {
            // The path is compiled into sshd. The service of the system creates it at boot.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        // Another process may take the free port before sshd does.
        for _ in 0..5 {
            let port = free_port();
            let mut child = spawn(&scratch, port, tag, options, secrets);
            let mut answers = false;
            wait_until("sshd answers", Duration::from_secs(20), || {
                answers = greeted(port);
                answers || !matches!(child.try_wait(), Ok(None))
            });
            if answers {
                // `greeted` was a login that had begun: it counts for MaxStartups until its process has ended.
                let is_idle = || descendants(child.id()).is_empty();
                wait_until("sshd has ended the connection", Duration::from_secs(20), is_idle);
                let host = fs::read_to_string(scratch.join("host_key.pub")).unwrap();
                fs::write(scratch.join("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
                return Self { child, port, scratch };
            }
            let _ = child.wait();
        }
        panic!("sshd does not start: {}", fs::read_to_string(scratch.join("log")).unwrap_or_default());
    }

    /// The host name for the client.
    #[must_use]
    pub fn host(&self) -> &'static str {
        "127.0.0.1"
    }

    /// The command for `-e`: ssh with the key and the known host of this server only.
    #[must_use]
    pub fn shell(&self) -> String {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        format!(
            "ssh -F /dev/null -p {} -i {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes \
             -o IdentitiesOnly=yes -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=20",
            self.port,
            at("client_key"),
            at("known_hosts"),
        )
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with the accepted key.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.scratch.join("client_key")
    }

    /// The file of known hosts with its host key.
    #[must_use]
    pub fn known_hosts(&self) -> PathBuf {
        self.scratch.join("known_hosts")
    }

    /// Accepts another key, too.
    pub fn authorize(&self, public_key: &Path) {
        let mut keys = fs::read_to_string(self.scratch.join("authorized_keys")).unwrap();
        keys.push_str(&fs::read_to_string(public_key).unwrap());
        fs::write(self.scratch.join("authorized_keys"), keys).unwrap();
    }

    /// A configuration file for ssh in which this server has the name `alias`.
    #[must_use]
    pub fn client_config(&self, alias: &str) -> PathBuf {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        let path = self.scratch.join("ssh_config");
        let text = format!(
            "Host {alias}\n  HostName 127.0.0.1\n  Port {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n  \
             StrictHostKeyChecking yes\n  IdentitiesOnly yes\n  BatchMode yes\n",
            self.port,
            at("client_key"),
            at("known_hosts"),
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("log")).unwrap_or_default()
    }

    /// The number of accepted logins with a key.
    #[must_use]
    pub fn logins(&self) -> usize {
        self.logged("Accepted publickey")
    }

    /// The number of lines in its log that contain these words.
    #[must_use]
    pub fn logged(&self, words: &str) -> usize {
        self.log().lines().filter(|line| line.contains(words)).count()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let below = descendants(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        below.into_iter().for_each(kill);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(scratch: &Scratch, port: u16, tag: &str, options: &SshdOptions, secrets: Option<&Secrets>) -> Child {
    let at = |name: &str| scratch.join(name).display().to_string();
    // sshd uses the first value of an option, so the lines of the test come first.
    let mut config: String = options.lines.iter().map(|line| format!("{line}\n")).collect();
    config.extend(secrets.map(Secrets::config));
    // The default of Debian 12 (sntrup761) costs ssh 70 ms of CPU time for each login, this one 9 ms.
    config.push_str("KexAlgorithms curve25519-sha256\n");
    // With this SHLVL, bash does not read ~/.bashrc for a login over ssh: programs that it starts could outlive a kill.
    let _ = writeln!(
        config,
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile {}\nStrictModes no\n\
         Subsystem sftp {}\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\nLogLevel INFO\nSetEnv {TAG}={tag} SHLVL=1",
        at("host_key"),
        at("authorized_keys"),
        at("pid"),
        sftp_server().display(),
    );
    if let Some(command) = &options.force_command {
        let _ = writeln!(config, "ForceCommand {command}");
    }
    fs::write(scratch.join("sshd_config"), config).unwrap();
    let log = File::create(scratch.join("log")).unwrap();
    let mut command = match secrets {
        None => Command::new(program()),
        Some(secrets) => with_service(&secrets.write(scratch.path())),
    };
    command.args(["-D", "-e", "-f"]).arg(scratch.join("sshd_config")).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap_or_else(|error| panic!("cannot start sshd: {error}"))
}

/// Runs sshd with this PAM service file, which is mounted in a namespace of its own.
fn with_service(file: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.args([&format!("mount --bind \"$0\" {SERVICE} && exec \"$@\"")]).arg(file).arg(program());
    command
}

/// The SFTP server of the system.
#[must_use]
pub fn sftp_server() -> PathBuf {
    let places =
        ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"];
    places.iter().map(Path::new).find(|path| path.exists()).expect("an SFTP server is installed").to_owned()
}

/// sshd must be started by its full path.
fn program() -> PathBuf {
    let places = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
    places.iter().map(Path::new).find(|path| path.exists()).expect("sshd is installed").to_owned()
}

fn greeted(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let mut greeting = [0; 4];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut greeting).is_ok()
        && &greeting == b"SSH-"
}

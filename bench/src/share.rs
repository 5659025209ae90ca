//! A real SMB server in the remote namespace, whose share is the folder of the trees; and the commands of its clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cases::Route;
use crate::link::{FAR_IP, Link};
use crate::measure::Side;
use crate::process::{Place, Running, await_listener, last_lines, run_aside};
use crate::stop::Stop;
use crate::tool::{Job, Plan, near};

const PORT: u16 = 445;
const SERVER: &str = "/usr/sbin/smbd";
const USER: &str = "root";
const PASSWORD: &str = "bench-secret";
const SHARE: &str = "bench";

/// Access to the share.
pub(crate) struct ShareAccess {
    /// The folder that is shared.
    root: String,
    /// The file with user and password.
    credentials: String,
    /// The settings of Samba, for its client.
    config: String,
}

impl ShareAccess {
    /// The path of a folder on the share.
    fn below<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/')
    }
}

/// The running server. Killed on drop.
pub(crate) struct Share {
    running: Running,
    pub(crate) access: ShareAccess,
}

impl Share {
    /// Starts the server and waits until it listens.
    pub(crate) fn start(dir: &Path, root: &Path, link: &Link, far: &Side, stop: &Stop) -> Result<Self> {
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
        let place = Place { netns: Some(link.far()), side: Some(far), log: &log };
        let config = at("smb.conf");
        let mut running =
            Running::program(SERVER, ["--foreground", "--no-process-group", "-s", config.as_str()], place)?;
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

/// Source and target; the one on the share in the words of a client.
fn ends(job: &Job, share: &ShareAccess, words: impl Fn(&str) -> String) -> Option<(String, String)> {
    match job.route {
        Route::Push => Some((job.source.to_owned(), words(share.below(job.target)))),
        Route::Pull => Some((words(share.below(job.source)), job.target.to_owned())),
        Route::Local => None,
    }
}

pub(crate) fn haul(job: &Job) -> Option<Plan> {
    let share = job.share?;
    let (from, to) = ends(job, share, |path| format!("smb://{FAR_IP}/{SHARE}/{path}"))?;
    near(format!(
        "{} copy -q --smb-credentials {} {} {from}/ {to}/",
        job.haul, share.credentials, job.haul_args
    ))
}

pub(crate) fn rclone(job: &Job, transfers: u32) -> Option<Plan> {
    let share = job.share?;
    let remote = |path: &str| {
        let password = format!("$(rclone obscure {PASSWORD})");
        format!("\":smb,host={FAR_IP},user={USER},pass='{password}':{SHARE}/{path}\"")
    };
    let (from, to) = ends(job, share, remote)?;
    near(format!(
        "RCLONE_CONFIG=/dev/null rclone copy -q --transfers {transfers} --checkers {transfers} {from} {to}"
    ))
}

/// `mput` and `mget` copy into the folder of the share that they are in.
pub(crate) fn smbclient(job: &Job) -> Option<Plan> {
    let share = job.share?;
    let client = format!(
        "smbclient //{FAR_IP}/{SHARE} -s {} -A {} -c 'prompt OFF; recurse ON;",
        share.config, share.credentials
    );
    match job.route {
        Route::Push => {
            let to = share.below(job.target);
            near(format!("{client} mkdir {to}; cd {to}; lcd {}; mput *' > /dev/null", job.source))
        }
        Route::Pull => {
            let (from, to) = (share.below(job.source), job.target);
            near(format!("mkdir -p {to} && {client} cd {from}; lcd {to}; mget *' > /dev/null"))
        }
        Route::Local => None,
    }
}

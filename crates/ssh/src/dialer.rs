//! Opens connections by starting ssh processes.
//!
//! ssh may ask for a password on the terminal for the first connection. Further connections must not ask: they are TCP
//! connections of their own that log in with keys (BatchMode). If that is refused, they go through the first
//! connection, which is a control master.

use haul_core::sync::Mutex;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use haul_core::location::SshHost;
use haul_core::path::printable;
use haul_core::{Error, ErrorKind, IpFamily, Note, Result, Side};
use haul_transport::Streams;
use tempfile::TempDir;

use super::announce::announce;
use super::config::SshConfig;
use super::dial::{AfterRefusal, Dial, DialPurpose, DialRefused, DialedLink, Helper};
use super::errand::Errand;
use super::master::PersistentMaster;
use super::options::SshOptions;
use super::process::{SshHelper, SshProcess};
use super::trouble::LoginCommand;

/// Further connections are TCP connections of their own.
const DIRECT: u8 = 0;
/// Further connections go through the first one (ControlMaster).
const THROUGH_FIRST: u8 = 1;
/// No further connections.
const NONE: u8 = 2;

/// Opens connections by starting ssh.
pub struct SshDialer {
    shell: Vec<String>,
    family: Option<IpFamily>,
    host: SshHost,
    errand: Errand,
    options: SshOptions,
    /// The directory of the first connection's control socket. `None` if haul may not add options to the command, and
    /// at the end.
    dir: Mutex<Option<TempDir>>,
    persistent: Option<PersistentMaster>,
    further: AtomicU8,
    stopped: AtomicBool,
    processes: Mutex<Vec<Weak<SshProcess>>>,
    note: Note,
}

impl SshDialer {
    /// Reads the configuration of ssh for this host, and prepares to start it.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the command is empty, [`ErrorKind::Unreachable`] if the program does not exist.
    pub fn new(host: &SshHost, config: &SshConfig, errand: Errand, note: Note) -> Result<Self> {
        let Some(program) = config.shell.first() else {
            return Err(Error::new(ErrorKind::Usage, Side::Local, "start ssh", "the command is empty"));
        };
        if !is_program(program) {
            let exists = program.contains('/') && Path::new(program).exists();
            let why = if exists { "it is not executable" } else { "it was not found on this machine" };
            return Err(Error::new(ErrorKind::Unreachable, Side::Local, "start", why).on(program));
        }
        let is_ssh = config.is_ssh();
        let options =
            if is_ssh { SshOptions::of(&config.shell, host, config.timeout) } else { SshOptions::foreign() };
        let is_free = is_ssh && !options.user_master;
        let persist = config.persist.as_ref().filter(|_| is_free);
        let persistent = persist.map(|persist| PersistentMaster::new(persist, config, host));
        let dir = if is_free && persistent.is_none() { control_dir() } else { None };
        Ok(Self {
            shell: config.shell.clone(),
            family: config.family,
            host: host.clone(),
            errand,
            options,
            dir: Mutex::new(dir),
            persistent,
            further: AtomicU8::new(DIRECT),
            stopped: AtomicBool::new(false),
            processes: Mutex::new(Vec::new()),
            note,
        })
    }

    fn socket(&self) -> Option<PathBuf> {
        let persistent = self.persistent.as_ref().map(|master| master.socket.clone());
        persistent.or_else(|| self.dir.lock().as_ref().map(|dir| dir.path().join("c")))
    }

    fn login(&self) -> LoginCommand {
        let port = self.host.port.map_or_else(String::new, |port| format!("-p {port} "));
        let host = printable(self.host.destination.as_bytes());
        let shell = self.options.is_ssh.then(|| self.shell.clone());
        LoginCommand { shell, name: self.name(), host: format!("{port}{host}") }
    }

    /// The whole command of a connection.
    fn command(&self, way: DialPurpose) -> Vec<String> {
        let mut words = self.shell.clone();
        if self.options.is_ssh {
            words.extend(self.options.words.iter().cloned());
            words.extend(self.family.map(|family| family.option().to_owned()));
            if way != DialPurpose::First {
                words.push("-oBatchMode=yes".to_owned());
            }
            let socket = self.socket().map(|path| format!("-oControlPath={}", path.display()));
            let through_first = self.further.load(Ordering::Relaxed) == THROUGH_FIRST;
            match (way, socket) {
                (DialPurpose::First | DialPurpose::Again, Some(socket)) => {
                    let (master, persist) = match &self.persistent {
                        Some(master) => ("auto", master.seconds.to_string()),
                        None => ("yes", "no".to_owned()),
                    };
                    words.extend([
                        socket,
                        format!("-oControlMaster={master}"),
                        format!("-oControlPersist={persist}"),
                    ]);
                }
                (DialPurpose::Further, Some(socket)) if through_first => {
                    words.extend([socket, "-oControlMaster=no".to_owned()]);
                }
                (DialPurpose::Further, _) if !through_first => {
                    words.extend(["-oControlMaster=no".to_owned(), "-oControlPath=none".to_owned()]);
                }
                // The user has a control master already, or could not have one.
                _ => {}
            }
        }
        if let Some(port) = self.host.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        if self.errand == Errand::Sftp {
            words.push("-s".to_owned());
        }
        words.push(self.host.destination.clone());
        words.push(match &self.errand {
            Errand::Agent(haul) => format!("{haul} agent"),
            Errand::Sftp => "sftp".to_owned(),
            Errand::Command(command) => command.clone(),
        });
        words
    }
}

/// An ssh that was started.
pub struct Pipes {
    /// Its standard output.
    pub from: OwnedFd,
    /// Its standard input.
    pub to: OwnedFd,
    /// The process.
    pub helper: Arc<dyn Helper>,
}

/// Opens connections as pairs of pipes.
pub trait OpenPipes: Dial {
    /// Starts a process for a connection.
    ///
    /// # Errors
    /// If it cannot be started, or the run has ended.
    fn start(&self, way: DialPurpose) -> std::result::Result<Pipes, DialRefused>;
}

impl OpenPipes for SshDialer {
    fn start(&self, way: DialPurpose) -> std::result::Result<Pipes, DialRefused> {
        let refused = |trouble, error: Error| DialRefused { trouble, error: error.on(self.name()) };
        let ended = || Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "the run has ended");
        let is_anew = match &self.persistent {
            Some(master) => {
                way == DialPurpose::Again
                    || way == DialPurpose::First && !master.answers(&self.shell, &self.host)
            }
            None => way != DialPurpose::Further,
        };
        if let Some(socket) = self.socket().filter(|_| is_anew) {
            // A killed master may have left its socket, and ssh would then not become a master.
            let _ = std::fs::remove_file(socket);
        }
        let note = if way == DialPurpose::Further { None } else { Some(self.note.clone()) };
        let (process, to, from) = SshProcess::start(&self.command(way), note)
            .map_err(|error| refused(AfterRefusal::Fatal, Error::io(Side::Local, "start ssh to", &error)))?;
        let mut processes = self.processes.lock();
        processes.retain(|process| process.strong_count() > 0);
        processes.push(Arc::downgrade(&process));
        if self.stopped.load(Ordering::Relaxed) {
            drop(processes);
            process.end();
            return Err(refused(AfterRefusal::Fatal, ended()));
        }
        drop(processes);
        if way == DialPurpose::First {
            announce(Arc::downgrade(&process), self.note.clone(), self.name());
        }
        let up = self.persistent.as_ref().map(|master| Arc::clone(&master.is_up));
        let helper = SshHelper { process, login: self.login(), errand: self.errand.clone(), up };
        Ok(Pipes { from, to, helper: Arc::new(helper) })
    }
}

impl Dial for SshDialer {
    fn dial(&self, way: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
        let Pipes { from, to, helper } = self.start(way)?;
        match Streams::plain(from, to) {
            Ok(streams) => Ok(DialedLink { streams, helper: Some(helper) }),
            Err(error) => {
                helper.kill();
                let error = Error::io(Side::Local, "connect to", &error).on(self.name());
                Err(DialRefused { trouble: AfterRefusal::Later, error })
            }
        }
    }

    fn fall_back(&self) -> bool {
        let master = self.socket().is_some() || self.options.user_master;
        let next = if master { THROUGH_FIRST } else { NONE };
        self.further.compare_exchange(DIRECT, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() && master
    }

    fn stop(&self) {
        let processes = {
            let all = self.processes.lock();
            self.stopped.store(true, Ordering::Relaxed);
            all.clone()
        };
        for process in processes.iter().filter_map(Weak::upgrade).filter(|process| !process.is_settled()) {
            process.kill();
        }
    }

    fn clean(&self) {
        // Removes the directory now, as threads that hold this dialer may still run when the program exits.
        self.dir.lock().take();
        self.persistent.iter().for_each(PersistentMaster::forget_if_useless);
    }

    fn hosts(&self) -> Vec<String> {
        self.options.hostname.iter().cloned().collect()
    }

    fn is_straight(&self) -> bool {
        self.options.hostname.is_some() && !self.options.proxied
    }

    fn family(&self) -> Option<IpFamily> {
        self.family
    }

    fn asks_a_person(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.host.to_string()
    }
}

/// A private directory for a control socket. Unix sockets have short names, and ssh adds 17 bytes to this one while
/// it makes it; ssh also reads `%`, quotes and spaces in it.
fn control_dir() -> Option<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("haul-");
    let usual = std::env::temp_dir();
    let plain = usual.to_str().is_some_and(|path| {
        path.len() < 60 && path.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.+@".contains(c))
    });
    if plain { builder.tempdir().ok() } else { builder.tempdir_in("/tmp").ok() }
}

fn is_program(name: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return runs(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).any(|dir| runs(dir.join(name)))
}

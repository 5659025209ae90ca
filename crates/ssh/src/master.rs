//! The control master of a login that outlives the run.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::Digest;
use haul_core::location::SshHost;

use super::config::{Persist, SshConfig};

/// How long a master may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often its answer is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// A master that this run makes, or that an earlier run has left.
pub(super) struct PersistentMaster {
    pub(super) socket: PathBuf,
    /// How long it stays after its last use.
    pub(super) seconds: u32,
    /// A connection of this run came up.
    pub(super) is_up: Arc<AtomicBool>,
}

impl PersistentMaster {
    /// Another command, such as one with another key, is another login.
    pub(super) fn new(persist: &Persist, config: &SshConfig, host: &SshHost) -> Self {
        let login = format!("{:?} {:?} {:?}", config.shell, config.family, host);
        let name = &Digest::of(login.as_bytes()).to_string()[..16];
        Self { socket: persist.dir.join(name), seconds: persist.seconds, is_up: Arc::default() }
    }

    /// Whether a master is there and answers (`ssh -O check`).
    pub(super) fn answers(&self, shell: &[String], host: &SshHost) -> bool {
        let Some((program, words)) = shell.split_first().filter(|_| self.socket.exists()) else {
            return false;
        };
        let mut command = Command::new(program);
        command.args(words).args(["-O", "check"]).arg(format!("-oControlPath={}", self.socket.display()));
        command.arg(&host.destination).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut check) = command.spawn() else { return false };
        let begun = Instant::now();
        while begun.elapsed() < ANSWER {
            match check.try_wait() {
                Ok(None) => thread::sleep(LOOK),
                Ok(Some(status)) => return status.success(),
                Err(_) => break,
            }
        }
        // It may have ended meanwhile.
        let _ = check.kill();
        let _ = check.wait();
        false
    }

    /// Removes the socket if no connection of this run came up: the network of the master may have gone, and the next
    /// run then logs in anew.
    pub(super) fn forget_if_useless(&self) {
        if !self.is_up.load(Ordering::Relaxed) {
            // If it is not there, nothing is to be done.
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

impl Drop for PersistentMaster {
    fn drop(&mut self) {
        self.forget_if_useless();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_login_has_a_master_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let persist = Persist { dir: dir.path().to_owned(), seconds: 60 };
        let socket = |shell: &str, port: Option<u16>| {
            let shell = shell.split(' ').map(str::to_owned).collect();
            let config = SshConfig { shell, shell_given: true, family: None, timeout: 1, persist: None };
            let host = SshHost { destination: "db1".to_owned(), port };
            PersistentMaster::new(&persist, &config, &host).socket.clone()
        };
        let usual = socket("ssh", None);
        assert_eq!(usual, socket("ssh", None));
        assert!(usual != socket("ssh -i key", None) && usual != socket("ssh", Some(2222)));
    }

    #[test]
    fn a_master_without_a_connection_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let persist = Persist { dir: dir.path().to_owned(), seconds: 60 };
        let config =
            SshConfig { shell: Vec::new(), shell_given: true, family: None, timeout: 1, persist: None };
        let host = SshHost { destination: "db1".to_owned(), port: None };
        for is_up in [true, false] {
            let master = PersistentMaster::new(&persist, &config, &host);
            let socket = master.socket.clone();
            std::fs::write(&socket, "").unwrap();
            master.is_up.store(is_up, Ordering::Relaxed);
            drop(master);
            assert_eq!(socket.exists(), is_up);
        }
    }
}

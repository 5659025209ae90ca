//! What a test needs of the machine. A test whose needs are not met is skipped loudly, never passed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of root: owners, devices, `trusted.` attributes.
    Root,
    /// Loop devices and the right to mount.
    LoopMounts,
    /// The right to mount a tmpfs.
    Tmpfs,
    /// The right to mount a file system in user space.
    Fuse,
    /// The programs of a PostgreSQL server.
    Postgres,
    /// PAM, with a module that lets a program of the test judge passwords.
    Pam,
    /// A program on the `PATH`.
    Program(&'static str),
}

impl Need {
    /// Why it is not met here; `None` if it is.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!is_root()).then(|| "needs root".to_owned()),
            Self::LoopMounts if !is_root() => Some("needs root to mount loop devices".to_owned()),
            Self::LoopMounts => {
                (!Path::new("/dev/loop-control").exists()).then(|| "needs /dev/loop-control".to_owned())
            }
            Self::Tmpfs => (!is_root()).then(|| "needs root to mount a tmpfs".to_owned()),
            Self::Fuse => (!is_root() || !Path::new("/dev/fuse").exists())
                .then(|| "needs root and /dev/fuse to mount a file system in user space".to_owned()),
            Self::Postgres => postgres_bin().is_none().then(|| "needs PostgreSQL's initdb".to_owned()),
            Self::Pam => crate::pam::missing(),
            Self::Program(name) => (!on_path(name)).then(|| format!("needs the program {name}")),
        }
    }
}

/// Whether this process has the rights of root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a shell finds the program, also where only root looks for it.
#[must_use]
pub fn on_path(name: &str) -> bool {
    let found = |dir: &Path| dir.join(name).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| found(&dir))
        || ["/usr/sbin", "/sbin"].iter().any(|dir| found(Path::new(dir)))
}

/// Where the newest PostgreSQL has its programs: Debian keeps those of a server off the `PATH`.
#[must_use]
pub fn postgres_bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").is_file() && bin.join("pg_basebackup").is_file());
    found.sort();
    found.pop()
}

/// Runs a tool to its end and gives what it printed.
///
/// # Panics
/// If it cannot be run or fails.
pub fn tool(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

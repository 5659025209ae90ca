//! Requirements of tests. A test whose requirements are not met is skipped with a message.

use std::path::{Path, PathBuf};

pub use crate::tools::{is_root, tool};

/// A requirement that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root, for owners, devices and `trusted.` attributes.
    Root,
    /// Loop devices, and the permission to mount them.
    LoopMounts,
    /// The permission to mount a tmpfs.
    Tmpfs,
    /// FUSE.
    Fuse,
    /// The programs of a PostgreSQL server.
    Postgres,
    /// PAM, with a module that runs a program of the test to check passwords.
    Pam,
    /// A program in `PATH`.
    Program(&'static str),
}

impl Need {
    /// Why this machine does not meet the requirement; `None` if it does.
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

/// Whether the program is in `PATH` or in the directories of system programs.
#[must_use]
pub fn on_path(name: &str) -> bool {
    let found = |dir: &Path| dir.join(name).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| found(&dir))
        || ["/usr/sbin", "/sbin"].iter().any(|dir| found(Path::new(dir)))
}

/// The directory of the newest PostgreSQL programs. Debian does not put server programs in `PATH`.
#[must_use]
pub fn postgres_bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").is_file() && bin.join("pg_basebackup").is_file());
    found.sort();
    found.pop()
}

//! Network namespaces, made with `ip netns` so that `ip netns exec` finds them too.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A named network namespace, deleted on drop.
pub(crate) struct Netns {
    name: String,
    file: File,
}

impl Netns {
    /// Makes a new namespace.
    pub(crate) fn new(name: String) -> Result<Self> {
        ip(&["netns", "add", &name])?;
        let path = PathBuf::from("/run/netns").join(&name);
        match File::open(&path) {
            Ok(file) => Ok(Self { name, file }),
            Err(error) => {
                let _ = ip(&["netns", "del", &name]);
                Err(error).with_context(|| format!("cannot open {}", path.display()))
            }
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A file that stands for it, for `setns`.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Runs a function on a thread inside of the namespace.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                        .with_context(|| format!("cannot enter the namespace {}", self.name))?;
                    work()
                })
                .join()
                .map_err(|_| anyhow!("a thread in the namespace {} failed", self.name))?
        })
    }

    /// Runs `ip` inside of the namespace.
    pub(crate) fn ip(&self, arguments: &[&str]) -> Result<()> {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend_from_slice(arguments);
        ip(&all)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "del", &self.name]) {
            eprintln!("haul-bench: {error:#}");
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(arguments).output().context("cannot run ip (of the package iproute2)")?;
    ensure!(
        output.status.success(),
        "ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

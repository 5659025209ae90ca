//! Facts about a host and a file system, as the system reports them. Unavailable facts are missing.

mod mounts;
mod network;
mod sshd;

use std::fs;
use std::path::Path;

use haul_core::path::printable;
use haul_core::probe::{Facts, Space};
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};
use std::os::unix::ffi::OsStrExt;

pub(crate) use network::number;

/// Gathers facts about `directory`, which exists, about the host, and about the route to the host `other`.
#[must_use]
pub fn gather(directory: &Path, other: Option<&str>) -> Facts {
    let ssh = network::ssh_login();
    // A remote end knows where its login came from.
    let route = match (&ssh, other) {
        (Some((from, _)), _) => network::route(from),
        (None, Some(other)) => network::route(other),
        (None, None) => None,
    };
    let shown = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    Facts {
        system: system(),
        cores: crate::cpu::cores(),
        aes: has_aes(),
        governor: governor(),
        open_files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        network: network::settings(),
        route,
        ssh,
        sshd: sshd::settings(),
        directory: printable(shown.as_os_str().as_bytes()),
        writable: rustix::fs::access(directory, Access::WRITE_OK).is_ok(),
        mount: mounts::of(&shown),
        space: space(directory),
    }
}

/// The free space of the file system of `directory`.
#[must_use]
pub fn space(directory: &Path) -> Option<Space> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    let unit = stat.f_frsize.max(1);
    Some(Space {
        free_bytes: stat.f_bavail.saturating_mul(unit),
        bytes: stat.f_blocks.saturating_mul(unit),
        free_inodes: stat.f_favail,
        inodes: stat.f_files,
    })
}

fn system() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

fn governor() -> Option<(String, String)> {
    let read = |name: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}")).ok();
    let governor = read("scaling_governor")?.trim().to_owned();
    Some((governor, read("scaling_driver").unwrap_or_default().trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_host_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let facts = gather(dir.path(), Some("127.0.0.1"));
        assert!(facts.cores > 0 && facts.open_files > 0 && facts.writable, "{facts:?}");
        assert!(facts.system.starts_with("Linux "));
        let space = facts.space.unwrap();
        assert!(space.bytes >= space.free_bytes && space.bytes > 0);
        assert!(!facts.mount.unwrap().kind.is_empty());
        let route = facts.route.unwrap();
        assert_eq!(route.interface, "lo");
        assert!(route.interface_mtu >= route.path_mtu && route.path_mtu > 0, "{route:?}");
    }
}

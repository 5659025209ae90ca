//! Diagnoses one end: limits, CPU, file system, sshd.

use haul_core::probe::{Facts, MountedFs};

use super::finding::{Finding, size};

/// The role of an end in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The source.
    Source,
    /// The destination.
    Destination,
    /// Not specified.
    Either,
}

/// Open files of a destination that receives many small files, with a reserve.
const FILES_WANTED: u64 = 8192;
/// With fewer, even a copy of large files can fail.
const FILES_NEEDED: u64 = 1024;
/// Concurrent logins of haul.
const LOGINS: u64 = 8;
/// The least size of an NFS request.
const NFS_SIZE: u64 = 256 * 1024;

/// Diagnoses one end.
#[must_use]
pub fn examine_end(role: Role, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![open_files(facts.open_files)];
    findings.push(aes(facts));
    findings.extend(governor(facts));
    findings.extend(sshd(facts));
    if role == Role::Destination {
        findings.push(writable(facts));
    }
    if let Some(mount) = &facts.mount {
        findings.push(file_system(role, mount));
        findings.extend(nfs(mount));
    }
    findings
}

fn open_files(limit: u64) -> Finding {
    let what = "open files";
    let fix = "raise it: `ulimit -n 65536` in the shell, nofile in /etc/security/limits.conf for good";
    match limit {
        u64::MAX => Finding::ok(what, "no limit"),
        FILES_WANTED.. => Finding::ok(what, format!("{limit} at once")),
        FILES_NEEDED.. => {
            Finding::warn(what, format!("{limit} at once; many small files take up to {FILES_WANTED}"), fix)
        }
        _ => Finding::bad(what, format!("{limit} at once; a copy needs {FILES_NEEDED} at least"), fix),
    }
}

fn aes(facts: &Facts) -> Finding {
    let what = "AES";
    if facts.aes {
        return Finding::ok(what, "the processor has instructions for it");
    }
    let fix = "a virtual machine may be hiding them: give it the host's processor type; with ssh, -e 'ssh -c \
               chacha20-poly1305@openssh.com' costs less";
    Finding::warn(what, "the processor has no instructions for it: encryption will be slow", fix)
}

fn governor(facts: &Facts) -> Option<Finding> {
    let what = "processor speed";
    let (governor, driver) = facts.governor.as_ref()?;
    // These drivers raise the frequency under load with any governor.
    let driver_decides = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate");
    let found = format!("governor {governor} of {driver}");
    if governor == "powersave" && !driver_decides {
        let fix = "for the time of the copy: `cpupower frequency-set -g performance`";
        return Some(Finding::warn(what, format!("{found}: it stays at the lowest"), fix));
    }
    Some(Finding::ok(what, found))
}

fn sshd(facts: &Facts) -> Option<Finding> {
    let what = "sshd";
    let starts = facts.sshd.get("maxstartups")?;
    let begin: u64 = starts.split(':').next()?.parse().ok()?;
    let found = format!("MaxStartups {starts}");
    if begin < LOGINS {
        let fix = format!("in sshd_config there: MaxStartups {LOGINS}:30:100 or more, then reload sshd");
        return Some(Finding::warn(what, format!("{found}: haul logs in up to {LOGINS} times at once"), fix));
    }
    Some(Finding::ok(what, found))
}

fn writable(facts: &Facts) -> Finding {
    let what = "permission";
    let directory = &facts.directory;
    let read_only = facts.mount.as_ref().is_some_and(|mount| has(mount, "ro"));
    if read_only {
        let fix = "mount it for writing: `mount -o remount,rw …`";
        return Finding::bad(
            what,
            format!("`{directory}` is on a file system that is mounted read-only"),
            fix,
        );
    }
    if facts.writable {
        return Finding::ok(what, format!("`{directory}` can be written"));
    }
    Finding::bad(
        what,
        format!("this user may not write in `{directory}`"),
        "choose another directory or user",
    )
}

fn file_system(role: Role, mount: &MountedFs) -> Finding {
    let what = "file system";
    let MountedFs { kind, point, .. } = mount;
    let found = format!("{kind} at `{point}`");
    let written = role == Role::Destination;
    match kind.as_str() {
        "vfat" | "msdos" | "exfat" | "ntfs" | "ntfs3" | "fuseblk" if written => {
            let lost = format!("{found}: owners, modes, links and some names cannot be kept");
            Finding::bad(what, lost, "use a file system of this system, as ext4 or xfs")
        }
        "tmpfs" | "ramfs" if written => {
            let fix = "meant as it is? Else choose a directory on a disk";
            Finding::warn(what, format!("{found}: it is memory, gone after a restart"), fix)
        }
        "cifs" | "smb3" | "9p" | "fuse.sshfs" if written => {
            let fix = "copy to the machine that has the disk, over ssh, if it can be reached";
            Finding::warn(what, format!("{found}: owners, locks or times may not be kept"), fix)
        }
        _ => Finding::ok(what, found),
    }
}

fn nfs(mount: &MountedFs) -> Vec<Finding> {
    if mount.kind != "nfs" && mount.kind != "nfs4" {
        return Vec::new();
    }
    let what = "NFS options";
    let mut findings = Vec::new();
    if has(mount, "soft") {
        let found = "soft: a server that is slow for a moment makes writes fail";
        findings.push(Finding::bad(what, found, "mount it with `hard`"));
    }
    if has(mount, "sync") {
        let found = "sync: every write waits for the server";
        findings.push(Finding::warn(what, found, "mount it with `async`: haul syncs by itself"));
    }
    if has(mount, "noac") || value(mount, "actimeo=") == Some(0) {
        let found = "noac: every look at a file asks the server, and writes wait for it";
        findings.push(Finding::warn(what, found, "mount it without `noac` for the time of the copy"));
    }
    if has(mount, "proto=udp") {
        findings.push(Finding::bad(
            what,
            "proto=udp: data can be damaged silently",
            "mount it with `proto=tcp`",
        ));
    }
    for name in ["rsize=", "wsize="] {
        if let Some(bytes) = value(mount, name).filter(|bytes| *bytes < NFS_SIZE) {
            let found = format!("{name}{bytes}: a request carries {}", size(bytes));
            findings.push(Finding::warn(what, found, format!("mount it with `{name}1048576`")));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(what, "none that does harm"));
    }
    findings
}

fn has(mount: &MountedFs, option: &str) -> bool {
    mount.options.iter().any(|known| known == option)
}

fn value(mount: &MountedFs, name: &str) -> Option<u64> {
    mount.options.iter().find_map(|option| option.strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::doctor::Level;

    fn facts() -> Facts {
        Facts {
            aes: true,
            open_files: 1 << 20,
            writable: true,
            directory: "/x".to_owned(),
            mount: Some(mount("ext4", &["rw"])),
            ..Facts::default()
        }
    }

    fn mount(kind: &str, options: &[&str]) -> MountedFs {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        MountedFs { point: "/x".to_owned(), kind: kind.to_owned(), options }
    }

    fn worst(role: Role, facts: &Facts) -> (Level, &'static str) {
        let findings = examine_end(role, facts);
        assert!(findings.iter().all(|finding| (finding.level == Level::Ok) == finding.fix.is_none()));
        let worst = findings.into_iter().max_by_key(|finding| finding.level).unwrap();
        (worst.level, if worst.level == Level::Ok { "" } else { worst.what })
    }

    #[test]
    fn a_healthy_end_has_no_findings() {
        for role in [Role::Source, Role::Destination, Role::Either] {
            assert_eq!(worst(role, &facts()), (Level::Ok, ""));
        }
    }

    #[test]
    fn planted_problems_are_found() {
        let to = Role::Destination;
        for (open_files, level) in [(512, Level::Bad), (4096, Level::Warn)] {
            assert_eq!(worst(to, &Facts { open_files, ..facts() }), (level, "open files"));
        }
        assert_eq!(worst(to, &Facts { aes: false, ..facts() }), (Level::Warn, "AES"));
        assert_eq!(worst(to, &Facts { writable: false, ..facts() }), (Level::Bad, "permission"));
        let read_only = Facts { mount: Some(mount("ext4", &["ro"])), ..facts() };
        assert_eq!(worst(to, &read_only), (Level::Bad, "permission"));
        assert_eq!(worst(Role::Source, &read_only), (Level::Ok, ""));
        let sshd = BTreeMap::from([("maxstartups".to_owned(), "3:30:60".to_owned())]);
        assert_eq!(worst(to, &Facts { sshd, ..facts() }), (Level::Warn, "sshd"));
        let governed =
            |driver: &str| Facts { governor: Some(("powersave".to_owned(), driver.to_owned())), ..facts() };
        assert_eq!(worst(to, &governed("acpi-cpufreq")), (Level::Warn, "processor speed"));
        assert_eq!(worst(to, &governed("intel_pstate")), (Level::Ok, ""));
        let vfat = Facts { mount: Some(mount("vfat", &["rw"])), ..facts() };
        assert_eq!(worst(to, &vfat), (Level::Bad, "file system"));
        assert_eq!(worst(Role::Source, &vfat), (Level::Ok, ""));
    }

    #[test]
    fn nfs_options_are_judged() {
        let of =
            |options: &[&str]| worst(Role::Either, &Facts { mount: Some(mount("nfs4", options)), ..facts() });
        assert_eq!(of(&["rw", "hard", "rsize=1048576", "wsize=1048576", "softreval"]), (Level::Ok, ""));
        assert_eq!(of(&["rw", "soft"]), (Level::Bad, "NFS options"));
        assert_eq!(of(&["rw", "proto=udp"]), (Level::Bad, "NFS options"));
        for bad in ["sync", "noac", "actimeo=0", "rsize=8192", "wsize=32768"] {
            assert_eq!(of(&["rw", "hard", bad]), (Level::Warn, "NFS options"), "{bad}");
        }
        let local = Facts { mount: Some(mount("ext4", &["rw", "sync"])), ..facts() };
        assert_eq!(worst(Role::Either, &local), (Level::Ok, ""));
    }
}

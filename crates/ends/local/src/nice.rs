//! Giving way to other programs of the machine: the lowest priority for this process, and how long others have to wait
//! (PSI, see `Documentation/accounting/psi.rst` and `admin-guide/cgroup-v2.rst` of Linux).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_core::pressure::Pressure;
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// The lowest priority. Unless an I/O class is set, the kernel derives the I/O priority from it: best-effort, level 7,
/// the lowest (ioprio_set(2)).
const NICE: i32 = 19;
/// The shortest time that is measured.
const SHORTEST: Duration = Duration::from_millis(200);
/// The most control groups that are examined.
const MAX_GROUPS: usize = 64;
/// The mount points of control groups of version 2, alone or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A process of low priority that measures how long others have to wait.
pub struct Nice {
    /// The last value of each file: microseconds of waiting since the boot.
    before: HashMap<PathBuf, u64>,
    at: Instant,
    last: Option<Pressure>,
}

impl Nice {
    /// Gives all threads of this process, and those that they start later, the lowest priority.
    #[must_use]
    pub fn begin() -> Self {
        lower();
        let mut nice = Self { before: HashMap::new(), at: Instant::now(), last: None };
        // Without an earlier value, this only shows whether the kernel measures waiting.
        nice.last = nice.measure();
        nice
    }

    /// How long others waited since the last call; `None` if the kernel does not measure it.
    pub fn pressure(&mut self) -> Option<Pressure> {
        if self.at.elapsed() >= SHORTEST {
            self.last = self.measure();
        }
        self.last
    }

    fn measure(&mut self) -> Option<Pressure> {
        let elapsed = self.at.elapsed().as_micros();
        self.at = Instant::now();
        let own = own_group();
        let groups = own.as_ref().map(|(mount, path)| others(mount, path)).unwrap_or_default();
        let mut pressure = Pressure { io: 0, cpu: 0, own: groups.is_empty() };
        let files: Vec<[PathBuf; 2]> = if groups.is_empty() {
            vec![["/proc/pressure/io".into(), "/proc/pressure/cpu".into()]]
        } else {
            groups.iter().map(|group| [group.join("io.pressure"), group.join("cpu.pressure")]).collect()
        };
        let mut now = HashMap::new();
        for [io, cpu] in files {
            for (file, worst) in [(io, &mut pressure.io), (cpu, &mut pressure.cpu)] {
                let Some(total) = fs::read_to_string(&file).ok().as_deref().and_then(some_total) else {
                    continue;
                };
                let waited = self.before.get(&file).map_or(0, |before| total.saturating_sub(*before));
                let share = u128::from(waited) * 1000 / elapsed.max(1);
                *worst = (*worst).max(u16::try_from(share).unwrap_or(1000).min(1000));
                now.insert(file, total);
            }
        }
        self.before = now;
        (!self.before.is_empty()).then_some(pressure)
    }
}

/// Every thread has a priority of its own; a new one inherits that of the thread that starts it.
fn lower() {
    for _ in 0..3 {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let pids = tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?));
        let higher: Vec<Pid> =
            pids.filter(|pid| getpriority_process(Some(*pid)).is_ok_and(|nice| nice < NICE)).collect();
        if higher.is_empty() {
            return;
        }
        for pid in higher {
            // Lowering needs no privilege, and a thread that has ended needs no priority.
            let _ = setpriority_process(Some(pid), NICE);
        }
    }
}

/// The control group of this process: the mount point of its tree, and its path in the tree.
fn own_group() -> Option<(PathBuf, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = MOUNTS.iter().map(Path::new).find(|mount| mount.join("cgroup.controllers").exists())?;
    // In a namespace of its own, a group does not see its siblings.
    (!path.is_empty()).then(|| (mount.to_owned(), PathBuf::from(path)))
}

/// The siblings of the own group and of each of its ancestors: together all other groups.
fn others(mount: &Path, own: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = mount.to_owned();
    for name in own.components() {
        let names = fs::read_dir(&at).into_iter().flatten().flatten();
        let siblings = names.filter(|entry| {
            entry.file_name() != name.as_os_str() && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        found.extend(siblings.map(|entry| entry.path()).filter(|path| path.join("io.pressure").exists()));
        at.push(name);
    }
    found.truncate(MAX_GROUPS);
    found
}

/// The microseconds of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_the_kernel_is_parsed() {
        let text = "some avg10=0.46 avg60=1.97 avg300=8.03 total=618843811\n\
                    full avg10=0.24 avg60=1.14 avg300=3.51 total=218430939\n";
        assert_eq!(some_total(text), Some(618_843_811));
        assert_eq!(some_total("full avg10=0.24 total=1\n"), None);
        assert_eq!(some_total("some total=x\n"), None);
    }

    #[test]
    fn others_are_the_siblings_of_the_own_group_at_each_level() {
        let scratch = tempfile::tempdir().unwrap();
        let group = |path: &str| {
            fs::create_dir_all(scratch.path().join(path)).unwrap();
            fs::write(scratch.path().join(path).join("io.pressure"), "").unwrap();
        };
        for path in [
            "system.slice",
            "system.slice/db",
            "user.slice",
            "user.slice/u1",
            "user.slice/u1/s1",
            "user.slice/u1/s2",
        ] {
            group(path);
        }
        fs::create_dir(scratch.path().join("threaded")).unwrap();
        let mut found = others(scratch.path(), Path::new("user.slice/u1/s1"));
        found.sort();
        assert_eq!(found, ["system.slice", "user.slice/u1/s2"].map(|path| scratch.path().join(path)));
    }
}
